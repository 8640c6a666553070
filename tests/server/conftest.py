"""One broker for all tests on bare sockets, and one of its own for a test that looks at the whole of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers import BrokerProcess, serving, some_name
from tests.support.http_client import Web
from tests.support.shared_brokers import broker, own_broker

__all__ = ["broker", "own_broker"]


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses, for a queue or an exchange."""
    return some_name("q")


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with its HTTP API, for all tests of that."""
    with serving(tmp_path_factory.mktemp("served"), "--http", "127.0.0.1:0") as process:
        yield process
        assert process.process.poll() is None, process.log()
        assert "Traceback" not in process.log()


@pytest.fixture
def web(served: BrokerProcess) -> Web:
    """A client of it."""
    return Web(served.http)
