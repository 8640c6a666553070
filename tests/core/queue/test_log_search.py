"""The search for the first message since a time."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from penstock.core.consume.stream_scan import StreamScan
from penstock.core.queue.log_search import LogSearch
from tests.support.memory_store import WALL
from tests.support.stream_house import StreamHouse


def scan_from(house: StreamHouse, since: float) -> StreamScan:
    """Return the scan of a consumer that begins at a time of the broker's clock."""
    consumer = house.consume(f"c{len(house.sent)}", datetime.fromtimestamp(since + WALL, UTC), prefetch=1)
    scan = consumer.scan
    assert isinstance(scan, StreamScan)
    return scan


def search(house: StreamHouse, since: float) -> int:
    scan = scan_from(house, since)
    house.settle()
    house.broker.cancel(house.session, scan.consumer.tag)
    return int(scan.position)


@pytest.mark.parametrize("seed", range(5))
def test_search_finds_the_first_message_since_any_time(seed: int) -> None:
    chance = random.Random(seed)
    house = StreamHouse()
    arrivals: list[float] = []
    for _ in range(chance.randrange(1, 30)):
        for _ in range(chance.randrange(1, 6)):
            house.step(chance.choice((0.0, 0.5, 2.0)))
            house.publish("s", b"x", 300)
            arrivals.append(house.now)
        if chance.random() < 0.8:
            house.write()
    for since in sorted({0.0, *arrivals, *[each + 0.125 for each in arrivals], 1e8}):
        expected = next((index for index, each in enumerate(arrivals) if each >= since), len(arrivals)) + 1
        assert search(house, since) == expected


def test_search_in_an_empty_stream_ends_at_the_next_message() -> None:
    assert search(StreamHouse(), 0.0) == 1


def test_cancelled_search_tells_nobody() -> None:
    house = StreamHouse()
    house.append(0, 9)
    scan = scan_from(house, 0.0)
    running = LogSearch(house.log, 0.0, scan)
    running.begin()
    scan.end()
    running.cancel()
    house.settle()
    assert scan.position == 0
