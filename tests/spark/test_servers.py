"""Several servers, one of which is away: the query ends, or only the queues of that server wait."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from pyspark_penstock import connections, planner, servers
from pyspark_penstock.errors import BrokerUnreachable, SparkSourceError
from pyspark_penstock.reader import PenstockStreamReader
from tests.spark.conftest import until
from tests.support.spark_readers import ALL, values
from tests.support.tcp_proxy import Proxy, proxied

T = TypeVar("T")


@pytest.fixture
def proxy(second_broker) -> Iterator[Proxy]:
    with proxied(second_broker.address) as proxy:
        yield proxy


@pytest.fixture
def pair(broker, second_broker, proxy, open_reader) -> tuple[str, Callable[..., PenstockStreamReader]]:
    """Return a maker of readers of one queue on two servers, of which the second is behind a proxy."""
    queue = broker.declare()
    second_broker.declare(name=queue)

    def make(**others: str) -> PenstockStreamReader:
        given = {
            "servers": f"{broker.address},{proxy.address}",
            "subscribe": queue,
            "cursor": f"pair-{queue}",
            "fetchOffset.retryIntervalMs": "1",
            "fetchOffset.numRetries": "1",
        }
        return open_reader(broker, **(given | others))

    return queue, make


@pytest.fixture(autouse=True)
def asks_at_once(monkeypatch):
    """Ask a server that is away at every plan, and tell of it each time."""
    monkeypatch.setattr(servers, "AWAY_PAUSE_MAX", 0.0)
    monkeypatch.setattr(servers, "PAUSE_PER_ATTEMPT", 0)
    for module in (planner, connections):
        monkeypatch.setattr(module, "SAY_SECONDS", 0.0)


def lose(proxy: Proxy) -> None:
    proxy.down = True
    proxy.cut()


def until_read(reader: PenstockStreamReader, start: dict, key: str, sequence: int) -> dict:
    """Plan until an offset has reached a sequence; the pause of a server that is away has to pass."""
    while start["q"].get(key, 0) < sequence:
        start = reader.latestOffset(start, ALL)
    return start


def test_server_that_is_away_holds_back_its_own_queue_and_gets_its_positions(
    broker, second_broker, proxy, pair, caplog
):
    queue, make = pair
    reader = make(onServerLoss="wait")
    start = reader.initialOffset()
    here, there = f"{queue}@{broker.address}", f"{queue}@{proxy.address}"
    second_broker.publish(queue, [b"1", b"2"])
    start = until_read(reader, start, there, 2)
    second_broker.publish(queue, [b"3"])
    lose(proxy)
    for number in range(1, 4):
        broker.publish(queue, [b"x"])
        start = until_read(reader, start, here, number)
    assert start["q"] == {here: 3, there: 2}
    reader.commit(start)
    assert f"'{there}' there waits, at least 0 messages behind" in caplog.text
    assert broker.depth(queue) == 0
    proxy.down = False
    start = until_read(reader, start, there, 3)
    assert f"{proxy.address} is back after" in caplog.text
    reader.latestOffset(start, ALL)
    assert second_broker.depth(queue) == 0, "it was told of what had been done while it was away"


def test_server_that_is_away_ends_the_query_on_request(proxy, pair):
    _, make = pair
    reader = make(onServerLoss="fail")
    start = reader.initialOffset()
    lose(proxy)
    with pytest.raises(BrokerUnreachable, match=f"the broker at {proxy.address} could not be asked in 2 attempts"):
        reader.latestOffset(start, ALL)


def test_query_begins_with_the_servers_that_are_there_and_the_other_joins(broker, second_broker, proxy, pair):
    queue, make = pair
    here, there = f"{queue}@{broker.address}", f"{queue}@{proxy.address}"
    broker.publish(queue, [b"1"])
    second_broker.publish(queue, [b"2"])
    lose(proxy)
    reader = make(onServerLoss="wait")
    start = reader.initialOffset()
    assert start["q"] == {here: 0}
    start = until_read(reader, start, here, 1)
    proxy.down = False
    end = until_read(reader, start, there, 1)
    rows = [batch.num_rows for partition in reader.partitions(start, end) for batch in reader.read(partition)]
    assert rows == [1]
    restarted = make(onServerLoss="wait")
    assert [piece.value.queue for piece in restarted.partitions(start, end)] == [queue]


@contextmanager
def waited_for(proxy: Proxy, act: Callable[[], T]) -> Iterator[list[T]]:
    """Let something wait for a server that is away, and is back when it was tried; its result is the item then."""
    found: list[T] = []
    lose(proxy)
    before = proxy.refused
    thread = threading.Thread(target=lambda: found.append(act()))
    thread.start()
    until(lambda: proxy.refused > before + 3, "the server is tried")
    proxy.down = False
    thread.join(60)
    yield found


def test_server_that_is_away_is_awaited_at_the_start_in_a_replay_and_in_a_task(second_broker, proxy, pair, caplog):
    queue, make = pair
    second_broker.publish(queue, [b"1", b"2"])
    reader = make(servers=proxy.address)
    with waited_for(proxy, reader.initialOffset) as (start,):
        end = reader.latestOffset(start, ALL)
    assert end["q"] == {queue: 2}
    with waited_for(proxy, lambda: values(reader, reader.partitions(start, end))) as (read,):
        assert read == [b"1", b"2"]
    reader.stop()
    restarted = make(servers=proxy.address)
    with waited_for(proxy, lambda: restarted.partitions(start, end)) as (partitions,):
        assert values(restarted, partitions) == [b"1", b"2"]
    assert f"the query has waited for {proxy.address} (onServerLoss=wait)" in caplog.text


def test_run_that_ends_waits_for_the_server_with_the_rest(second_broker, proxy, pair):
    queue, make = pair
    second_broker.publish(queue, [b"1", b"2"])
    reader = make(servers=proxy.address)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    with waited_for(proxy, lambda: reader.latestOffset(start, ALL)) as (end,):
        assert end["q"] == {queue: 2}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"password": "wrong"}, "cannot connect"),
        ({"vhost": "none"}, "cannot connect"),
        ({"servers": "no-such-host.invalid:5672"}, "the name cannot be resolved"),
        ({"subscribe": "no-such-queue"}, "no queue 'no-such-queue'"),
    ],
)
def test_error_that_no_waiting_heals_is_raised_at_once(pair, wrong, sentence):
    _, make = pair
    with pytest.raises(SparkSourceError, match=sentence):
        make(**wrong).initialOffset()
