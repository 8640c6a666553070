"""One broker for all tests with real clients, and one of its own for a test that looks at the whole of it.

These are our tests of clients at a full queue, and of the programs of pages and examples. `compat` beside `tests` runs
the clients' own suites, and `tests/compat` tests what each method answers.
"""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess, some_name
from tests.support.shared_brokers import broker, broker_as_rabbitmq_4, control, own_broker

__all__ = ["broker", "broker_as_rabbitmq_4", "control", "own_broker"]


@pytest.fixture
def name() -> str:
    """A name that no other test uses, for a queue or an exchange."""
    return some_name("q")


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[pika.BlockingConnection]:
    """A connection of pika's."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    yield connection
    if connection.is_open:
        connection.close()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    """A channel of pika's."""
    return connection.channel()
