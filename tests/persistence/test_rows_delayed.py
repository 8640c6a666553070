"""Delayed messages in the store: due times over restarts, crashes at any moment, clocks that were set, and retries."""

from __future__ import annotations

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from penstock.core.broker import Broker
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.journal.journal import Journal
from penstock.core.message import DelayedEnvelope
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.publish.unit_of_work import Transaction
from penstock.core.queue.delays import FIRST_NUMBER, delays_of
from penstock.core.settings.limits import Defaults
from tests.profiles import examples
from tests.support import at_once
from tests.support.memory_store import WALL, Shelf, some_large
from tests.support.topology import resolve

CHARGE = 300


class Life:
    """One life of a broker with a durable queue, which begins at a time."""

    def __init__(self, shelf: Shelf, now: float = 100.0, **arguments: object) -> None:
        self.broker = Broker(Defaults(capacity_bytes=1 << 40))
        self.broker.wall_offset = WALL
        self.broker.begin(now)
        self.journal = Journal(self.broker.durable_changes, self.broker.gates.disk, self.broker.large)
        self.broker.journal = self.journal
        self.vhost = self.broker.add_vhost("/")
        given: dict[str, object] = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.queue = self.vhost.declare_queue("q", given, True, False, None, None)
        shelf.recover(self.broker, self.journal)
        self.shelf = shelf
        self.session = Session()
        self.producer = Producer(self.broker, "p", HoldBudget(1 << 40))
        self.producer.confirming = True

    def publish(self, content: bytes, delay_s: float, persistent: bool = True, ttl_s: float | None = None) -> None:
        route = resolve(self.vhost, "", "q")
        if persistent:
            route = route.persistent()
        if ttl_s is not None:
            route = route.variant(0, ttl_s)
        self.producer.publish(route.delayed(self.broker.now + delay_s), content, CHARGE)

    def at(self, now: float) -> None:
        self.broker.begin(now)
        self.broker.run(1000)

    def write(self) -> None:
        self.shelf.write(self.journal)

    def ready(self) -> list[bytes]:
        found = sorted(self.queue.ready_queue.messages(), key=lambda message: int(message.sequence))
        return [bytes(message.content) for message in found]

    def delayed(self) -> list[tuple[float, bytes]]:
        delays = delays_of(self.queue)
        return (
            []
            if delays is None
            else [(round(each.envelope.due_time(), 3), bytes(each.content)) for each in delays.first(1000)]
        )


def test_delayed_message_is_due_at_its_time_after_a_restart() -> None:
    shelf = Shelf()
    life = Life(shelf)
    life.publish(b"one", 60)
    life.publish(b"two", 90)
    life.publish(b"gone", 60, persistent=False)
    life.write()
    life = Life(shelf, 130.0)
    assert life.delayed() == [(160.0, b"one"), (190.0, b"two")]
    assert (int(life.queue.messages), int(life.queue.delayed_messages), life.ready()) == (2, 2, [])
    life.at(160.0)
    assert life.ready() == [b"one"]


def test_message_that_became_due_while_the_broker_was_down_is_ready_soon_after() -> None:
    shelf = Shelf()
    life = Life(shelf)
    life.publish(b"late", 90)
    life.publish(b"later", 60)
    life.write()
    life = Life(shelf, 1000.0)
    life.at(1000.1)
    assert life.ready() == [b"later", b"late"]


def test_delayed_message_moves_in_the_store_when_it_is_due() -> None:
    shelf = Shelf()
    life = Life(shelf)
    life.publish(b"one", 1)
    life.publish(b"two", 50)
    life.write()
    life.at(102.0)
    life.write()
    life = Life(shelf, 103.0)
    assert life.ready() == [b"one"]
    assert life.delayed() == [(150.0, b"two")]
    assert [int(each.sequence) for each in life.queue.ready_queue.messages()] == [1]


