"""Set-up of Django for the tests; pytest-django does the same."""

import os

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()
