"""Recovery after any events and a kill at any moment: exactly the stored messages come back."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.connections.callbacks import DurableCallback
from penstock.core.broker import Broker
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.journal.journal import TAKEN_BYTES, Journal
from penstock.core.message import Message, StoredMessage
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.publish.unit_of_work import Transaction
from penstock.core.queue.deferred_free import DeferredFree
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.core.settings.limits import Defaults
from penstock.flow.work import SHARE
from tests.profiles import examples
from tests.support import at_once
from tests.support.memory_store import WALL, Shelf, some_large
from tests.support.topology import resolve

QUEUES = ("plain", "urgent", "work", "dead")
BOUND = (
    "plain",
    "urgent",
    "work",
)  # Not "dead": what dies in "work" comes there, and no content may be in one queue twice.
LARGE = TAKEN_BYTES // 3


class Out(NamedTuple):
    """A delivery that is not settled."""

    tag: int
    queue: str
    content: bytes


class House:
    """One life of a broker."""

    def __init__(self, shelf: Shelf) -> None:
        self.broker = Broker(Defaults(capacity_bytes=1 << 40))
        self.broker.begin(100.0)
        self.journal = Journal(self.broker.durable_changes, self.broker.gates.disk, self.broker.large)
        self.broker.journal = self.journal
        self.vhost = self.broker.add_vhost("/")
        self.queues: dict[str, Queue] = {}
        for name, arguments in (
            ("plain", {}),
            ("urgent", {"x-max-priority": 3}),
            ("work", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-delivery-limit": 2}),
            ("dead", {}),
        ):
            self.queues[name] = self.vhost.declare_queue(name, arguments, True, False, None, None)
        for name in BOUND:
            self.vhost.bind("amq.fanout", self.queues[name], None, "", {})
        shelf.recover(self.broker, self.journal)
        self.producer = Producer(self.broker, "p", HoldBudget(1 << 40))
        self.producer.confirming = True
        self.session = Session()
        self.mover = Session()
        self.moving = Producer(self.broker, "t", HoldBudget(1 << 40))
        self.transaction = Transaction(self.mover, self.moving)

    def route(self, exchange: str, key: str, priority: int, persistent: bool) -> Route:
        route = resolve(self.vhost, exchange, key)
        return (route.persistent() if persistent else route).with_priority(priority)


class PurgeAnswer:
    """The answer to a purge."""

    def __init__(self, queue: str, contents: set[bytes]) -> None:
        self.queue = queue
        self.contents = contents
        self.told = False

    def tell(self) -> None:
        self.told = True


class Lives(RuleBasedStateMachine):
    """Lives of a broker on one disk, and what should be there: the contents of each queue in order."""

    @initialize()
    def begin(self) -> None:
        self.shelf = Shelf()
        self.house = House(self.shelf)
        self.live: dict[str, list[bytes]] = {name: [] for name in QUEUES}
        self.out: list[Out] = []
        self.seen: set[tuple[str, bytes]] = set()
        self.returns: dict[bytes, int] = {}
        self.purged: dict[str, list[Message]] = {}
        """What purges have dropped that the store may have still."""
        self.asked: list[PurgeAnswer] = []
        self.at_close: dict[int, tuple[dict[str, list[bytes]], set[tuple[str, bytes]]]] = {0: self.snapshot()}
        self.on_disk = 0
        self.group_of: dict[int, int] = {}
        self.count = 0
        self.now = 100.0

    # What happens

    @rule(
        where=st.sampled_from([("", "plain"), ("", "urgent"), ("", "work"), ("amq.fanout", "")]),
        priority=st.integers(0, 3),
        persistent=st.booleans(),
        large=st.booleans(),
        times=st.integers(1, 4),
        pieces=st.sampled_from([0, 0, 0, 1, 2]),
    )
    def publish(
        self, where: tuple[str, str], priority: int, persistent: bool, large: bool, times: int, pieces: int
    ) -> None:
        for _ in range(times):
            self.count += 1
            content = b"%d" % self.count
            if pieces:
                content = some_large(self.house.broker, content, pieces)
            route = self.house.route(*where, priority, persistent)
            charge = LARGE if large else 300
            self.house.producer.publish(route, content, charge)
            if persistent:
                self.group_of[int(self.house.producer.confirms.published)] = int(self.house.journal.open.number)
                for name in BOUND if where[0] else (where[1],):
                    self.live[name].append(bytes(content))

    @rule(name=st.sampled_from(QUEUES), no_ack=st.booleans())
    def get(self, name: str, no_ack: bool) -> None:
        batch = self.house.session.get(self.house.queues[name], no_ack, self.now)
        if batch is None:
            return
        message = batch.messages[0]
        assert message is not None
        if no_ack:
            self.leaves(name, message.content)
        else:
            self.out.append(Out(int(batch.first), name, bytes(message.content)))
            self.seen.add((name, bytes(message.content)))

    @precondition(lambda self: self.out)
    @rule(data=st.data(), multiple=st.booleans())
    def acknowledge(self, data: st.DataObject, multiple: bool) -> None:
        out = data.draw(st.sampled_from(self.out))
        self.house.session.unsettled.acknowledge(out.tag, multiple, self.now)
        for each in [each for each in self.out if each is out or (multiple and each.tag < out.tag)]:
            self.out.remove(each)
            self.leaves(each.queue, each.content)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        out = data.draw(st.sampled_from(self.out))
        self.house.session.unsettled.settle_tag(out.tag, False, Outcome.FAILED, self.now)
        self.out.remove(out)
        if out.queue == "work":
            self.returns[out.content] = self.returns.get(out.content, 0) + 1
            if self.returns[out.content] > 2:
                self.dies(out)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def reject(self, data: st.DataObject) -> None:
        out = data.draw(st.sampled_from(self.out))
        self.house.session.unsettled.settle_tag(out.tag, False, Outcome.REJECTED, self.now)
        self.out.remove(out)
        if out.queue == "work":
            self.dies(out)
        else:
            self.leaves(out.queue, out.content)

    @rule(name=st.sampled_from(QUEUES))
    def purge(self, name: str) -> None:
        self.house.queues[name].purge(self.now)
        kept = {out.content for out in self.out if out.queue == name}
        # An earlier purge in slices drops its own messages, which are in the store until it is done.
        kept |= {message.content for message in self.purged.get(name, [])}
        self.live[name] = [content for content in self.live[name] if content in kept]

    @rule(name=st.sampled_from(QUEUES))
    def purge_in_slices(self, name: str) -> None:
        """A purge of so many that they leave the store in turns that come, and are answered afterwards."""
        queue = self.house.queues[name]
        messages = [each for each in queue.ready_queue.messages() if isinstance(each, StoredMessage) and each.group]
        before = self.house.broker.durable_changes.durable_declarations
        queue.purge(self.now, at_once=0)
        self.purged.setdefault(name, []).extend(messages)
        self.asked.append(PurgeAnswer(name, {bytes(message.content) for message in messages}))
        self.house.journal.wait_for_change(DurableCallback(self.asked[-1].tell), before)

    @rule()
    def slice(self) -> None:
        """One unit of work for what was purged."""
        chores = self.house.broker.turns.chores
        for chore in list(chores._waiting):
            if isinstance(chore, DeferredFree):
                chore.work(1, self.now)

    @rule(publishes=st.integers(0, 3), takes=st.integers(0, 2))
    def transact(self, publishes: int, takes: int) -> None:
        house = self.house
        for _ in range(takes):
            batch = house.mover.get(house.queues["plain"], False, self.now)
            if batch is not None:
                message = batch.messages[0]
                assert message is not None
                house.transaction.settle(batch.first, False, Outcome.ACCEPTED)
                self.leaves("plain", message.content)
        for _ in range(publishes):
            self.count += 1
            house.moving.publish(house.route("", "dead", 0, True), b"%d" % self.count, LARGE)
            self.live["dead"].append(b"%d" % self.count)
        house.transaction.commit()

    @rule()
    def step(self) -> None:
        """Between two steps of the broker a group may be closed."""
        journal = self.house.journal
        number, live = int(journal.open.number), self.snapshot()
        self.now += 0.01
        self.house.broker.begin(self.now)
        if journal.open.number != number:
            self.at_close[number] = live
        self.house.broker.run(1000)

    @rule()
    def write(self) -> None:
        """A transaction of the store, of as many groups as it takes."""
        journal = self.house.journal
        live = self.snapshot()
        groups = journal.take()
        for group in groups:
            self.at_close.setdefault(int(group.number), live)
        self.at_close.setdefault(int(journal.open.number) - 1, live)
        self.shelf.commit(at_once.encode(journal, groups, WALL))
        if groups:
            self.on_disk = int(groups[-1].number)
        journal.written()

    @rule()
    def fail(self) -> None:
        """The broker dies while a transaction is being written, and nothing of it is there."""
        at_once.encode(self.house.journal, self.house.journal.take(), WALL)
        self.die()

    @rule()
    def arrive(self) -> None:
        """A large message comes, and its publisher goes before the end of it."""
        some_large(self.house.broker, b"never", 2)

    @rule()
    def die(self) -> None:
        self.live, self.seen = self.at_close[self.on_disk]
        self.house = House(self.shelf)
        self.out.clear()
        self.purged.clear()
        for answer in self.asked:
            assert not answer.told or not answer.contents & set(self.live[answer.queue]), "answered, and back again"
        self.asked.clear()
        self.group_of.clear()
        self.on_disk = int(self.house.journal.open.number) - 1  # Numbers that nothing refers to are used again.
        self.at_close = {self.on_disk: self.snapshot()}
        self.now = 100.0
        for name, queue in self.house.queues.items():
            found = sorted(_messages(queue), key=lambda message: int(message.sequence))
            assert [message.content for message in found] == self.live[name]
            assert queue.messages == len(found) == queue.available()
            assert queue.bytes == sum(message.charge for message in found)
            assert all(message.sequence <= queue.tail for message in found)
            assert all(message.redelivered for message in found if (name, message.content) in self.seen)
            self.returns |= {bytes(message.content): message.failures for message in found if name == "work"}

    # What should be

    @invariant()
    def every_confirmed_message_is_on_the_disk(self) -> None:
        for outcome in self.house.producer.confirms.take():
            for number in range(int(outcome.first), int(outcome.last) + 1):
                assert self.group_of.get(number, 0) <= self.on_disk, "confirmed, and not written"

    def teardown(self) -> None:
        """Everything that is written and settled leaves nothing behind."""
        if not hasattr(self, "shelf"):
            return
        self.step()
        for _ in range(200):
            self.write()
        for name in QUEUES:
            while self.house.session.get(self.house.queues[name], True, self.now):
                pass
        for session in (self.house.session, self.house.mover):
            if not session.unsettled.is_empty():
                session.unsettled.acknowledge(0, True, self.now)
        self.house.broker.run(1000)
        for name in QUEUES:  # What died meanwhile.
            self.house.queues[name].purge(self.now)
        for _ in range(4):
            self.write()
        assert not self.shelf.rows
        assert not self.shelf.notes
        assert not self.shelf.pieces
        assert not self.shelf.row_bodies
        assert not self.house.journal.rows
        assert all(outcome.confirmed for outcome in self.house.producer.confirms.take())

    def snapshot(self) -> tuple[dict[str, list[bytes]], set[tuple[str, bytes]]]:
        for name, messages in self.purged.items():
            left = {each.content for each in messages if isinstance(each, StoredMessage) and each.group is not None}
            gone = {message.content for message in messages} - left
            self.live[name] = [content for content in self.live[name] if content not in gone]
            self.purged[name] = [message for message in messages if message.content in left]
        return {name: list(contents) for name, contents in self.live.items()}, set(self.seen)

    def leaves(self, name: str, content: bytes) -> None:
        if content in self.live[name]:
            self.live[name].remove(content)

    def dies(self, out: Out) -> None:
        """A message goes from `work` to `dead`, in one step."""
        stored = out.content in self.live["work"]
        self.leaves("work", out.content)
        if stored:
            self.live["dead"].append(out.content)
        self.house.broker.run(1000)


def _messages(queue: Queue) -> list[Message]:
    found = queue.ready_queue.messages()
    assert all(isinstance(message, StoredMessage) and message.group is not None for message in found)
    return found


TestLives = Lives.TestCase
TestLives.settings = hypothesis_settings(max_examples=examples(300), stateful_step_count=50, deadline=None)
TestLives = pytest.mark.slow(TestLives)


def test_messages_returning_at_a_stop_come_first_and_in_order_after_the_restart() -> None:
    shelf = Shelf()
    house = House(shelf)
    plain, count = house.queues["plain"], 3 * SHARE
    route = house.route("", "plain", 0, True)

    for number in range(count):
        house.producer.publish(route, b"%d" % number, 300)
    shelf.write(house.journal)
    house.broker.consume(house.session, Consumer("c", house.session, plain, False, False, 0))
    while house.broker.next_batch() is not None:
        pass
    for number in range(count, count + 3):
        house.producer.publish(route, b"%d" % number, 300)
    house.broker.end_session(house.session)
    assert 0 < plain.coming_back < count
    shelf.write(house.journal)
    found = _messages(House(shelf).queues["plain"])
    found.sort(key=lambda message: int(message.sequence))
    assert [int(message.content) for message in found] == [*range(count + 3)]
    assert all(message.redelivered for message in found[:count])
