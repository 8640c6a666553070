"""Delayed messages on their way into a queue that pages: every road needs memory for these, and loses none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.content.properties import Properties
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.scan import MessageFilter
from penstock.core.consume.session import Session
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.publish.transfer import Transfer
from penstock.core.publish.transfer_source import TransferSource
from penstock.core.publish.transfer_targets import ToExchange
from penstock.core.publish.unit_of_work import Transaction
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.errors import ContentTooLarge
from penstock.flow.progress import WorkProgress
from penstock.ranges.held_block import BlockLine, HeldBlock, RowSource
from penstock.ranges.marks import SinkMarks
from penstock.ranges.promotions import PromotionLine
from penstock.ranges.stages import StagedRow, StagedRows
from penstock.settings.without_effect import DELAYED, DELAYED_TYPE
from tests.support.restored_broker import journaled

CAPACITY = 4
CHARGE = 300


class Roads:
    """A broker with the queue `q`, which pages beyond 4 messages, and the exchange `later`, which delays and leads to
    the queue. Its memory is full.
    """

    def __init__(self) -> None:
        self.driver = journaled()
        self.driver.begin(100.0)
        self.broker = self.driver.broker
        self.vhost = self.broker.vhosts["/"]
        self.q = self.queue("q", x_overflow="page", capacity_messages=CAPACITY)
        self.vhost.declare_exchange("later", DELAYED, {DELAYED_TYPE: "fanout"}, False, False, False)
        self.vhost.bind("later", self.q, None, "", {})
        self.session = Session()
        self.delaying = self.broker.formats.encode(Properties(headers={"x-delay": 5000}), b"late")
        self.plain = self.broker.formats.encode(Properties(), b"now")
        for _ in range(CAPACITY):
            self.publish("", "q", self.plain)
        assert (self.in_memory(), self.delayed()) == (CAPACITY, 0)

    def queue(self, name: str, **arguments: object) -> Queue:
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        return self.vhost.declare_queue(name, given, True, False, None, None)

    def producer(self) -> Producer:
        producer = Producer(self.broker, "p", HoldBudget(1 << 30))
        producer.confirming = True
        return producer

    def route(self, exchange: str, key: str, content: bytes) -> Route:
        route = self.vhost.route(exchange, key, False)
        self.vhost.resolve(route, self.broker.formats.find(content).headers(content))
        return route

    def publish(self, exchange: str, key: str, content: bytes) -> Producer:
        producer = self.producer()
        producer.publish(self.route(exchange, key, content), content, CHARGE)
        return producer

    def take(self) -> None:
        assert self.session.get(self.q, True, self.broker.now) is not None
        self.turns()

    def turns(self, seconds: float = 0.0) -> None:
        self.driver.begin(self.broker.now + seconds)
        for _ in range(5):
            self.broker.run(1000)

    def in_memory(self) -> int:
        return int(self.q.messages)

    def delayed(self) -> int:
        return int(self.q.delayed_messages)


def refusals(producer: Producer) -> list[bool]:
    """Return for each answer whether the publish was refused."""
    return [not each.confirmed for each in producer.confirms.take()]


class TwoRows(RowSource):
    """A block of two rows of one route."""

    def __init__(self, roads: Roads) -> None:
        super().__init__(2, roads.vhost.route("", "", False))
        self._roads = roads

    def load(self, row: int) -> None:
        roads = self._roads
        self.route = roads.route("later", "", roads.delaying)
        self.content = roads.delaying
        self.charge = CHARGE


def by_publish(roads: Roads) -> Callable[[], list[bool]]:
    producer = roads.publish("later", "", roads.delaying)
    return lambda: refusals(producer)


def by_transaction(roads: Roads) -> Callable[[], list[bool]]:
    producer = roads.producer()
    transaction = Transaction(Session(), producer)
    producer.publish(roads.route("later", "", roads.delaying), roads.delaying, CHARGE)
    transaction.commit()
    return lambda: refusals(producer)


def by_block(roads: Roads) -> Callable[[], list[bool]]:
    producer = roads.producer()
    line = BlockLine(producer)
    block = HeldBlock(line, TwoRows(roads))
    line.add(block)
    return lambda: [block.refusal is not None and int(block.row) == 0]


def by_batch(roads: Roads) -> Callable[[], list[bool]]:
    producer = batch_of(roads, 1)
    return lambda: refusals(producer)


def batch_of(roads: Roads, count: int) -> Producer:
    """Commit a batch of so many delayed rows."""
    marks = SinkMarks(roads.broker)
    progress = marks.begin_batch("/", "query", "exchange 'later'", 0, "r", "r/0", "u")
    staged = marks.stages(progress)
    stage = staged.begin(0, 0, roads.broker.now)
    rows = StagedRows(0)
    for _ in range(count):
        rows.add(StagedRow(roads.route("later", "", roads.delaying), roads.delaying, CHARGE))
    staged.add(stage, rows, None, roads.broker.now)
    producer = roads.producer()
    PromotionLine(roads.broker, marks).promote(producer, progress, [stage])
    return producer


@pytest.mark.parametrize("road", [by_publish, by_transaction, by_block, by_batch])
def test_delayed_message_without_memory_is_refused(road: Callable[[Roads], Callable[[], list[bool]]]) -> None:
    roads = Roads()
    answers = road(roads)
    roads.turns()
    assert answers() == [True]
    assert (roads.in_memory(), roads.delayed()) == (CAPACITY, 0)


@pytest.mark.parametrize("road", [by_publish, by_transaction, by_batch])
def test_delayed_message_with_memory_is_accepted(road: Callable[[Roads], Callable[[], list[bool]]]) -> None:
    roads = Roads()
    roads.take()
    road(roads)
    roads.turns()
    assert (roads.in_memory(), roads.delayed()) == (CAPACITY, 1)


def test_batch_with_more_delayed_rows_than_memory_is_never_staged() -> None:
    roads = Roads()
    with pytest.raises(ContentTooLarge, match="has 5 delayed messages, 1,500 bytes or more for queue 'q'"):
        batch_of(roads, CAPACITY + 1)


def test_batch_promises_memory_for_its_delayed_rows() -> None:
    roads = Roads()
    roads.take()
    roads.take()
    batch_of(roads, 2)
    roads.turns()
    assert (roads.in_memory(), roads.delayed()) == (CAPACITY, 2)
    assert (int(roads.q.reserved.messages), int(roads.q.reserved.bytes)) == (0, 0)
    pager = roads.q.pager
    assert pager is not None
    assert (int(pager.promised_messages), int(pager.promised_bytes)) == (0, 0)


def test_transfer_waits_until_a_queue_that_pages_has_memory_to_delay_the_message() -> None:
    roads = Roads()
    source = roads.queue("source")
    roads.publish("", "source", roads.delaying)
    progress = WorkProgress()
    targets = ToExchange(roads.vhost, roads.broker.formats, source, roads.vhost.route("later", "", False))
    moving = TransferSource(roads.broker, source, True, progress)
    transfer = Transfer(roads.broker, "a move", moving, targets, MessageFilter(roads.broker.formats))
    steps = transfer.steps()
    next(steps)
    assert progress.held_by.startswith("its next message waits: queue 'q'")
    assert (int(source.messages), roads.in_memory(), roads.delayed()) == (1, CAPACITY, 0)
    roads.take()
    assert (int(source.messages), roads.in_memory(), roads.delayed()) == (0, CAPACITY, 1)


@pytest.mark.parametrize(("strategy", "lost"), [("at-least-once", 0), ("at-most-once", 1)])
def test_dead_letter_without_memory_to_delay_waits_or_is_lost_by_its_strategy(strategy: str, lost: int) -> None:
    roads = Roads()
    source = roads.queue(
        "source", x_dead_letter_exchange="later", x_dead_letter_strategy=strategy, x_overflow="reject-publish"
    )
    roads.publish("", "source", roads.delaying)
    session = Session()
    batch = session.get(source, False, roads.broker.now)
    session.unsettled.settle_tag(batch.first, False, Outcome.REJECTED, roads.broker.now)
    roads.turns()
    assert int(source.counters.rare.dead_letters_lost) == lost
    assert (int(source.messages), roads.delayed()) == (1 - lost, 0)
    roads.take()
    roads.turns(2.0)
    assert (int(source.messages), roads.delayed()) == (0, 1 - lost)


def test_queue_that_delays_nothing_pages_a_message_that_another_queue_delays() -> None:
    """The queue `q` has the message past the exchange that delays, so its full memory refuses nothing."""
    roads = Roads()
    other = roads.queue("other")
    roads.vhost.declare_exchange("in", "fanout", {}, False, False, False)
    roads.vhost.declare_exchange("late", DELAYED, {DELAYED_TYPE: "fanout"}, False, False, False)
    roads.vhost.bind("in", None, roads.vhost.exchanges["late"], "", {})
    roads.vhost.bind("in", roads.q, None, "", {})
    roads.vhost.bind("late", other, None, "", {})
    producer = roads.publish("in", "", roads.delaying)
    roads.turns()
    assert refusals(producer) == [False]
    pager = roads.q.pager
    assert pager is not None
    assert (int(pager.messages), int(other.delayed_messages)) == (1, 1)
