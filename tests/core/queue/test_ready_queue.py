"""The ready messages of a queue: first in, first out, with requeued and expiring ones.

The ready messages of a queue with priorities.
"""

from __future__ import annotations

import heapq
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.message import Expiry, Message
from penstock.core.queue.deferred_free import DeferredFree
from penstock.core.queue.ready_queue import (
    SWEPT_A_STEP,
    SWEPT_A_UNIT,
    SWEPT_FROM,
    TURNED_A_UNIT,
    Priorities,
    ReadyQueue,
    Sweep,
    remove_from_heap,
)
from penstock.flow.timers import NEVER
from tests.profiles import examples
from tests.support.ready_messages import message, pulled


def test_ready_queue_returns_messages_in_order_and_requeued_messages_first() -> None:
    queue = ReadyQueue()
    for sequence in range(1, 6):
        queue.append(message(sequence))
    taken = [queue.pull() for _ in range(3)]
    for each in reversed(taken):
        queue.put_back(each)
    assert not queue.contiguous(), "requeued messages are not in the same line"
    assert pulled(queue) == [1, 2, 3, 4, 5]
    assert queue.next() is None


def test_ready_queue_expires_messages_by_message_ttl_or_queue_ttl() -> None:
    queue = ReadyQueue()
    queue.append(message(1, ttl_s=10.0))
    queue.append(message(2, ttl_s=5.0))
    queue.append(message(3))
    assert queue.due(NEVER) == 5.0
    assert queue.due(3.0) == 3.0
    assert queue.take_due(4.9, NEVER, 100.0) is None
    expired = queue.take_due(5.0, NEVER, 100.0)
    assert (int(expired.sequence), expired.content) == (2, b"2")
    assert int(queue.available()) == 2
    assert pulled(queue) == [1, 3], "the tombstone of the second is skipped"


def test_ready_queue_expires_no_message_that_was_not_offered_to_consumers() -> None:
    queue = ReadyQueue()
    queue.append(message(1, ttl_s=0.0, arrived=7.0))
    assert queue.take_due(7.0, NEVER, 6.9) is None
    assert queue.take_due(7.0, NEVER, 7.0) is not None


def swept(queue: ReadyQueue) -> int:
    """Sweep in the smallest steps; return the most units of work of one."""
    most = 0
    while not queue.is_swept():
        most = max(most, int(queue.sweep(1)))
    return most


def test_ready_queue_sweeps_tombstones_at_a_quarter_of_all_places() -> None:
    queue = ReadyQueue()
    count = 4 * SWEPT_FROM + 4
    for sequence in range(1, count + 1):
        queue.append(message(sequence, ttl_s=NEVER if sequence % 3 == 1 else 1.0))
    while queue.take_due(1.0, NEVER, 100.0) is not None:
        queue.begin_sweep()
        swept(queue)
        assert queue.tombstones * 4 <= len(queue.ready) + 4 * SWEPT_FROM + 4
    assert pulled(queue) == list(range(1, count + 1, 3))


@pytest.mark.once
def test_sweep_of_a_long_line_is_made_in_steps() -> None:
    queue = ReadyQueue()
    count = 20 * SWEPT_A_STEP
    for sequence in range(1, count + 1):
        queue.append(message(sequence, ttl_s=1.0 if sequence % 3 == 0 else NEVER))
    while queue.take_due(1.0, NEVER, 100.0) is not None:
        pass
    assert queue.begin_sweep()
    assert not queue.begin_sweep(), "one is under way"
    assert swept(queue) <= SWEPT_A_STEP // SWEPT_A_UNIT + 2 * count // TURNED_A_UNIT + 1
    assert (queue.tombstones, len(queue.ready)) == (0, queue.available())
    assert pulled(queue) == [sequence for sequence in range(1, count + 1) if sequence % 3]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(["append", "expire", "pull", "return", "sweep"]), max_size=80), st.randoms())