def test_crash_before_the_move_is_written_leaves_the_message_delayed() -> None:
    shelf = Shelf()
    life = Life(shelf)
    life.publish(b"one", 1)
    life.write()
    life.at(102.0)
    assert life.ready() == [b"one"]
    life = Life(shelf, 102.5)
    assert (life.ready(), len(life.delayed())) == ([], 1)
    life.at(102.6)
    assert life.ready() == [b"one"]


def test_delivery_of_a_due_message_waits_for_the_move_to_be_written() -> None:
    shelf = Shelf()
    life = Life(shelf)
    life.publish(b"one", 1)
    life.write()
    life.at(102.0)
    batch = life.session.get(life.queue, False, 102.0)
    assert batch is not None
    assert life.journal.open.urgent
    life.write()
    life = Life(shelf, 103.0)
    message = life.queue.ready_queue.next()
    assert message is not None
    assert message.redelivered


def test_clock_set_back_holds_no_message_longer_than_its_delay() -> None:
    shelf = Shelf()
    life = Life(shelf, 1_000_000.0)
    life.publish(b"one", 60)
    life.write()
    life = Life(shelf, 100.0)
    assert life.delayed() == [(160.0, b"one")]


def test_clock_set_forward_makes_messages_ready_as_time_that_has_passed() -> None:
    shelf = Shelf()
    life = Life(shelf)
    life.publish(b"one", 60)
    life.write()
    life = Life(shelf, 1_000_000.0)
    life.at(1_000_000.1)
    assert life.ready() == [b"one"]


def test_longest_delay_survives_a_restart() -> None:
    shelf = Shelf()
    life = Life(shelf)
    life.publish(b"one", (1 << 53) / 1000)
    life.write()
    ((due, content),) = Life(shelf, 200.0).delayed()
    assert content == b"one"
    assert abs(due - (1 << 53) / 1000 - 100) < 1


def test_header_that_delayed_a_message_is_known_after_a_restart() -> None:
    shelf = Shelf()
    life = Life(shelf)
    life.vhost.declare_exchange("e", "x-delayed-message", {"x-delayed-type": "fanout"}, True, False, False)
    life.vhost.bind("e", life.queue, None, "", {})
    route = life.vhost.route("e", "", False).persistent()
    life.vhost.resolve(route, {"x-delay": 5000})
    life.producer.publish(route, b"one", CHARGE)
    life.write()
    delays = delays_of(Life(shelf, 101.0).queue)
    assert delays is not None
    envelope = delays.messages[0].envelope
    assert isinstance(envelope, DelayedEnvelope)
    assert (int(envelope.header.delay_ms), envelope.exchange, envelope.plain.persistent) == (5000, "e", True)


def test_numbers_of_delayed_messages_are_not_used_again_after_a_restart() -> None:
    shelf = Shelf()
    life = Life(shelf)
    for number in range(3):
        life.publish(b"%d" % number, 60 + number)
    life.write()
    life = Life(shelf)
    life.publish(b"new", 1)
    delays = delays_of(life.queue)
    assert delays is not None
    assert sorted(int(each.sequence) - FIRST_NUMBER for each in delays.messages) == [0, 1, 2, 3]


def test_time_to_live_of_a_delayed_message_survives_a_restart() -> None:
    shelf = Shelf()
    life = Life(shelf)
    life.publish(b"one", 10, ttl_s=5)
    life.write()
    life = Life(shelf, 105.0)
    life.at(110.0)
    assert life.ready() == [b"one"]
    life.at(115.1)
    life.at(115.2)
    assert life.ready() == []


