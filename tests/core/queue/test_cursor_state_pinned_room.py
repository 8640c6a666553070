"""Chains of queues in one limit: a query that pins messages there publishes past its gate, within half of it."""

from __future__ import annotations

import pytest

from penstock.core.queue.cursor_state import PinnedRooms, QueryId
from penstock.core.queue.queue import Queue
from penstock.flow.level import UNLIMITED
from penstock.ranges.cursors import Cursor
from penstock.ranges.plan_batch import most_to_plan
from tests.support.chained_queues import LIMIT, Chain
from tests.support.settings_bench import Bench


def batch(chain: Chain, reads: str, writes: str, rows: int) -> int:
    """Let a query take one batch; return its number of messages, all of them confirmed."""
    count = chain.plan(reads, rows)
    sink = chain.sink(reads)
    for _ in range(count):
        chain.publish(sink, writes, 100)
    assert not sink.outbox, f"held with {chain.depth(writes)} of {count} in {writes}"
    assert sum(int(run.last - run.first) + 1 for run in sink.confirms.take() if run.confirmed) == count
    chain.settle(reads)
    sink.abort()
    return count


def test_chain_in_the_same_virtual_host_moves_though_the_limit_is_full() -> None:
    chain = Chain("q1", "q2")
    source = chain.fill("q1")
    assert chain.depth("q1") == LIMIT
    moved = 0
    for _ in range(10):
        moved += batch(chain, "q1", "q2", LIMIT)
        assert chain.total() <= LIMIT
        chain.plan("q2", LIMIT)
        chain.settle("q2")
        while not source.outbox:
            chain.publish(source, "q1", 100)
    assert moved >= 10 * LIMIT // 4


def test_full_queues_of_a_chain_move_together() -> None:
    chain = Chain("q1", "q2", "q3")
    sources = [chain.fill("q1")]
    batch(chain, "q1", "q2", 400)
    counts = [chain.plan("q1", 300), chain.plan("q2", 300)]
    assert counts == [300, 300]
    sinks = [chain.sink("q1"), chain.sink("q2")]
    for _ in range(300):
        chain.publish(sinks[0], "q2", 100)
        chain.publish(sinks[1], "q3", 100)
    assert [len(sink.outbox) for sink in sinks] == [0, 0]
    assert chain.total() <= LIMIT + 2 * LIMIT // 2
    chain.settle("q1")
    chain.settle("q2")
    assert chain.total() <= LIMIT
    assert sources[0].outbox


def test_ordinary_producer_waits_as_before() -> None:
    chain = Chain("q1", "q2")
    chain.fill("q1")
    chain.plan("q1", 100)
    stranger = chain.producer()
    chain.publish(stranger, "q2", 100)
    assert stranger.outbox
    other = chain.sink("q2")
    chain.publish(other, "q1", 100)
    assert other.outbox, "its query pins nothing there"
    assert chain.total() == LIMIT


def test_query_that_makes_much_more_than_read_stops_at_half_of_the_limit() -> None:
    chain = Chain("q1", "q2")
    chain.fill("q1")
    chain.plan("q1", 100)
    sink = chain.sink("q1")
    while not sink.outbox:
        chain.publish(sink, "q2", 100)
    assert chain.total() == LIMIT + LIMIT // 2
    chain.settle("q1")
    assert chain.total() == LIMIT + LIMIT // 2 - 100
    chain.plan("q1", 100)
    again = chain.sink("q1")
    for _ in range(101):
        chain.publish(again, "q2", 100)
    assert len(again.outbox) == 1, "what it has taken and not given back counts"
    assert chain.total() == LIMIT + LIMIT // 2


def test_capacity_of_the_target_stays_exact() -> None:
    chain = Chain("q1")
    chain.queue("q2", capacity_messages=50)
    chain.fill("q1")
    chain.plan("q1", 100)
    sink = chain.sink("q1")
    for _ in range(100):
        chain.publish(sink, "q2", 100)
    assert chain.depth("q2") == 50
    assert sink.outbox


def test_bytes_are_judged_as_messages_are() -> None:
    chain = Chain("q1", "q2", capacity_bytes=100_000)
    chain.fill("q1", 1_000)
    assert chain.plan("q1", LIMIT) == 25
    sink = chain.sink("q1")
    for _ in range(50):
        chain.publish(sink, "q2", 1_000)
    assert not sink.outbox
    chain.publish(sink, "q2", 1_000)
    assert sink.outbox


def test_plan_pins_at_most_a_part_of_the_smallest_limit() -> None:
    chain = Chain("q1", capacity_messages=1_000, capacity_bytes=8_000_000)
    most = most_to_plan(chain.cursors["q1"])
    assert (most.messages, most.bytes) == (500, 2_000_000)
    chain.set("vhost", "/", capacity_messages=1)
    assert most_to_plan(chain.cursors["q1"]).messages == 1
    plain = Bench()
    plain.queue("q")
    cursor = Cursor("/", "c")
    cursor.attach([plain.vhost.queues["q"]], {"q": "earliest"}, 0.0)
    assert most_to_plan(cursor).messages >= UNLIMITED // 2


@pytest.mark.parametrize("ends", ["deleted", "another query"])
def test_query_without_a_cursor_has_no_room(ends: str) -> None:
    chain = Chain("q1", "q2")
    chain.fill("q1")
    chain.plan("q1", 100)
    rooms: PinnedRooms = chain.broker.pinned_rooms
    if ends == "deleted":
        chain.cursors["q1"].delete(chain.broker.now)
        rooms.assign(chain.cursors["q1"], "")
    else:
        rooms.assign(chain.cursors["q1"], "its successor")
    assert rooms.of(QueryId("", "query of q1")) is None
    sink = chain.sink("q1")
    chain.publish(sink, "q2", 100)
    assert sink.outbox


def test_room_of_a_query_is_not_that_of_another_user() -> None:
    chain = Chain("q1", "q2")
    chain.plan("q1", 100)
    chain.fill("q2")
    stranger = chain.sink("q1")
    stranger.query = QueryId("mallory", stranger.query.name)
    chain.publish(stranger, "q2", 100)
    assert stranger.outbox
    chain.publish(chain.sink("q1"), "q2", 100)
    assert len(chain.broker.pinned_rooms.of(QueryId("", "query of q1")).cursors) == 1


def test_queue_that_was_deleted_pins_no_room() -> None:
    chain = Chain("q1", "q2")
    chain.plan("q1", 1)
    chain.fill("q1")
    chain.plan("q1", 100)
    queue: Queue = chain.vhost.queues["q1"]
    chain.broker.delete_queue(queue)
    chain.fill("q2")
    sink = chain.sink("q1")
    chain.publish(sink, "q2", 100)
    assert sink.outbox
