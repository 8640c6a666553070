"""Transactions under anything that clients may do, in any order, against a small model of them.

The model knows each transaction by what it published and settled; a message is known by its content. After every step
the queues are looked through: of each transaction all is there that ever came, or nothing.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from tests.profiles import examples
from tests.support import example_counts
from tests.support.broker_fixture import House
from tests.support.transaction_client import Client, traces

EXAMPLES = int(os.environ.get("PENSTOCK_EXAMPLES", examples(600))) // 2
ROUTES = (("", "q0"), ("", "q1"), ("amq.fanout", ""))
WHO = st.integers(0, 2)
WHERE = st.integers(0, 1)


class Told:
    """A transaction as its client knows it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.publishes: list[tuple[str, list[Queue], int]] = []
        self.settlements: list[tuple[int, bool]] = []
        """Tag, and whether the message leaves."""
        self.state = "open"
        """Then "committing", and at last "done" or "dropped"."""

    def changes(self, client: Client) -> dict[int, list[int]]:
        """By how much each queue grows in messages and bytes, by identity."""
        more: dict[int, list[int]] = {}
        for _, queues, charge in self.publishes:
            for queue in queues:
                pair = more.setdefault(id(queue), [0, 0])
                pair[0] += 1
                pair[1] += charge
        for tag, leaves in self.settlements:
            ((_, queue, message),) = client.session.unsettled.deliveries(tag, tag)
            if leaves and id(queue) in more:
                more[id(queue)][0] -= 1
                more[id(queue)][1] -= int(message.charge)
        return more


class Modelled(Client):
    """A client and its transactions."""

    def __init__(self, house: House, name: str, numbers: list[int]) -> None:
        super().__init__(house, name, bound=120)
        self.name = name
        self.numbers = numbers
        self.out: dict[int, tuple[Queue, int]] = {}
        """Deliveries that it may settle, by tag: the queue, and the charge."""
        self.waiting: list[Told] = []
        self.rolled_back = 0
        self.now = self.begin()

    def begin(self) -> Told:
        self.numbers[0] += 1
        return Told(f"{self.name}.{self.numbers[0]}")