def test_message_waiting_for_a_retry_waits_on_after_a_restart() -> None:
    shelf = Shelf()
    life = Life(shelf, retry_delay=60_000)
    life.producer.publish(resolve(life.vhost, "", "q").persistent(), b"one", CHARGE)
    life.producer.publish(resolve(life.vhost, "", "q").persistent(), b"two", CHARGE)
    assert life.session.get(life.queue, False, 100.0) is not None
    life.write()
    life.session.unsettled.settle_tag(1, False, Outcome.FAILED, 100.0)
    life.write()
    life = Life(shelf, 120.0, retry_delay=60_000)
    assert (life.ready(), life.delayed()) == ([b"two"], [(160.0, b"one")])
    life.at(160.0)
    assert life.ready() == [b"one", b"two"]
    message = life.queue.ready_queue.next()
    assert message is not None
    assert message.failures == 1
    life.write()
    life = Life(shelf, 170.0, retry_delay=60_000)
    life.at(170.1)
    assert life.ready() == [b"one", b"two"]


def test_cancelled_and_purged_delayed_messages_leave_the_store() -> None:
    shelf = Shelf()
    life = Life(shelf)
    for number in range(3):
        life.publish(b"%d" % number, 60)
    life.write()
    delays = delays_of(life.queue)
    assert delays is not None
    assert delays.cancel(delays.messages[0], 100.0)
    life.queue.purge(100.0)
    life.at(100.1)
    life.write()
    life.write()
    assert not shelf.rows
    assert int(Life(shelf).queue.messages) == 0


def paging() -> Life:
    """Return a life whose queue pages beyond three messages."""
    return Life(Shelf(), overflow="page", capacity_messages=3)


def test_queue_that_pages_refuses_delayed_messages_beyond_its_memory() -> None:
    life = paging()
    for number in range(5):
        life.publish(b"%d" % number, 1)
    life.write()
    outcomes = sorted((int(each.first), int(each.last), each.confirmed) for each in life.producer.confirms.take())
    assert outcomes == [(1, 3, True), (4, 4, False), (5, 5, False)]
    assert int(life.queue.delayed_messages) == 3
    assert life.queue.pager is not None
    assert int(life.queue.pager.messages) == 0


def test_due_messages_of_a_queue_that_pages_go_behind_the_pages() -> None:
    life = paging()
    for number in range(2):
        life.publish(b"late %d" % number, 1)
    for number in range(4):
        life.producer.publish(resolve(life.vhost, "", "q").persistent(), b"%d" % number, CHARGE)
    life.write()
    life.at(102.0)
    life.write()
    assert life.ready() == [b"0", b"1", b"2"]
    assert life.queue.pager is not None
    assert int(life.queue.pager.messages) == 3
    assert (int(life.queue.delayed_messages), int(life.queue.depth_messages())) == (0, 6)


def test_commit_of_too_many_delayed_messages_to_a_queue_that_pages_is_refused() -> None:
    life = paging()
    transaction = Transaction(Session(), life.producer)
    route = resolve(life.vhost, "", "q").persistent()
    for number in range(4):
        life.producer.publish(route.delayed(101.0), b"%d" % number, CHARGE)
    transaction.commit()
    life.at(100.1)
    life.write()
    assert int(life.queue.depth_messages()) == 0
    assert not any(each.confirmed for each in life.producer.confirms.take())


def test_purge_of_many_delayed_messages_ends_in_slices() -> None:
    shelf = Shelf()
    life = Life(shelf)
    for number in range(1500):
        life.publish(b"%d" % number, 60)
    life.write()
    assert life.queue.purge(100.0, at_once=0) == 1500
    assert int(life.queue.messages) == 0
    assert life.journal.rows
    while life.broker.turns.chores.pending():
        life.at(life.broker.now + 0.01)
    for _ in range(3):
        life.write()
    assert not shelf.rows


