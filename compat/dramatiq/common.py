"""What Dramatiq's tests of RabbitMQ take from their neighbour `common`."""

from __future__ import annotations

import pika
import pytest

RABBITMQ_USERNAME = "guest"
RABBITMQ_PASSWORD = "guest"
RABBITMQ_CREDENTIALS = pika.PlainCredentials(RABBITMQ_USERNAME, RABBITMQ_PASSWORD)

# There is always a broker here.
skip_unless_rabbit_mq = pytest.mark.skipif(False, reason="there is a broker")
