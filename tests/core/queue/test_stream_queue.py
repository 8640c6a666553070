"""A stream among queues: settlements remove nothing, and lists of its depth are those of the log."""

from __future__ import annotations

import pytest

from penstock.content.properties import Properties
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.queue.queue import Queue
from penstock.core.queue.stream_queue import DELAYED_BYTES, StreamQueue, make_queue
from penstock.core.queue.types import PLAIN
from penstock.errors import PreconditionFailed
from penstock.protocols.amqp091.content_frames import make_content
from tests.support.broker_fixture import House
from tests.support.stream_house import STREAM, StreamHouse


@pytest.mark.parametrize("outcome", list(Outcome))
def test_outcome_of_a_delivery_restores_credit_and_removes_nothing(outcome: Outcome) -> None:
    house = StreamHouse()
    house.append(0, 9)
    house.consume("c", prefetch=4)
    house.deliver()
    assert house.offsets("c") == [0, 1, 2, 3]
    stream = house.stream
    assert isinstance(stream, StreamQueue)
    assert stream.lent_messages == 4
    house.session.unsettled.settle_tag(2, False, outcome, house.now)
    house.deliver()
    assert house.offsets("c") == [4]
    house.acknowledge(outcome=outcome)
    house.deliver()
    assert house.offsets("c") == [5, 6, 7, 8]
    house.acknowledge(outcome=outcome)
    assert (stream.lent_messages, stream.lent_bytes) == (0, 0)
    assert (house.log.messages, stream.messages, stream.bytes, stream.unacked_messages) == (10, 0, 0, 0)


def test_deliveries_of_a_closed_session_leave_the_stream_alone() -> None:
    house = StreamHouse()
    house.append(0, 9)
    session = Session()
    house.consume("c", session=session)
    house.deliver()
    house.broker.end_session(session)
    house.settle()
    house.consume("d")
    house.deliver()
    assert house.offsets("d") == list(range(10))
    stream = house.stream
    assert isinstance(stream, StreamQueue)
    assert stream.lent_messages == 10
    assert not stream.consumers.keys() - house.session.consumers.values()


def test_placeholders_of_deliveries_have_their_charges_and_no_content() -> None:
    house = StreamHouse()
    house.append(0, 6, 33)
    house.consume("c")
    house.deliver()
    held = [message for _, _, message in house.session.unsettled.deliveries(1, 7, 10)]
    assert [message.content for message in held] == [b""] * 7
    assert sum(message.charge for message in held) == house.log.bytes


def test_stream_needs_a_store() -> None:
    house = House()
    with pytest.raises(PreconditionFailed, match=r"^queue 's': a stream needs a data directory"):
        house.vhost.declare_queue("s", dict(STREAM), True, False, None, None)


def test_queue_is_made_by_the_row_of_its_type() -> None:
    house = StreamHouse()
    stream = house.stream
    made = make_queue("/", "q", stream.settings, stream.turns, stream.counters.losses, PLAIN)
    assert type(made) is Queue
    assert type(stream) is StreamQueue


def delay(house: StreamHouse, content: bytes, delay_s: float, charge: int = 300) -> None:
    route = house.vhost.route("", "s", False)
    house.vhost.resolve(route, {})
    house.producers["s"].publish(route.persistent().delayed(house.now + delay_s), content, charge)


def test_delayed_message_is_appended_when_it_is_due() -> None:
    house = StreamHouse()
    delay(house, make_content(Properties(), b"1"), 50)
    house.settle()
    house.append(0, 0)
    stream = house.stream
    assert (stream.depth_messages(), stream.delayed_messages, house.log.messages) == (1, 1, 1)
    later = house.restarted()
    later.consume("c")
    later.deliver()
    assert later.offsets("c") == [0]
    later.step(51)
    later.settle()
    later.deliver()
    assert later.offsets("c") == [1]
    assert (later.stream.depth_messages(), later.stream.bytes, later.stream.delayed_messages) == (0, 0, 0)
    assert later.log.messages == 2
    assert sum(row.size for row in later.shelf.rows.values()) == later.log.bytes


def test_delayed_messages_of_a_stream_have_a_bound_and_go_with_it() -> None:
    house = StreamHouse()
    for _ in range(3):
        delay(house, b"x", 50, DELAYED_BYTES // 2)
        house.settle()
    assert house.stream.delayed_messages == 2
    assert [each.confirmed for each in house.producers["s"].confirms.take()].count(False) == 1
    house.broker.delete_queue(house.stream)
    house.settle()
    assert (house.stream.messages, house.stream.bytes) == (0, 0)
    assert not house.shelf.rows
