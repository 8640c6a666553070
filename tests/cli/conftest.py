"""Brokers for the commands: those of tests/server, and a RabbitMQ."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bench.brokers import RABBITMQ, start_rabbitmq
from tests.server.conftest import broker, name, own_broker, server, store

__all__ = ["broker", "name", "own_broker", "server", "store"]


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a RabbitMQ."""
    if RABBITMQ not in os.environ.get("PENSTOCK_BESIDE", "").split():
        pytest.skip("PENSTOCK_BESIDE=rabbitmq asks for it")
    node = start_rabbitmq(RABBITMQ, tmp_path_factory.mktemp("rabbitmq"))
    yield f"amqp://guest:guest@127.0.0.1:{node.port}/"
    node.stop()