class Lives(RuleBasedStateMachine):
    """Lives of a broker on one disk, and the messages that each must have: ready ones in order, and delayed ones."""

    @initialize()
    def begin(self) -> None:
        self.shelf = Shelf()
        self.life = Life(self.shelf, retry_delay=30)
        self.now = 100.0
        self.count = 0
        self.live: dict[bytes, float] = {}
        """Contents of persistent messages, with the time from which each must be ready at the latest."""
        self.at_close: dict[int, dict[bytes, float]] = {0: {}}
        self.on_disk = 0

    @rule(delay_ms=st.sampled_from([0, 10, 20, 50, 100_000]), persistent=st.booleans(), large=st.booleans())
    def publish(self, delay_ms: int, persistent: bool, large: bool) -> None:
        self.count += 1
        content = b"%d" % self.count
        if large:
            content = some_large(self.life.broker, content, 1)
        self.life.publish(content, delay_ms / 1000, persistent)
        if persistent:
            self.live[bytes(content)] = self.now + delay_ms / 1000

    @rule(no_ack=st.booleans(), fails=st.booleans())
    def get(self, no_ack: bool, fails: bool) -> None:
        batch = self.life.session.get(self.life.queue, no_ack, self.now)
        if batch is None:
            return
        message = batch.messages[0]
        assert message is not None
        assert self.live.get(bytes(message.content), 0.0) <= self.now, "delivered before it is due"
        if not no_ack and fails:
            self.life.session.unsettled.settle_tag(batch.first, False, Outcome.FAILED, self.now)
            if bytes(message.content) in self.live:
                self.live[bytes(message.content)] = self.now + min(0.03 * 2 ** (message.failures - 1), 3600)
            return
        if not no_ack:
            self.life.session.unsettled.acknowledge(batch.first, False, self.now)
        self.live.pop(bytes(message.content), None)

    @rule()
    def cancel(self) -> None:
        delays = delays_of(self.life.queue)
        if delays is not None and delays.messages:
            message = delays.messages[-1]
            assert delays.cancel(message, self.now)
            self.live.pop(bytes(message.content), None)

    @rule()
    def purge(self) -> None:
        self.life.queue.purge(self.now)
        self.life.broker.run(1000)
        self.live.clear()

    @rule(passes_ms=st.sampled_from([1, 10, 60]))
    def step(self, passes_ms: int) -> None:
        number, live = int(self.life.journal.open.number), dict(self.live)
        self.now += passes_ms / 1000
        self.life.at(self.now)
        if self.life.journal.open.number != number:
            self.at_close[number] = live

    @rule()
    def write(self) -> None:
        journal = self.life.journal
        groups = journal.take()
        for group in groups:
            self.at_close.setdefault(int(group.number), dict(self.live))
        self.at_close.setdefault(int(journal.open.number) - 1, dict(self.live))
        self.shelf.commit(at_once.encode(journal, groups, WALL))
        if groups:
            self.on_disk = int(groups[-1].number)
        journal.written()

    @precondition(lambda self: self.count > 0)
    @rule()
    def die(self) -> None:
        self.live = dict(self.at_close[self.on_disk])
        self.now += 0.001
        self.life = Life(self.shelf, self.now, retry_delay=30)
        self.on_disk = int(self.life.journal.open.number) - 1
        self.at_close = {self.on_disk: dict(self.live)}
        waiting = [content for _, content in self.life.delayed()]
        assert sorted([*self.life.ready(), *waiting]) == sorted(self.live)
        queue = self.life.queue
        assert (queue.messages, queue.bytes) == (len(self.live), len(self.live) * CHARGE)
        for due, content in self.life.delayed():
            assert due <= self.live[content] + 0.002, "it waits longer than it should"
        for content in self.life.ready():
            assert self.live[content] <= self.now, "ready before it is due"

    def teardown(self) -> None:
        if not hasattr(self, "shelf"):
            return
        self.life.queue.purge(self.now)
        self.life.at(self.now + 0.01)
        for _ in range(200):
            self.write()
        assert not self.shelf.rows
        assert not self.shelf.notes
        assert not self.shelf.pieces
        assert not self.life.journal.rows
        assert int(self.life.queue.messages) == 0


TestLives = Lives.TestCase
TestLives.settings = hypothesis_settings(max_examples=examples(150), stateful_step_count=40, deadline=None)
