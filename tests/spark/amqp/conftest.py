"""Brokers and readers of the source `amqp`, without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadLimit

from pyspark_amqp.options import amqp_options
from pyspark_amqp.reader import AmqpStreamReader
from pyspark_amqp.spool.settings import AMQP091, AMQP1
from tests.support.amqp_peers import OURS, PEERS, Peer, peer
from tests.support.spark_readers import ALL, bodies


@pytest.fixture(scope="session")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Peer]]:
    """Each broker by its name, started when a test asks for it, and again after one that has killed it."""
    from contextlib import ExitStack
    from functools import cache

    with ExitStack() as stack:

        @cache
        def find(name: str) -> Peer:
            return stack.enter_context(peer(name, tmp_path_factory.mktemp(name)))

        yield find


@pytest.fixture(params=PEERS)
def peer_name(request: pytest.FixtureRequest) -> str:
    """Each broker of these tests in turn."""
    return str(request.param)


@contextmanager
def speaking(found: Peer, protocol: str) -> Iterator[Peer]:
    """Have the source speak this protocol to a broker for as long as the context lasts."""
    if protocol not in found.protocols:
        pytest.skip(f"{found.name} is asked by {', '.join(found.protocols)}")
    before, found.protocol = found.protocol, protocol
    yield found
    found.protocol = before


by_each_protocol = pytest.mark.parametrize("broker", [AMQP091, AMQP1], indirect=True)


@pytest.fixture(params=[AMQP091, pytest.param(AMQP1, marks=pytest.mark.long)])
def broker(request: pytest.FixtureRequest, peer_name: str, peers: Callable[[str], Peer]) -> Iterator[Peer]:
    """A broker that all tests share, each of them in turn, which the source speaks to by each protocol.

    Tests `by_each_protocol` have both of them in the short run too.
    """
    with speaking(peers(peer_name), request.param) as found:
        yield found


@pytest.fixture(params=[AMQP091, pytest.param(AMQP1, marks=pytest.mark.long)])
def spooled(request: pytest.FixtureRequest, peer_name: str, peers: Callable[[str], Peer]) -> Iterator[Peer]:
    """The same for what is of the spool: the protocol does not matter, and the second one is left to the long run."""
    with speaking(peers(peer_name), request.param) as found:
        yield found


@pytest.fixture
def ours(peers: Callable[[str], Peer]) -> Peer:
    """Penstock as an ordinary broker, for what is the same with every one."""
    return peers(OURS)


@pytest.fixture
def reader_of(tmp_path: Path) -> Iterator[Callable[..., AmqpStreamReader]]:
    readers = []

    def make(broker: Peer, queue: str, **others: str) -> AmqpStreamReader:
        given = {
            "servers": broker.address, "protocol": broker.protocol, "subscribe": queue,
            "spool": str(tmp_path / "spool"), "fetchWait": "100ms",
            "fetchOffset.retryIntervalMs": "50", "fetchOffset.numRetries": "400",
        }  # fmt: skip
        given |= {name.replace("_", "."): text for name, text in others.items()}
        readers.append(AmqpStreamReader(amqp_options(given)))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


def next_batch(reader: AmqpStreamReader, start: dict[str, Any], limit: ReadLimit = ALL) -> dict[str, Any]:
    """Ask until there is something after `start`, as Spark does."""
    for _ in range(600):
        end = reader.latestOffset(start, limit)
        if end != start:
            return end
    raise AssertionError(f"nothing came after {start}")


def read_until(
    reader: AmqpStreamReader, start: dict[str, Any], count: int, limit: ReadLimit = ALL
) -> tuple[list[bytes], dict[str, Any]]:
    """Read batches until there were `count` messages; return their bodies and the end of the last batch."""
    found: list[bytes] = []
    while len(found) < count:
        end = next_batch(reader, start, limit)
        found += bodies(reader, start, end)
        start = end
    return found, start
