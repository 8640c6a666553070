"""One broker for all tests on bare sockets, and one of its own for a test that looks at the whole of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import BrokerProcess, serving, some_name
from tests.support.http_client import Web
from tests.support.postgres import Cluster, cluster, needs_postgres
from tests.support.raw_client import Peer, open_peer
from tests.support.shared_brokers import broker, control, own_broker

__all__ = ["broker", "control", "own_broker"]


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
def own_served(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with its HTTP API for one test alone."""
    with serving(tmp_path, "--http", "127.0.0.1:0") as process:
        yield process
        assert "Traceback" not in process.log()


@pytest.fixture
def peer(broker: BrokerProcess) -> Iterator[Peer]:
    """A bare socket with channel 1 open."""
    with open_peer(broker) as peer:
        yield peer


@pytest.fixture
def data(tmp_path: Path) -> str:
    """A data directory that is not there yet."""
    return str(tmp_path / "data")


@pytest.fixture
def queue(peer: Peer) -> str:
    """An exclusive queue of that connection."""
    return peer.declare()


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """A server of PostgreSQL."""
    with cluster() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Options of a store that is empty at first."""
    if request.param == "sqlite":
        yield "--data", str(tmp_path / "data")
        return
    with cluster() as server:
        yield "--store", server.url(schema=some_name("store"))


@pytest.fixture
def web(served: BrokerProcess) -> Web:
    """A client of it."""
    return Web(served.http)
