"""The lost wake-up: which algorithms of flow control can leave a publisher blocked for ever, and that ours cannot.

Three ways to block and release a publisher while another thread consumes, step by step, under every schedule: those of
Broker-J until 2020 and since, and that of the design page of its first flow control. Each loses a wake-up; the test
shows the schedule. Ours has one owner: a publish is one step, and so is a settlement, which takes all who are to be
released off the gate before it tells any of them. The same is then asked of the real classes, under every order of what
can happen to a queue: nobody waits where nothing stops him.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest

from penstock.flow.level import UNLIMITED, Level, Thresholds
from tests.support.broker_fixture import House
from tests.support.schedules import Thread, explore


class Shared:
    """One queue and one session, as two threads see them; overfull above `stop`, underfull at `resume`."""

    def __init__(self) -> None:
        self.depth = 0
        self.stop = 0
        self.resume = 0
        self.session_blocked = False
        self.remembered: set[str] = set()
        """The queue's own set of the sessions that it blocks."""
        self.nonsense = False
        """A consumer came before the message: no real schedule."""

    def lost(self) -> bool:
        return not self.nonsense and self.session_blocked and self.depth <= self.resume


Publish = Callable[[Shared], Thread]


def add_then_block(shared: Shared) -> Thread:
    """Broker-J until 2020 (QPID-8451)."""
    yield "publisher adds itself to the set"
    shared.remembered.add("session")
    yield "publisher is blocked"
    shared.session_blocked = True


def block_then_add(shared: Shared) -> Thread:
    """Broker-J today."""
    yield "publisher is blocked"
    shared.session_blocked = True
    yield "publisher adds itself to the set"
    shared.remembered.add("session")


def add_if_absent_and_block(shared: Shared) -> Thread:
    """The design page: blocked only by whoever was not in the set before."""
    yield "publisher adds itself to the set, if absent"
    absent = "session" not in shared.remembered
    shared.remembered.add("session")
    if absent:
        yield "publisher is blocked"
        shared.session_blocked = True


def publisher(shared: Shared, block: Publish, messages: int) -> Thread:
    """Messages that are on their way are published whatever the session is told meanwhile."""
    for _ in range(messages):
        yield "publisher enqueues"
        shared.depth += 1
        yield "publisher tests overfull"
        if shared.depth > shared.stop:
            yield from block(shared)
            yield from release(shared, "publisher")


def consumer(shared: Shared, messages: int) -> Thread:
    for _ in range(messages):
        yield "consumer dequeues"
        shared.nonsense = shared.nonsense or shared.depth == 0
        shared.depth -= 1
        yield from release(shared, "consumer")


def release(shared: Shared, who: str) -> Thread:
    yield f"{who} tests underfull"
    if shared.depth <= shared.resume:
        for session in sorted(shared.remembered):
            yield f"{who} unblocks the session"
            shared.session_blocked = False
            yield f"{who} removes it from the set"
            shared.remembered.discard(session)


def lost_schedules(block: Publish, messages: int) -> list[list[str]]:
    found = explore(Shared, lambda shared: [publisher(shared, block, messages), consumer(shared, messages)])
    return [steps for shared, steps in found if shared.lost()]


def test_adding_before_blocking_loses_the_wake_up_of_a_single_message() -> None:
    lost = lost_schedules(add_then_block, 1)
    assert lost
    for steps in lost:
        assert steps.index("publisher adds itself to the set") < steps.index("publisher is blocked")
        assert steps.index("consumer unblocks the session") < steps.index("publisher is blocked"), steps


@pytest.mark.parametrize("block", [block_then_add, add_if_absent_and_block])
def test_later_algorithms_may_hold_a_message_but_lose_the_wake_up_of_two(block: Publish) -> None:
    lost = lost_schedules(block, 2)
    assert lost
    steps = lost[0]
    assert steps[-1].startswith(("consumer", "publisher"))
    assert "consumer unblocks the session" in steps or "publisher unblocks the session" in steps, steps


def test_blocking_before_adding_does_hold_for_a_single_message() -> None:
    assert lost_schedules(block_then_add, 1) == []


def one_owner_publishes(shared: Shared, messages: int) -> Thread:
    for _ in range(messages):
        yield "the owner enqueues, judges and remembers"
        shared.depth += 1
        if shared.depth > shared.stop:
            shared.session_blocked = True
            shared.remembered.add("session")


def one_owner_settles(shared: Shared, messages: int) -> Thread:
    for _ in range(messages):
        yield "the owner settles, judges, takes the whole set and tells each"
        shared.nonsense = shared.nonsense or shared.depth == 0
        shared.depth -= 1
        if shared.depth <= shared.resume:
            released, shared.remembered = shared.remembered, set()
            shared.session_blocked = shared.session_blocked and not released


@pytest.mark.parametrize("messages", [1, 2, 4])
def test_single_owner_loses_no_wakeup_under_any_schedule(messages: int) -> None:
    schedules = list(explore(Shared, lambda s: [one_owner_publishes(s, messages), one_owner_settles(s, messages)]))
    assert len(schedules) >= 2
    assert not [steps for shared, steps in schedules if shared.lost()]


EVENTS = ("first publishes", "first publishes", "second publishes", "taken", "taken", "purged", "lowered", "gone")


class Real:
    """The real queue, gate, turns and producers; stop is one message, capacity two, resume none."""

    def __init__(self) -> None:
        self.house = House()
        self.house.queue("a", capacity_messages=2, stop_messages=1, resume_messages=0, hold_deadline=5)
        self.queue = self.house.vhost.queues["a"]
        self.producers = {name: self.house.producer(name) for name in ("first", "second")}

    def happens(self, event: str) -> None:
        house, now = self.house, self.house.broker.now
        name, _, what = event.partition(" ")
        if what == "publishes":
            house.publish(self.producers[name], "a", 10)
        elif event == "taken":
            house.take("a")
        elif event == "purged":
            self.queue.purge(now)
        elif event == "lowered":
            thresholds = self.queue.thresholds
            self.queue.thresholds = Thresholds(thresholds.capacity, Level(0, UNLIMITED), Level(0, UNLIMITED))
            self.queue.update_gate(now)
        elif event == "late":
            house.broker.begin(now + 6.0)
        else:
            self.producers["second"].abort()
        house.broker.run(1000)

    def check(self, history: tuple[str, ...]) -> None:
        gate = self.queue.gate
        waiting = [producer.name for producer in self.producers.values() if producer.outbox]
        if gate.open and self.queue.fits(10):
            assert not waiting or gate.timer is not None, f"{waiting} wait at an open gate with room after {history}"
        if gate.open:
            assert not gate.blocked or waiting, f"the gate is open and still blocks somebody after {history}"
            assert not gate.to_release, f"somebody was not released after {history}"
        else:
            assert self.queue.messages > 0, f"closed and empty after {history}"


@pytest.mark.once
@pytest.mark.parametrize("last", ["taken", "purged", "late", "gone"])
def test_producer_waits_at_a_closed_gate_only_under_each_order_of_events(last: str) -> None:
    for order in sorted(set(permutations(EVENTS, 6))):
        real = Real()
        for at, event in enumerate((*order, last)):
            real.happens(event)
            real.check((*order, last)[: at + 1])
        real.house.broker.begin(real.house.broker.now + 0.01)  # Who is about to come back is waited for 5 ms.
        while real.house.take("a"):
            pass
        assert real.queue.gate.open
        left = [producer for producer in real.producers.values() if producer.confirming]
        assert not any(producer.outbox or producer.confirms.pending for producer in left), f"left after {order}"
