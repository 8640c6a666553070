"""Transfers between queues of any policy beside producers and consumers: each message is in one place, once."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.errors import BrokerError
from tests.profiles import examples
from tests.support.broker_fixture import MIB, House
from tests.support.transfers import Moving, to_queue

NAMES = ("a", "b", "c")
INDEX = st.integers(0, 2)
POLICIES = ("block", "block", "reject", "drop-head")
ROUNDS_MOST = 500


class Transfers(RuleBasedStateMachine):
    """Three queues, two producers and some transfers."""

    def __init__(self) -> None:
        super().__init__()
        self.house = House()
        self.house.broker.begin(100.0)
        self.number = 0
        self.moving: list[Moving] = []
        self.taken: Counter[bytes] = Counter()
        self.copied: set[bytes] = set()
        """Contents that a copy may have doubled."""

    @initialize(
        policies=st.lists(st.sampled_from(POLICIES), min_size=3, max_size=3),
        capacities=st.lists(st.integers(1, 9), min_size=3, max_size=3),
        priorities=st.booleans(),
    )
    def start(self, policies: list[str], capacities: list[int], priorities: bool) -> None:
        for name, policy, capacity in zip(NAMES, policies, capacities, strict=True):
            more = {"x_max_priority": 3} if priorities and name == "a" else {}
            self.house.queue(name, capacity_messages=capacity, overflow=policy, hold_deadline=0, **more)
        self.producers = [Producer(self.house.broker, str(n), HoldBudget(MIB), self.house.origin) for n in range(2)]
        for producer in self.producers:
            producer.confirming = True

    @rule(who=st.integers(0, 1), to=INDEX, count=st.integers(1, 6), priority=st.integers(0, 4))
    def publish(self, who: int, to: int, count: int, priority: int) -> None:
        house = self.house
        route = house.vhost.route("", NAMES[to], False)
        house.vhost.resolve(route, {})
        for _ in range(count):
            self.number += 1
            self.producers[who].publish(route.with_priority(priority), b"%d" % self.number, 10)

    @rule(source=INDEX, to=INDEX, most=st.sampled_from([1, 3, 1000]), copies=st.booleans())
    def transfer(self, source: int, to: int, most: int, copies: bool) -> None:
        if source == to or len(self.moving) >= 3:
            return
        house = self.house
        if copies:
            self.copied |= {each.content for each in house.vhost.queues[NAMES[source]].ready_queue.messages()}
        self.moving.append(Moving(house, NAMES[source], to_queue(house, NAMES[to]), most, copies=copies))

    @rule(which=INDEX, steps=st.integers(1, 4), slice=st.sampled_from([1, 25, 1 << 40]))
    def step(self, which: int, steps: int, slice: int) -> None:
        for _ in range(steps):
            if which < len(self.moving):
                self.house.broker.work.limit = self.house.broker.work.done + slice
                self.advance(self.moving[which])
        self.moving = [each for each in self.moving if not each.ended]

    @rule(which=INDEX)
    def cancel(self, which: int) -> None:
        if which < len(self.moving):
            moving = self.moving.pop(which)
            moving.progress.cancelled_by = "anna"
            moving.progress.go_on()
            self.advance(moving)
            assert moving.ended

    def advance(self, moving: Moving) -> None:
        before = self.present()
        try:
            moving.retry()
        except BrokerError:
            moving.ended = True
        lost = before - self.present()
        assert not lost, "a transfer displaces nothing"

    def present(self) -> Counter[bytes]:
        """Return the messages in all queues, each with the number of its copies."""
        queues = self.house.vhost.queues.values()
        return Counter(each.content for queue in queues for each in queue.ready_queue.messages())

    @rule(at=INDEX, count=st.integers(1, 5))
    def take(self, at: int, count: int) -> None:
        for _ in range(count):
            batch = self.house.session.get(self.house.vhost.queues[NAMES[at]], True, self.house.broker.now)
            if batch is not None:
                self.taken.update(message.content for message in batch.messages if message is not None)

    @rule(turns=st.sampled_from([1, 3, 1000]), seconds=st.sampled_from([0.0, 0.01, 1.0]))
    def run_turns(self, turns: int, seconds: float) -> None:
        before, is_held = self.present(), any(producer.outbox for producer in self.producers)
        self.house.broker.begin(self.house.broker.now + seconds)
        self.house.broker.run(turns)
        if not is_held:  # A held publish may drop the oldest message of another queue.
            assert not before - self.present(), "the turn of a transfer displaces nothing"

    @rule(at=INDEX)
    def purge(self, at: int) -> None:
        self.house.vhost.queues[NAMES[at]].purge(self.house.broker.now)

    @invariant()
    def each_message_is_in_one_place(self) -> None:
        found = Counter(self.taken)
        for queue in self.house.vhost.queues.values():
            messages = queue.ready_queue.messages()
            found.update(each.content for each in messages)
            assert int(queue.messages) == len(messages)
            assert int(queue.bytes) == sum(int(each.charge) for each in messages)
            assert int(queue.messages) <= int(queue.thresholds.capacity.messages)
        assert {content for content, times in found.items() if times > 1} <= self.copied

    def teardown(self) -> None:
        """When all is drained, every transfer ends, and nobody waits at a gate."""
        if not hasattr(self, "producers"):
            return
        for _ in range(ROUNDS_MOST):
            self.run_turns(1000, 1.0)
            for at in range(3):
                self.take(at, 10)
            for moving in self.moving:
                self.advance(moving)
            self.moving = [each for each in self.moving if not each.ended]
            held = [queue.gate for queue in self.house.vhost.queues.values() if queue.gate.in_line() or queue.messages]
            if not self.moving and not held:
                return
        raise AssertionError([moving.progress.held_by for moving in self.moving])


TestTransfers = Transfers.TestCase
TestTransfers.settings = settings(
    max_examples=examples(3_000), stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
