"""Counts of sessions: deliveries, gets and acknowledgements, each exactly once, whatever ends."""

from __future__ import annotations

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.publish.session_counts import consumed, count_ended, leave_counts
from penstock.flow.series import Tally
from tests.support.broker_fixture import House


def counts(tally: Tally) -> dict[str, int]:
    keys = ("deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "ack", "redeliver")
    return {key: int(getattr(tally, key)) for key in keys if int(getattr(tally, key))}


def delivered(messages: int, no_ack: bool = False) -> tuple[House, Session]:
    """A session that has so many messages of queue q."""
    house = House("q")
    house.publish_now("q", 100, count=messages)
    session = Session()
    house.broker.consume(session, Consumer("c", session, house.vhost.queue("q"), no_ack, False, 0))
    while house.broker.next_batch() is not None:
        pass
    return house, session


def of_queue(house: House) -> tuple[int, int, int, int]:
    queue = house.vhost.queues["q"]
    counters = queue.counters
    return (
        int(counters.published(queue)),
        int(counters.delivered_to_ack()),
        int(counters.acknowledged(queue)),
        int(counters.redelivered),
    )


def test_session_counts_acknowledgements_of_any_range() -> None:
    house, session = delivered(10)
    session.unsettled.acknowledge(3, False, 100.0)
    session.unsettled.acknowledge(2, True, 100.0)
    session.unsettled.settle(5, 6, Outcome.ACCEPTED, 100.0)
    assert counts(consumed(session)) == {"deliver": 10, "ack": 5}
    assert of_queue(house) == (10, 10, 5, 0)


def test_rejected_and_requeued_deliveries_are_no_acknowledgements() -> None:
    house, session = delivered(6)
    session.unsettled.settle(1, 1, Outcome.REJECTED, 100.0)
    session.unsettled.settle(3, 4, Outcome.REJECTED, 100.0)
    session.unsettled.settle(2, 2, Outcome.FAILED, 100.0)
    assert counts(consumed(session)) == {"deliver": 6}
    assert of_queue(house) == (6, 6, 0, 0)


def test_redelivered_messages_alone_are_counted() -> None:
    house, session = delivered(5)
    session.unsettled.settle(2, 3, Outcome.FAILED, 100.0)
    house.publish_now("q", 100)
    house.broker.schedule_delivery(house.vhost.queues["q"])
    while house.broker.next_batch() is not None:
        pass
    assert counts(consumed(session)) == {"deliver": 8, "redeliver": 2}
    assert of_queue(house) == (6, 8, 0, 2)
    assert int(house.vhost.queues["q"].counters.returned) == 0


def test_deliveries_without_acknowledgement_are_counted_apart() -> None:
    house, session = delivered(3, no_ack=True)
    assert counts(consumed(session)) == {"deliver_no_ack": 3}
    assert of_queue(house) == (3, 0, 0, 0)


def test_gets_are_counted_by_kind() -> None:
    house = House("q")
    session, queue = Session(), house.vhost.queue("q")
    house.publish_now("q", 100, count=2)
    session.get(queue, False, 100.0)
    session.get(queue, True, 100.0)
    session.count_get_empty(queue)
    session.unsettled.acknowledge(1, False, 100.0)
    assert counts(consumed(session)) == {"get": 1, "get_no_ack": 1, "get_empty": 1, "ack": 1}
    assert of_queue(house) == (2, 0, 1, 0)
    assert (int(queue.counters.gets), int(queue.counters.gets_no_ack), int(queue.counters.gets_empty)) == (1, 1, 1)


def test_purged_expired_and_dropped_messages_are_no_acknowledgements() -> None:
    house = House("q", x_message_ttl=1000)
    house.publish(house.producer("p"), "q", 100, count=3)
    house.later(2.0)
    house.publish_now("q", 100)
    house.vhost.queues["q"].purge(house.broker.now)
    assert house.depth("q") == 0
    assert of_queue(house) == (4, 0, 0, 0)


def test_ended_session_leaves_the_counts_once() -> None:
    house, session = delivered(4)
    session.unsettled.acknowledge(1, False, 100.0)
    house.broker.end_session(session)
    house.later(0.0)
    count_ended(session, house.origin)
    count_ended(session, house.origin)
    assert counts(house.origin.counts) == {"deliver": 4, "ack": 1}


def test_connection_that_ends_leaves_the_counts_before_the_sessions_are_torn_down() -> None:
    house, session = delivered(4)
    producer = house.published("p", "q", 100)
    of_vhost, of_user = Tally(), Tally()
    leave_counts([session], house.origin, [of_vhost, of_user])
    assert counts(of_vhost) == {"deliver": 4}
    assert int(of_vhost.publish) == 1
    session.unsettled.acknowledge(4, False, 100.0)
    house.broker.end_session(session)
    producer.abort()
    count_ended(session, house.origin)
    assert counts(of_vhost) == counts(of_user) == {"deliver": 4, "ack": 1}
    assert int(of_user.publish) == 1
