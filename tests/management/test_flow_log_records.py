"""Records of the flow log: one for each event, sums each second, and a count of suppressed ones."""

from __future__ import annotations

from penstock.management.flow_log_records import RECENT, RECORDS_KEPT, WATCH_PAGE, Recorder
from tests.support.broker_fixture import House
from tests.support.sender_links import Link, run_until_quiet


def recorded(house: House, recorder: Recorder) -> list[str]:
    """Record the effects so far; return the events."""
    for effect in house.broker.effects():
        recorder.record(effect)
    recorder.tick()
    return [str(record["event"]) for record in recorder.take()]


def test_flow_log_records_a_gate_and_its_blocked_producers_in_order() -> None:
    house = House()
    house.queue("a", capacity_messages=3, stop_messages=1, resume_messages=0)
    recorder = Recorder(house.broker)
    producer = house.producer("p")
    for _ in range(3):
        house.publish(producer, "a", 100)
    assert recorded(house, recorder)[:2] == ["gate-closed", "blocked"]
    while house.take("a"):
        pass
    assert recorded(house, recorder)[:2] == ["gate-opened", "unblocked"]


def test_flow_log_records_refusals_of_a_producer_as_one_sum() -> None:
    house = House()
    house.queue("a", capacity_messages=1, hold_deadline=5)
    recorder = Recorder(house.broker)
    producer = house.producer("p")
    for _ in range(4):
        house.publish(producer, "a", 100)
    house.broker.begin(106.0)
    house.broker.run(1000)
    for effect in house.broker.effects():
        recorder.record(effect)
    recorder.tick()
    (refused,) = (record for record in recorder.take() if record["event"] == "refused")
    assert (refused["count"], refused["count_bytes"], refused["producer"]) == (3, 300, "p")


def test_flow_log_records_have_both_times() -> None:
    house = House()
    recorder = Recorder(house.broker)
    recorder.wall_offset = 1000.0
    recorder.setting("queue 'a'", "set by somebody", "anna")
    (record,) = recorder.take()
    assert (record["mono"], record["wall"]) == (100.0, 1100.0)
    assert recorder.take() == []


def test_flow_log_records_beyond_the_bound_of_a_turn_are_counted() -> None:
    recorder = Recorder(House().broker)
    for _ in range(RECORDS_KEPT + 3):
        recorder.setting("queue 'a'", "set by somebody", "anna")
    records = recorder.take()
    assert len(records) == RECORDS_KEPT + 1
    assert (records[-1]["event"], records[-1]["count"]) == ("lost", 3)


def test_flow_log_records_the_credit_of_a_sender_that_is_blocked() -> None:
    house = House()
    house.queue("a", capacity_messages=20, stop_messages=5, resume_messages=2)
    recorder = Recorder(house.broker)
    link = Link(house, "a")
    run_until_quiet(house)
    for _ in range(6):
        house.publish_now("a", 100)
    link.send(3)
    link.credit.give_back(7)
    house.broker.run(100)
    for effect in house.broker.effects():
        recorder.record(effect)
    blocked = [record for record in recorder.take() if record["event"] == "blocked"]
    assert [blocked[-1][name] for name in ("granted", "used", "drained", "moved", "idle")] == [10, 3, 7, 0, 0]


def test_watch_has_the_last_records_page_by_page_and_counts_lost_records() -> None:
    recorder = Recorder(House().broker)
    assert recorder.since(0) == ([], 0)
    for _ in range(RECENT + 10):
        recorder.setting("queue 'a'", "set by somebody", "anna")
    recorder.take()
    records, end = recorder.since(3)
    assert (records[0]["event"], records[0]["count"], len(records), end) == ("lost", 7, WATCH_PAGE + 1, 10 + WATCH_PAGE)
    records, end = recorder.since(end)
    assert [record["event"] for record in records] == ["setting"] * WATCH_PAGE
    assert recorder.since(RECENT + 10) == ([], RECENT + 10)
    assert recorder.since(RECENT + 1_000) == ([], RECENT + 10)
