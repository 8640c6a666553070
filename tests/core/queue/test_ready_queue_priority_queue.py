"""The ready messages of a queue with priorities."""

from __future__ import annotations

import pytest

from penstock.core.queue.ready_queue import Priorities
from penstock.flow.timers import NEVER
from tests.support.ready_messages import message, pulled


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