def test_line_that_changes_between_the_steps_of_a_sweep_keeps_the_order(steps: list[str], chance: Random) -> None:
    line, due = ReadyQueue(), 0
    ready: list[int] = []
    unacknowledged: list[Message] = []
    for number, step in enumerate(steps, 1):
        if step == "append":
            lasting = chance.random() < 0.5
            line.append(message(number, ttl_s=NEVER if lasting else chance.randrange(1, 4)))
            ready.append(number)
        elif step == "expire":
            gone = line.take_due(due, NEVER, 100.0)
            due += 1
            if gone is not None:
                ready.remove(int(gone.sequence))
        elif step == "pull" and ready:
            unacknowledged.append(line.pull())
            assert int(unacknowledged[-1].sequence) == ready.pop(0)
        elif step == "return" and unacknowledged:
            back = unacknowledged.pop(chance.randrange(len(unacknowledged)))
            line.put_back(back)
            ready = sorted([*ready, int(back.sequence)])
        elif step == "sweep":
            if line.sweep_under_way is None:
                line.sweep_under_way = Sweep(line, 2)
            line.sweep(1)
        assert int(line.available()) == len(ready)
    assert pulled(line) == ready


@pytest.mark.parametrize("seed", range(5))
def test_entry_is_removed_from_anywhere_in_a_heap(seed: int) -> None:
    chance = Random(seed)
    heap = [(float(chance.randrange(50)), number, Expiry(message(number))) for number in range(200)]
    heapq.heapify(heap)
    while heap:
        gone = heap[chance.randrange(len(heap))]
        remaining = sorted(each[:2] for each in heap if each is not gone)
        remove_from_heap(heap, heap.index(gone))
        assert sorted(each[:2] for each in heap) == remaining
        assert all(heap[(at - 1) // 2][:2] <= heap[at][:2] for at in range(1, len(heap)))


def test_ready_queue_hands_over_all_and_keeps_the_line_for_routes_in_use() -> None:
    for reroute in (True, False):
        queue, leftovers = ReadyQueue(), DeferredFree()
        for sequence in (1, 2):
            queue.append(message(sequence))
        line = queue.ready
        queue.hand_over(leftovers, reroute)
        assert int(queue.available()) == 0
        assert [len(each) for each in leftovers.lines] == [2]
        assert (queue.ready is line) is not reroute


def test_priorities_return_the_highest_first_and_each_in_order() -> None:
    queue = Priorities(5)
    for sequence, priority in enumerate((0, 5, 3, 5, 0, 3), 1):
        queue.append(message(sequence, priority))
    assert int(queue.available()) == 6
    following = queue.next()
    assert following.sequence == 2
    assert pulled(queue) == [2, 4, 3, 6, 1, 5]


def test_priorities_above_the_highest_count_as_the_highest() -> None:
    queue = Priorities(2)
    for sequence, priority in ((1, 2), (2, 255), (3, 2)):
        queue.append(message(sequence, priority))
    assert pulled(queue) == [1, 2, 3]
    assert len(queue.lines) == 1


def test_priorities_have_a_requeued_message_before_younger_messages_of_the_priority() -> None:
    queue = Priorities(2)
    for sequence, priority in ((1, 1), (2, 1), (3, 2)):
        queue.append(message(sequence, priority))
    taken = [queue.pull() for _ in range(2)]
    for each in taken:
        queue.put_back(each)
    assert pulled(queue) == [3, 1, 2]


def test_priorities_expire_in_every_line() -> None:
    queue = Priorities(2)
    queue.append(message(1, 0, ttl_s=1.0))
    queue.append(message(2, 2))
    assert queue.has_expiring()
    assert queue.due(NEVER) == 1.0
    expired = queue.take_due(1.0, NEVER, 100.0)
    assert expired.sequence == 1
    assert pulled(queue) == [2]


def test_priorities_without_messages_have_no_message_to_pull() -> None:
    queue = Priorities(2)
    queue.append(message(1))
    queue.clear()
    assert queue.messages() == []
    with pytest.raises(AssertionError, match="nothing is available"):
        queue.pull()


def test_oldest_arrival_is_that_of_the_first_message_and_of_a_requeued_one() -> None:
    queue = ReadyQueue()
    assert queue.oldest_arrival() == NEVER
    for sequence in (1, 2, 3):
        queue.append(message(sequence, arrived=10.0 * sequence))
    taken = queue.pull()
    assert queue.oldest_arrival() == 20.0
    queue.put_back(taken)
    assert queue.oldest_arrival() == 10.0


def test_oldest_arrival_of_priorities_is_the_lowest_of_all_lines() -> None:
    queue = Priorities(5)
    assert queue.oldest_arrival() == NEVER
    for sequence, priority in ((1, 0), (2, 5), (3, 2)):
        queue.append(message(sequence, priority, arrived=10.0 * sequence))
    following = queue.next()
    assert (following.sequence, queue.oldest_arrival()) == (2, 10.0)
    assert [queue.pull().sequence for _ in range(2)] == [2, 3]
    assert queue.oldest_arrival() == 10.0
