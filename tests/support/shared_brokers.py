"""Fixtures of brokers in processes of their own, for the conftest of each folder that needs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.sync import Connection, connect
from tests.support.brokers import BrokerProcess, serving, settings_file

AS_RABBITMQ_4 = '[broker]\nrabbitmq-version = "4.2.0"\n'
"""Settings for RabbitMQ's clients of AMQP 1.0: they refuse to work with other products, and with earlier versions."""


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that all tests share; it must outlive them all."""
    with serving(tmp_path_factory.mktemp("shared")) as process:
        yield process
        assert process.process.poll() is None, process.log()
        assert "Traceback" not in process.log()


@pytest.fixture(scope="session")
def broker_as_rabbitmq_4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that says in `open` that it is RabbitMQ 4."""
    folder = tmp_path_factory.mktemp("as_rabbitmq_4")
    with serving(folder, *settings_file(folder, AS_RABBITMQ_4)) as process:
        yield process
        assert "Traceback" not in process.log()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker for one test alone."""
    with serving(tmp_path) as process:
        yield process
        assert "Traceback" not in process.log()


@pytest.fixture
def control(own_broker: BrokerProcess) -> Iterator[Connection]:
    """A connection of its operator."""
    with connect(own_broker.url, protocol="amqp091") as control:
        yield control
