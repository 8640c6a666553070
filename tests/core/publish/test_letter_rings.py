"""Rings of full queues that dead-letter to each other: neither deadlock nor loss."""

from __future__ import annotations

import itertools

import pytest

from penstock.core.consume.outcome import Outcome
from penstock.core.publish.dead_letters import GROWTH_MAX
from penstock.flow.timers import NEVER
from tests.support.dead_letters import Morgue

NAMES = ("work", "retry", "again")


class Ring(Morgue):
    """A house whose queues dead-letter to each other: work to retry, retry to again, again to work, as far as asked."""

    def __init__(self, count: int, **arguments: object) -> None:
        names = NAMES[:count]
        following = [*names[1:], names[0]]
        super().__init__(dead_letter_routing_key=following[0], **arguments)
        self.names = names
        for name, target in list(zip(names, following, strict=True))[1:]:
            self.queue(name, dead_letter_exchange="", dead_letter_routing_key=target, **arguments)
        self.tag = 0

    def fill(self, count: int) -> None:
        for name in self.names:
            self.put(*[f"{name}{number}".encode() for number in range(count)], queue=name)

    def get(self, name: str, count: int = 1) -> None:
        for _ in range(count):
            assert self.session.get(self[name], False, self.broker.now) is not None
            self.tag += 1

    def reject_some(self, name: str, count: int = 1) -> None:
        """Reject the next messages of a queue; without a turn."""
        first = self.tag + 1
        self.get(name, count)
        for tag in range(first, self.tag + 1):
            self.session.unsettled.settle_tag(tag, False, Outcome.REJECTED, self.broker.now)

    def waiting(self) -> int:
        found = 0
        for name in self.names:
            letters = self[name].dead_letters
            found += 0 if letters is None else int(letters.waiting().messages)
        return found

    def check(self, messages: int, waiting: int = 0) -> None:
        """Check that so many messages are in the queues, nothing was lost, and no capacity was passed."""
        assert sum(self.depth(name) for name in self.names) == messages
        assert [self.lost(name) for name in self.names] == [0] * len(self.names)
        for name in self.names:
            capacity = self[name].thresholds.capacity
            highest = self[name].highest()
            assert highest[0] <= int(capacity.messages), name
            assert highest[1] <= int(capacity.bytes), name
        assert self.waiting() == waiting


STRATEGIES = ("at-most-once", "at-least-once")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("limit", [{"capacity_messages": 1}, {"capacity_messages": 4}, {"capacity_bytes": 400}])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_ring_of_full_queues_turns_without_loss(count: int, limit: dict[str, int], strategy: str) -> None:
    size = limit.get("capacity_messages", 4)
    for order in itertools.permutations(NAMES[:count]):
        ring = Ring(count, hold_deadline=1, dead_letter_strategy=strategy, **limit)
        ring.fill(size)
        for _ in range(3):
            for name in order:
                ring.reject_some(name, size)
                ring.run()
            ring.run(5.0)
            ring.check(size * count)
            assert {ring.sums(name)[2] for name in ring.names} == {0}, "all are ready again, in the next queue"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ring_keeps_the_order_of_each_queue(strategy: str) -> None:
    ring = Ring(2, capacity_messages=3, dead_letter_strategy=strategy)
    ring.fill(3)
    for name in ring.names:
        ring.reject_some(name, 3)
        ring.run()
    for name, other in (("work", "retry"), ("retry", "work")):
        assert [content.split(b"|")[0] for content in ring.ready(name)] == [f"{other}{n}".encode() for n in range(3)]


def test_ring_turns_at_gates_that_are_closed_with_room_left() -> None:
    ring = Ring(2, capacity_messages=10, stop_messages=2, resume_messages=1)
    ring.fill(5)
    assert not ring["work"].gate.open
    assert not ring["retry"].gate.open
    holder = ring.published("p", "work", 100, count=6)
    assert len(holder.outbox) == 1, "a publish waits at work, so that letters for it wait as well"
    for name in ring.names:
        ring.reject_some(name, 5)
        ring.run()
    ring.check(15, waiting=5)
    ring.reject_some("work", 5)
    ring.run()
    ring.check(15)
    assert len(holder.outbox) == 1


def test_letter_that_waits_for_a_consumer_only_waits() -> None:
    ring = Ring(2, capacity_messages=2, dead_letter_strategy="at-least-once")
    ring.fill(2)
    ring.reject_some("work", 2)
    ring.run(100.0)
    ring.check(4, waiting=2)
    assert ring.take("retry")
    ring.run()
    ring.check(3, waiting=1)


def test_small_dead_letters_swap_with_a_large_dead_letter() -> None:
    ring = Ring(2, capacity_bytes=1000)
    ring.put(*[b"s"] * 10)
    ring.published("p", "retry", 950)
    ring.reject_some("retry")
    ring.run()
    ring.reject_some("work", 9)
    ring.run()
    ring.check(11, waiting=10)
    ring.reject_some("work")
    ring.run()
    ring.check(11)
    assert (ring.depth("work"), ring.depth("retry")) == (1, 10)


def test_uncharged_growth_has_a_bound() -> None:
    ring = Ring(2, capacity_bytes=200, hold_deadline=0)
    ring.fill(2)
    for message in ring["work"].ready_queue.messages():
        message.content = b"w" * (GROWTH_MAX + 100)
    for name in ring.names:
        ring.reject_some(name, 2)
        ring.run()
    ring.check(4, waiting=4)


def test_ring_within_a_full_sum_turns() -> None:
    ring = Ring(2, capacity_messages=2)
    ring.set("vhost", "/", capacity_messages=4, stop_messages=3, resume_messages=2)
    ring.fill(2)
    ring.run()
    for name in ring.names:
        ring.reject_some(name, 2)
        ring.run()
    ring.check(4)


def test_ring_through_an_address_with_a_bound_turns() -> None:
    ring = Ring(2, capacity_messages=2)
    ring.vhost.declare_exchange("dlx", "direct", {}, False, False, False)
    ring.set("address", "dlx", capacity_messages=100, overflow="block")
    for name in ring.names:
        ring.bind("dlx", name, name)
    ring.set("queue", "*", dead_letter_exchange="dlx")
    ring.fill(2)
    for name in ring.names:
        ring.reject_some(name, 2)
        ring.run()
    ring.check(4)


def test_letters_of_a_ring_behind_another_target_wait_for_that_target() -> None:
    ring = Ring(2, capacity_messages=1, dead_letter_strategy="at-least-once")
    ring.queue("full", capacity_messages=1)
    ring.put(b"old", queue="full")
    ring.vhost.declare_exchange("both", "fanout", {}, False, False, False)
    for name in ("retry", "full"):
        ring.bind("both", name, "")
    ring.set("queue", "work", dead_letter_exchange="both")
    ring.vhost.declare_queue("other", {}, False, False, None, None)
    ring.fill(1)
    for name in ring.names:
        ring.reject_some(name)
        ring.run()
    ring.run(60.0)
    assert ring.lost("work") + ring.lost("retry") == 0


def test_dead_letter_that_waits_in_a_ring_has_no_deadline() -> None:
    ring = Ring(2, capacity_messages=1, dead_letter_strategy="at-least-once")
    ring.fill(1)
    ring.reject_some("work")
    ring.run()
    letters = ring["work"].dead_letters
    assert letters is not None
    assert letters.outbox[0].deadline == NEVER  # type: ignore[attr-defined]