class Transactions(RuleBasedStateMachine):
    """Three clients with transactions, one producer without, and a reader that takes messages away."""

    @initialize(
        capacities=st.lists(st.tuples(st.integers(2, 8), st.integers(20, 80)), min_size=2, max_size=2),
        policy=st.sampled_from(["block", "block", "block", "reject", "drop-head"]),
    )
    def start(self, capacities: list[tuple[int, int]], policy: str) -> None:
        example_counts.examples += 1
        self.house = House()
        self.queues: list[Queue] = []
        for index, (messages, size) in enumerate(capacities):
            how: dict[str, object] = {"overflow": policy if index else "block"}
            self.house.queue(f"q{index}", capacity_messages=messages, capacity_bytes=size, hold_deadline=5, **how)
            self.queues.append(self.house.vhost.queues[f"q{index}"])
            self.house.vhost.bind("amq.fanout", self.queues[index], None, "", {})
        self.numbers = [0]
        self.everything: list[Told] = []
        self.seen: dict[tuple[str, int], int] = {}
        """How many messages of a transaction have ever come into a queue, by its name and the queue's identity."""
        self.upto = [0, 0]
        self.gone: list[Modelled] = []
        self.clients = [self.client() for _ in range(3)]
        self.plain = self.house.producer("plain")

    def client(self) -> Modelled:
        return Modelled(self.house, f"c{len(self.gone)}-{self.numbers[0]}", self.numbers)

    def route(self, at: int) -> Route:
        route = self.house.vhost.route(*ROUTES[at], False)
        self.house.vhost.resolve(route, {})
        return route

    # What clients do

    @rule(who=WHO, at=st.integers(0, 2), charges=st.lists(st.integers(1, 25), min_size=1, max_size=4))
    def publish(self, who: int, at: int, charges: list[int]) -> None:
        client = self.clients[who]
        for charge in charges:
            route = self.route(at)
            kept = int(client.producer.hold_budget.messages)
            fits = all(q.overflow.name != "block" or charge <= q.thresholds.capacity.bytes for q in route.queues)
            room = not kept or client.producer.hold_budget.bytes + charge <= client.producer.hold_budget.bound
            client.producer.publish(route, f"{client.now.name}".encode(), charge)
            assert (client.producer.closing is None) == (fits and room)
            if client.producer.closing is not None:
                self.replace(who)
                return
            client.now.publishes.append((client.now.name, route.queues, charge))
        self.look()

    @rule(who=WHO, at=WHERE, times=st.integers(1, 5))
    def get(self, who: int, at: int, times: int) -> None:
        client = self.clients[who]
        for _ in range(times):
            batch = client.session.get(self.queues[at], False, self.house.broker.now)
            if batch is not None and batch.messages[0] is not None:
                client.out[int(batch.first)] = (self.queues[at], int(batch.messages[0].charge))
        self.look()

    @rule(
        who=WHO, at=st.integers(0, 9), multiple=st.booleans(), how=st.sampled_from(["ack", "ack", "discard", "requeue"])
    )
    def settle(self, who: int, at: int, multiple: bool, how: str) -> None:
        client = self.clients[who]
        if not client.out:
            with pytest.raises(Exception, match="unknown delivery tag"):
                client.ack(at + 1, multiple)
            return
        tag = sorted(client.out)[at % len(client.out)]
        tags = [each for each in sorted(client.out) if each == tag or (multiple and each <= tag)]
        getattr(client, how)(tag, multiple)
        for each in tags:
            client.now.settlements.append((each, how != "requeue"))
            del client.out[each]
        with pytest.raises(Exception, match="unknown delivery tag"):
            client.ack(tag)
        self.look()

    @rule(who=WHO)
    def commit(self, who: int) -> None:
        client = self.clients[who]
        told = client.now
        more = told.changes(client)
        free = not client.waiting and all(pair[0] <= 0 and pair[1] <= 0 for pair in more.values())
        told.state = "committing"
        self.everything.append(told)
        client.waiting.append(told)
        client.now = client.begin()
        client.transaction.commit()
        self.look()
        assert not free or told.state == "done", "it brings no more than it frees, and was stopped"

    @rule(who=WHO, at=WHERE)
    def swap(self, who: int, at: int) -> None:
        """What it takes from a queue it brings back, in one transaction; `commit` looks that this is never stopped."""
        client = self.clients[who]
        self.get(who, at, 5)
        mine = [(tag, charge) for tag, (queue, charge) in client.out.items() if queue is self.queues[at]]
        for tag, charge in mine:
            if self.clients[who] is client:
                self.settle(who, sorted(client.out).index(tag), False, "ack")
                self.publish(who, at, [charge])
        if self.clients[who] is client:
            self.commit(who)

    @rule(who=WHO)
    def rollback(self, who: int) -> None:
        client = self.clients[who]
        told = client.now
        told.state = "dropped"
        for tag, _ in told.settlements:
            ((_, queue, message),) = client.session.unsettled.deliveries(tag, tag)
            client.out[tag] = (queue, int(message.charge))
        told.settlements.clear()
        self.everything.append(told)
        marker = client.begin()  # Its answer comes in its place among the commits.
        marker.state = "committing"
        client.waiting.append(marker)
        client.now = client.begin()
        client.transaction.rollback()
        self.look()

    @rule(who=WHO)
    def vanish(self, who: int) -> None:
        self.replace(who)

    def replace(self, who: int) -> None:
        client = self.clients[who]
        self.account(client)
        client.end()
        for told in [*client.waiting, client.now]:
            told.state = "dropped"
            self.everything.append(told)
        self.gone.append(client)
        self.clients[who] = self.client()
        self.look()

    # What others do

    @rule(at=WHERE, charge=st.integers(1, 20))
    def publish_plainly(self, at: int, charge: int) -> None:
        self.plain.publish(self.route(at), b"plain", charge)
        if self.plain.closing is not None:
            self.plain.abort()
            self.plain = self.house.producer("plain")
        self.look()

    @rule(at=WHERE, times=st.integers(1, 8), run=st.booleans())
    def take_away(self, at: int, times: int, run: bool) -> None:
        for _ in range(times):
            self.house.session.get(self.queues[at], True, self.house.broker.now)
            self.look()
        if run:
            self.run(1000)

    @rule(turns=st.sampled_from([1, 2, 1000]))
    def run(self, turns: int) -> None:
        more = self.house.broker.run(turns)
        self.look()
        for client in self.clients:
            place = client.producer.gate
            if more or place is None or not place.open or place.returning:
                continue
            first = place.next_in_line()
            if first is not None and first is client.producer:
                assert client.producer.obstacle() is not None, "it waits though its road is open"

    @rule(seconds=st.sampled_from([0.5, 2.0, 6.0]))
    def wait(self, seconds: float) -> None:
        self.house.broker.begin(self.house.broker.now + seconds)
        self.run(1000)

    # Looking

    def look(self) -> None:
        example_counts.looks += 1
        self.house.broker.effects()
        for index, queue in enumerate(self.queues):
            for message in queue.ready_queue.ready:
                if message.sequence > self.upto[index]:
                    key = (message.content.decode(), id(queue))
                    self.seen[key] = self.seen.get(key, 0) + 1
            self.upto[index] = int(queue.tail)
            capacity = queue.thresholds.capacity
            assert capacity.covers(queue.messages, queue.bytes), "the depth passes the capacity"
            theirs = [
                d
                for c in self.clients
                for d in c.session.unsettled.deliveries(1, c.session.unsettled.next_number)
                if d[1] is queue
            ]
            assert queue.unacked_messages == len(theirs)
            assert queue.messages == queue.available() + len(theirs)
            here = [
                *queue.ready_queue.ready,
                *[entry[1] for entry in queue.ready_queue.returned],
                *[d[2] for d in theirs],
            ]
            assert int(queue.bytes) == sum(int(message.charge) for message in here)
        for who, client in enumerate(self.clients):
            self.account(client)
            if client.producer.closing is not None:
                self.replace(who)
            else:
                kept = [p for told in [*client.waiting, client.now] if told.state != "done" for p in told.publishes]
                held = sum(int(h.messages) for h in client.producer.outbox) + len(client.transaction.unit.publishes)
                assert client.producer.hold_budget.messages == held <= len(kept)
                noted = {settlement.tag for settlement in client.transaction.unit.settlements}
                for commit in client.producer.outbox:
                    noted.update(settlement.tag for settlement in commit.settlements)
                assert client.transaction.coordinator.settled_tags(client.session).tags == noted
        self.check_all_or_nothing()

    def account(self, client: Modelled) -> None:
        """Take the answers that have come."""
        before = client.answered
        for _ in range(client.told() - before):
            told = client.waiting.pop(0)
            told.state = "done"
        for told in client.waiting:
            if told.publishes and self.came(told):
                assert all(
                    t is told or self.came(t) or not t.publishes for t in client.waiting[: client.waiting.index(told)]
                )

    def came(self, told: Told) -> bool:
        return any(self.seen.get((told.name, id(queue))) for queue in self.queues)

    def check_all_or_nothing(self) -> None:
        for told in [*self.everything, *[client.now for client in self.clients]]:
            for queue in self.queues:
                sent = sum(queue in queues for _, queues, _ in told.publishes)
                came = self.seen.get((told.name, id(queue)), 0)
                if queue.overflow.name == "drop-head":
                    assert came <= sent
                elif told.state == "done":
                    assert came == sent, "it was answered, and a part is missing"
                elif told.state == "open":
                    assert came == 0, "it came before its commit"
                else:
                    assert came in (0, sent), "a part of it came"

    def teardown(self) -> None:
        """When all is drained everyone has passed; when all have gone nothing is left."""
        if not hasattr(self, "clients"):
            return
        for _ in range(100):
            for at in range(2):
                self.take_away(at, 8, True)
            for client in self.clients:
                if client.out:
                    for tag in list(client.out):
                        client.requeue(tag)
                        client.now.settlements.append((tag, False))
                        del client.out[tag]
            if not any(client.producer.outbox for client in self.clients):
                break
            self.wait(0.5)
        for who in range(3):
            self.replace(who)
        self.plain.abort()
        assert traces(self.house, *self.gone) == []


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
