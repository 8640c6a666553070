"""Settings of the shop."""

SECRET_KEY = "for tests only"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "urls"
BROKER_URL = "amqp://guest:guest@127.0.0.1:5672/"
