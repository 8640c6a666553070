"""Search by time: any arrivals in memory and on pages agree with a list of all messages."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.broker import Broker
from penstock.core.message import Envelope
from penstock.core.queue.indexed_ready_queue import CHUNK
from penstock.core.queue.queue import Queue
from penstock.core.settings.limits import Defaults
from penstock.errors import PreconditionFailed
from penstock.ranges.cursors import Cursor
from penstock.ranges.times import TimeSearch
from tests.profiles import examples
from tests.support.paging_broker import PagedHouse, house_with, publish

OFFSET = 1_000.0
"""Seconds since the epoch when the broker's clock is 0."""


def fail() -> None:
    raise AssertionError("nothing is on a disk")


def queue_of(arrivals: list[float]) -> Queue:
    vhost = Broker(Defaults()).add_vhost("/")
    queue = vhost.declare_queue("q", {}, False, False, None, None)
    for arrived in arrivals:
        queue.enqueue(Envelope("", "q"), b"", 10, arrived)
    return queue


def found(queue: Queue, since: float) -> tuple[int, int]:
    search = TimeSearch(queue, round((OFFSET + since) * 1_000_000), OFFSET, fail)
    assert search.go_on()
    return int(search.offset), int(search.arrived_us)


@settings(max_examples=examples(100), derandomize=True, database=None)
@given(st.lists(st.integers(0, 5), max_size=3 * CHUNK), st.integers(0, 40), st.integers(0, 20))
def test_offset_is_before_the_first_message_at_or_after_the_time(gaps: list[int], since: int, settled: int) -> None:
    arrivals: list[float] = []
    for gap in gaps:
        arrivals.append((arrivals[-1] if arrivals else 0) + gap / 8)
    queue = queue_of(arrivals)
    cursor = Cursor("/", "c")
    cursor.attach([queue], {"q": "earliest"}, 0.0)
    settled = min(settled, len(arrivals))
    cursor.settle("q", settled, 0.0)
    later = [index for index, arrived in enumerate(arrivals) if arrived >= since / 4 and index >= settled]
    offset, arrived_us = found(queue, since / 4)
    assert offset == (later[0] if later else len(arrivals))
    assert arrived_us == (round((OFFSET + arrivals[later[0]]) * 1_000_000) if later else -1)


def test_search_looks_at_few_messages_of_very_many() -> None:
    queue = queue_of([float(number) for number in range(40 * CHUNK)])
    search = TimeSearch(queue, round((OFFSET + 5_000) * 1_000_000), OFFSET, fail)
    chunks = 0
    while not search.reach():
        chunks += 1
    assert chunks == 39, "each call moves one chunk into the index"
    assert search.go_on()
    assert search.offset == 5_000


def test_messages_that_come_during_a_search_are_not_passed_over() -> None:
    queue = queue_of([1.0])
    search = TimeSearch(queue, round((OFFSET + 5) * 1_000_000), OFFSET, fail)
    while not search.reach():
        pass
    queue.enqueue(Envelope("", "q"), b"", 10, 6.0)
    assert search.go_on()
    assert search.offset == 1


def test_queue_with_priorities_is_refused() -> None:
    vhost = Broker(Defaults()).add_vhost("/")
    queue = vhost.declare_queue("q", {"x-max-priority": 5}, False, False, None, None)
    with pytest.raises(PreconditionFailed, match="has priorities, so its messages are not in the order"):
        TimeSearch(queue, 0, 0.0, fail)


class PagedSearch:
    """A search that is driven through the disk."""

    def __init__(self, house: PagedHouse, since: float) -> None:
        self.house = house
        self.reads = 0
        self.search = TimeSearch(house.queues["q"], round((OFFSET + since) * 1_000_000), OFFSET, self.on_read)

    def run(self) -> int:
        self.done = self.search.go_on()
        while not self.done:
            self.house.ask()
            assert self.house.reads, "it waits for nothing"
            self.house.load()
        return int(self.search.offset)

    def on_read(self) -> None:
        self.reads += 1
        self.done = self.search.go_on()


def paged(count: int, settle: bool) -> tuple[PagedHouse, list[float]]:
    """Return a queue of messages that arrive about a second apart, mostly on the disk, and their arrivals."""
    house = house_with(capacity_messages=20)
    arrivals: list[float] = []
    for number in range(1, count + 1):
        house.step(1.0)
        arrivals.append(house.now)
        publish(house, number, number)
        if number == count // 2:
            house.settle()
    if settle:
        house.settle()
    return house, [*arrivals, house.now + 0.5]


@pytest.mark.parametrize("settled", [True, False], ids=["written", "partly being written"])
@pytest.mark.parametrize("wanted", [1, 5, 19, 20, 21, 22, 100, 199, 200, 201, 399, 400, 401])
def test_search_goes_to_the_disk_and_leaves_the_memory_unchanged(settled: bool, wanted: int) -> None:
    house, arrivals = paged(400, settled)
    before = int(house.pages("q").messages)
    assert before > 300
    assert PagedSearch(house, arrivals[wanted - 1] - 0.005).run() == wanted - 1
    assert house.pages("q").messages == before


def test_search_reads_as_many_pages_as_the_logarithm_of_the_number_of_pages() -> None:
    house, arrivals = paged(2_000, True)
    search = PagedSearch(house, arrivals[1_233] - 0.005)
    assert search.run() == 1_233
    assert search.reads <= 10, "some two hundred pages of ten messages"
