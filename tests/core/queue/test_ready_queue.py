"""The ready messages of a queue: first in, first out, with requeued and expiring ones.

The ready messages of a queue with priorities.
"""

from __future__ import annotations

import pytest

from penstock.core.queue.deferred_free import DeferredFree
from penstock.core.queue.ready_queue import SWEPT_FROM, Priorities, ReadyQueue
from penstock.flow.timers import NEVER
from tests.support.ready_messages import message, pulled


def test_ready_queue_gives_messages_in_their_order_and_requeued_ones_first() -> None:
    queue = ReadyQueue()
    for sequence in range(1, 6):
        queue.append(message(sequence))
    taken = [queue.pull() for _ in range(3)]
    for each in reversed(taken):
        queue.put_back(each)
    assert not queue.contiguous(), "requeued messages are not in the same line"
    assert pulled(queue) == [1, 2, 3, 4, 5]
    assert queue.next() is None


def test_ready_queue_has_expired_messages_only_when_their_own_time_or_the_queues_is_over() -> None:
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


def test_ready_queue_lets_no_message_expire_that_was_not_offered_to_consumers() -> None:
    queue = ReadyQueue()
    queue.append(message(1, ttl_s=0.0, arrived=7.0))
    assert queue.take_due(7.0, NEVER, 6.9) is None
    assert queue.take_due(7.0, NEVER, 7.0) is not None


def test_ready_queue_sweeps_tombstones_when_they_are_a_quarter_of_all() -> None:
    queue = ReadyQueue()
    count = 4 * SWEPT_FROM + 4
    for sequence in range(1, count + 1):
        queue.append(message(sequence, ttl_s=NEVER if sequence % 3 == 1 else 1.0))
    while queue.take_due(1.0, NEVER, 100.0) is not None:
        assert queue.tombstones * 4 <= len(queue.ready) + 4 * SWEPT_FROM + 4
    assert pulled(queue) == list(range(1, count + 1, 3))


def test_ready_queue_hands_all_over_and_keeps_its_line_only_where_routes_still_use_it() -> None:
    for reroute in (True, False):
        queue, leftovers = ReadyQueue(), DeferredFree()
        for sequence in (1, 2):
            queue.append(message(sequence))
        line = queue.ready
        queue.hand_over(leftovers, reroute)
        assert int(queue.available()) == 0
        assert [len(each) for each in leftovers.lines] == [2]
        assert (queue.ready is line) is not reroute


def test_ready_queue_is_sorted_for_a_cursor() -> None:
    queue = ReadyQueue()
    for sequence in (1, 2, 3):
        queue.append(message(sequence))
    queue.put_back(queue.pull())
    queue.sort_ready()
    assert [int(each.sequence) for each in queue.contiguous()] == [1, 2, 3]


def test_priorities_give_the_highest_first_and_each_in_its_order() -> None:
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


def test_priorities_have_a_requeued_message_before_the_younger_ones_of_its_priority() -> None:
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


def test_priorities_without_messages_have_nothing_to_pull() -> None:
    queue = Priorities(2)
    queue.append(message(1))
    queue.clear()
    assert queue.messages() == []
    with pytest.raises(AssertionError, match="nothing is available"):
        queue.pull()
