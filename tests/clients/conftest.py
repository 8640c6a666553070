"""One broker for all tests with real clients, and one of its own for a test that looks at the whole of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess, serving, some_name


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that all tests share; it must outlive them all."""
    with serving(tmp_path_factory.mktemp("shared")) as process:
        yield process
        assert process.process.poll() is None, process.log()
        assert "Traceback" not in process.log()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker for one test alone."""
    with serving(tmp_path) as process:
        yield process
        assert "Traceback" not in process.log()


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
