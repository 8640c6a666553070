"""Messages that cannot be sent to a consumer: the consumer skips them, and others get them."""

from __future__ import annotations

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.message import Message
from penstock.core.queue.queue import Queue
from tests.support.broker_fixture import House

LARGE = 1_000


class Narrow(Session):
    """A session whose client cannot be sent messages of `LARGE` bytes or more."""

    def __init__(self) -> None:
        super().__init__()
        self.sure_charge = LARGE // 2
        self.asked: list[int] = []

    def passes_over(self, queue: Queue, message: Message) -> str:
        self.asked.append(int(message.charge))
        return "it is too large" if message.charge >= LARGE else ""


@pytest.fixture
def house() -> House:
    return House("q")


def consume(house: House, session: Session, tag: str = "c", no_ack: bool = False, window: int = 0) -> Consumer:
    consumer = Consumer(tag, session, house.vhost.queue("q"), no_ack, False, window)
    house.broker.consume(session, consumer)
    return consumer


def delivered(house: House) -> list[tuple[str, int]]:
    """Return the consumer and the charge of each delivery that the broker has now."""
    found: list[tuple[str, int]] = []
    while (batch := house.broker.next_batch()) is not None:
        assert batch.left == len(batch.messages) > 0
        found += [(batch.consumer.tag, int(message.charge)) for message in batch.messages if message is not None]
    return found


@pytest.mark.parametrize("no_ack", [False, True])
def test_unsendable_message_is_passed_over_and_stays_in_the_queue(house: House, no_ack: bool) -> None:
    session, queue = Narrow(), house.vhost.queue("q")
    consumer = consume(house, session, no_ack=no_ack)
    for charge in (LARGE, 10, LARGE + 1, 11):
        house.publish_now("q", charge)
    house.broker.schedule_delivery(queue)
    assert delivered(house) == [("c", 10), ("c", 11)]
    assert (int(queue.waiting()), int(queue.unacked_messages)) == (2, 0 if no_ack else 2)
    assert int(queue.bytes) == 2 * LARGE + 1 + (0 if no_ack else 21)
    assert [int(message.charge) for message in queue.ready_queue.messages()] == [LARGE, LARGE + 1]
    assert consumer.obstacles(0.0) == ["waits for a message that its connection can be sent: it is too large"]


def test_unsendable_message_goes_to_another_consumer_in_order(house: House) -> None:
    queue, narrow = house.vhost.queue("q"), Narrow()
    consume(house, narrow, "narrow")
    for charge in (LARGE, 10, LARGE + 1):
        house.publish_now("q", charge)
    house.broker.schedule_delivery(queue)
    assert delivered(house) == [("narrow", 10)]
    consume(house, Session(), "wide", window=1)
    assert delivered(house) == [("wide", LARGE)]
    assert int(queue.waiting()) == 1


def test_unsendable_message_is_examined_once_by_the_consumer(house: House) -> None:
    session, queue = Narrow(), house.vhost.queue("q")
    consume(house, session)
    house.publish_now("q", LARGE)
    house.broker.schedule_delivery(queue)
    for number in range(5):
        house.publish_now("q", 10 + number)
        house.broker.schedule_delivery(queue)
        assert delivered(house) == [("c", 10 + number)]
    assert session.asked.count(LARGE) == 2, "when it was taken, and by the scan that begins then"


def test_small_messages_are_not_asked_about(house: House) -> None:
    session, queue = Narrow(), house.vhost.queue("q")
    consumer = consume(house, session)
    house.publish_now("q", LARGE // 4, count=2)
    house.broker.schedule_delivery(queue)
    assert len(delivered(house)) == 2
    assert session.asked == []
    assert consumer.scan is None


def test_unsendable_message_is_not_got_without_a_subscription(house: House) -> None:
    session, queue = Narrow(), house.vhost.queue("q")
    house.publish_now("q", LARGE)
    for no_ack in (False, True):
        batch = session.get(queue, no_ack, house.broker.now)
        assert batch is not None
        assert batch.left == 0
    assert (int(queue.waiting()), int(queue.unacked_messages), session.unsettled.count()) == (1, 0, 0)
    assert (session.tally.get, session.tally.get_no_ack) == (0, 0)
    assert house.take("q"), "another session gets it"
