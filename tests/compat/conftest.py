"""One broker for all tests of compatibility: ours, and RabbitMQ beside it where PENSTOCK_BESIDE=rabbitmq asks for it.

What a test here says holds for both, so nobody argues from memory what RabbitMQ does. These are our tests of single
methods; the folder `compat` beside `tests` runs suites of other people, and `tests/clients` tests real clients.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from bench.brokers import RABBITMQ, start_rabbitmq
from tests.support.brokers import serving, some_name
from tests.support.raw_client import Peer, open_peer
from tests.support.routing_helpers import Routes

OURS = "penstock"
BROKERS = [OURS, *os.environ.get("PENSTOCK_BESIDE", "").split()]


@contextmanager
def running(name: str, folder: Path) -> Iterator[str]:
    """Run a broker for as long as the context lasts; its URL."""
    if name == OURS:
        with serving(folder) as process:
            yield process.url
            assert process.process.poll() is None, process.log()
            assert "Traceback" not in process.log()
    elif name == RABBITMQ:
        broker = start_rabbitmq(name, folder)
        try:
            yield f"amqp://guest:guest@127.0.0.1:{broker.port}/"
        finally:
            broker.stop()
    else:
        raise ValueError(f"PENSTOCK_BESIDE={name}: known is {RABBITMQ}")


@pytest.fixture(scope="session")
def url_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The URL of each broker by its name; all tests share them, and one that nobody asks for is not started."""
    with ExitStack() as stack:

        @cache
        def find(name: str) -> str:
            return stack.enter_context(running(name, tmp_path_factory.mktemp(name)))

        yield find


@pytest.fixture(scope="session", params=BROKERS)
def url(request: pytest.FixtureRequest, url_of: Callable[[str], str]) -> str:
    """The URL of a broker that all tests share."""
    return url_of(request.param)


@pytest.fixture
def ours(url: str, request: pytest.FixtureRequest) -> bool:
    """Whether it is our broker that is tested."""
    return bool(request.node.callspec.params["url"] == OURS)


@pytest.fixture
def at(url: str) -> tuple[str, int]:
    """Host and port of the broker, for those who talk to it on a bare socket."""
    parameters = pika.URLParameters(url)
    return parameters.host, parameters.port


@pytest.fixture
def peer(at: tuple[str, int]) -> Iterator[Peer]:
    """A bare socket whose connection is open, with channel 1."""
    with open_peer(at) as peer:
        yield peer


@pytest.fixture
def queue(peer: Peer) -> str:
    """An exclusive queue of that connection."""
    return peer.declare()


@pytest.fixture
def other(at: tuple[str, int]) -> Iterator[Peer]:
    """Another such connection."""
    with open_peer(at) as peer:
        yield peer


@pytest.fixture
def connection(url: str) -> Iterator[pika.BlockingConnection]:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    yield connection
    if connection.is_open:
        connection.close()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    return connection.channel()


@pytest.fixture
def routes(channel: BlockingChannel, name: str) -> Routes:
    """Queues that are bound, and what arrives in them."""
    return Routes(channel, name)


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return some_name("q")
