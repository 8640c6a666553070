"""Fixtures of the kit for its own tests, whether the plugin is installed or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock.testing
from penstock.testing import BrokerProcess, Server
from penstock.testing.plugin import (
    penstock_broker,
    penstock_clock,
    penstock_full_queue,
    penstock_slow_consumer,
    penstock_url,
)

__all__ = [
    "penstock_broker",
    "penstock_clock",
    "penstock_full_queue",
    "penstock_slow_consumer",
    "penstock_url",
]


@pytest.fixture(scope="session")
def penstock_server() -> Iterator[Server]:
    with penstock.testing.server(within_s=60.0) as running:
        yield running


@pytest.fixture
def penstock_process(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path, within_s=60.0)
    yield broker
    broker.kill()
