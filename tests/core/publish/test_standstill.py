"""Publishers without confirms: their hold deadline runs only while their gate stands still."""

from __future__ import annotations

import pytest

from penstock.core.publish.producer import Producer
from penstock.core.publish.standstill import LOOKS_A_DEADLINE
from tests.support.broker_fixture import House, told

DEADLINE_S = 8
CAPACITY = 10
SETTINGS = {"capacity_messages": CAPACITY, "stop_messages": 9, "resume_messages": 7, "hold_deadline": DEADLINE_S}


def house_with(producer_confirms: bool, sent: int, **arguments: object) -> tuple[House, Producer]:
    """A queue of ten messages that opens at seven, and a producer that has sent more than it takes."""
    house = House("q", **(SETTINGS | arguments))
    producer = house.producer("p", confirming=producer_confirms)
    house.publish(producer, "q", 100, count=sent)
    return house, producer


def test_publish_without_a_confirm_is_refused_only_after_a_standstill() -> None:
    house, producer = house_with(False, 60)
    for _ in range(45):
        house.later(DEADLINE_S / 10)
        house.take("q")
    assert producer.closing is None, "four deadlines have passed, and some publishes with each second"
    stands_from = house.broker.now
    while producer.closing is None:
        house.later(0.5)
    assert DEADLINE_S <= house.broker.now - stands_from <= DEADLINE_S + DEADLINE_S / LOOKS_A_DEADLINE + 0.5


def test_confirmed_publish_has_a_separate_deadline_although_the_gate_moves() -> None:
    house, producer = house_with(True, 60)
    house.at(107.0)
    house.take("q", 4)
    house.at(107.5)
    passed = int(producer.accepted_messages)
    assert passed > CAPACITY
    told(producer)
    house.at(108.1)
    refused = [first for first, _, confirmed in told(producer) if not confirmed]
    assert refused == list(range(passed + 1, 61))
    assert producer.closing is None


def test_depth_that_goes_down_to_the_resume_threshold_is_no_standstill() -> None:
    house, producer = house_with(False, 30, capacity_messages=20, stop_messages=19, resume_messages=1)
    for _ in range(18):
        house.later(DEADLINE_S / 4)
        house.take("q")
        assert (len(producer.outbox), producer.closing) == (10, None), "the gate lets nothing pass yet"
    house.later(DEADLINE_S / 4)
    house.take("q")
    assert (len(producer.outbox), producer.closing) == (0, None)


IN_BYTES = {"capacity_bytes": 1000, "stop_bytes": 900, "resume_bytes": 700, "hold_deadline": DEADLINE_S}


@pytest.mark.parametrize("settings", [SETTINGS, IN_BYTES], ids=["count", "size"])
@pytest.mark.parametrize("taken", [0, 1])
def test_gate_that_moved_a_little_and_then_stops_refuses_after_a_deadline(
    settings: dict[str, object], taken: int
) -> None:
    house = House("q", **settings)
    producer = house.producer("p", confirming=False)
    house.publish(producer, "q", 100, count=20)
    house.later(0.5)
    if taken:
        house.take("q", taken)
    while producer.closing is None and house.broker.now < 200.0:
        house.later(0.1)
    assert 100.0 + DEADLINE_S - 0.1 <= house.broker.now <= 100.7 + DEADLINE_S + taken * DEADLINE_S / LOOKS_A_DEADLINE
    lost = 20 - int(producer.accepted_messages)
    assert str(producer.closing).startswith(f"{lost} publishes are lost: publish to exchange '' with routing key 'q' ")


def test_rate_that_passes_a_publish_now_and_then_is_no_standstill() -> None:
    house = House("q", hold_deadline=DEADLINE_S)
    house.set("user", "alice", rate_messages=1)
    producer = house.producer("p", confirming=False)
    house.publish(producer, "q", 100, count=4 * DEADLINE_S)
    for _ in range(50 * DEADLINE_S):
        house.later(0.1)
    assert (producer.closing, house.depth("q")) == (None, 4 * DEADLINE_S)


def test_publish_that_waits_for_ever_has_no_deadline_to_postpone() -> None:
    house, producer = house_with(False, 20, hold_deadline=0)
    house.later(1e6)
    assert (len(producer.outbox), producer.closing) == (20 - CAPACITY, None)
    assert house.broker.next_deadline() is None


def test_deadline_restarts_for_publishes_after_a_pause() -> None:
    house, producer = house_with(False, 12)
    house.take("q", 4)
    house.later(0.1)
    assert len(producer.outbox) == 0
    house.later(100 * DEADLINE_S)
    house.publish(producer, "q", 100, count=5)
    assert len(producer.outbox) > 0
    house.later(DEADLINE_S - 0.5)
    assert producer.closing is None
    house.later(1.0)
    assert producer.closing is not None


def test_publishers_that_share_a_gate_each_need_progress_or_the_depth() -> None:
    house, first = house_with(False, 40)
    second = house.producer("second", confirming=False)
    house.publish(second, "q", 100, count=40)
    for _ in range(40):
        house.later(DEADLINE_S / 8)
        house.take("q", 2)
    assert (first.closing, second.closing) == (None, None)
    assert len(first.outbox) + len(second.outbox) == 0
