"""A broker for the loads and experiments of `penstock bench`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.bench.target import Target
from tests.server.conftest import broker
from tests.support.brokers import BrokerProcess

__all__ = ["broker", "target"]


@pytest.fixture
def target(broker: BrokerProcess) -> Iterator[Target]:
    """Return the broker as a target."""
    return Target.ask(broker.url)
