"""Events of waiting publishes: recorded while somebody asks for them, and only then."""

from __future__ import annotations

from penstock.core.publish.held import HeldPublish, HoldEnd, HoldEvent, ProducerEnded, Withheld
from tests.support.broker_fixture import House


def taken(house: House) -> list[HoldEvent]:
    """Take the events, as the driver does."""
    events = house.broker.hold_events
    assert events is not None
    house.broker.hold_events = []
    return events


def test_nothing_is_recorded_unless_holds_are_traced() -> None:
    house = House("a", capacity_messages=1)
    producer = house.producer("p")
    house.publish(producer, "a", 100, count=3)
    producer.abort()
    assert house.broker.hold_events is None


def test_hold_ends_when_it_passes_and_tells_where_it_began() -> None:
    house = House("a", capacity_messages=1)
    house.broker.hold_events = []
    producer = house.producer("p", confirming=False)
    house.publish(producer, "a", 100)
    assert taken(house) == []
    house.publish(producer, "a", 100)
    assert taken(house) == []
    house.take("a")
    [end] = taken(house)
    assert isinstance(end, HoldEnd)
    assert isinstance(end.held, HeldPublish)
    assert (end.producer, end.cause, end.held.gate) == (producer, "", house.vhost.queues["a"].gate)


def test_hold_that_is_refused_or_dropped_tells_the_cause() -> None:
    house = House("a", capacity_messages=1, hold_deadline=5)
    producer = house.producer("p")
    house.publish(producer, "a", 100)
    house.broker.hold_events = []
    house.publish(producer, "a", 100)
    house.at(106.0)
    [late] = taken(house)
    assert isinstance(late, HoldEnd)
    assert (late.cause, late.now) == ("deadline", 106.0)
    assert "refused after" in late.why
    other = house.producer("other")
    house.publish(other, "a", 100)
    other.abort("reset")
    gone, dropped = taken(house)
    assert isinstance(gone, ProducerEnded)
    assert isinstance(dropped, HoldEnd)
    assert (gone.producer, dropped.cause) == (other, "reset")


def test_withheld_confirm_is_recorded_with_its_number() -> None:
    house = House("a", capacity_messages=5, stop_messages=1, resume_messages=0)
    house.broker.hold_events = []
    producer = house.producer("p")
    house.publish(producer, "a", 100, count=4)
    events = taken(house)
    assert [event.number for event in events if isinstance(event, Withheld)] == [2, 3, 4]
    gate = house.vhost.queues["a"].gate
    assert all(isinstance(event, Withheld) and event.gate is gate for event in events)
