"""A broker and a worker of Dramatiq's, as its tests of RabbitMQ expect them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import dramatiq
import pika.connection
import pytest
from dramatiq import Worker
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from .common import RABBITMQ_CREDENTIALS

# The tests connect to pika's default port.
pika.connection.Parameters.DEFAULT_PORT = int(os.environ["RABBITMQ_5672_TCP"])


@pytest.fixture
def rabbitmq_broker() -> Iterator[RabbitmqBroker]:
    broker = RabbitmqBroker(host="127.0.0.1", max_priority=10, credentials=RABBITMQ_CREDENTIALS)
    broker.emit_after("process_boot")
    dramatiq.set_broker(broker)
    yield broker
    broker.flush_all()
    broker.close()


@pytest.fixture
def rabbitmq_worker(rabbitmq_broker: RabbitmqBroker) -> Iterator[Worker]:
    worker = Worker(rabbitmq_broker, worker_threads=32)
    worker.start()
    yield worker
    worker.stop()
