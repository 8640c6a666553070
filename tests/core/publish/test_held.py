"""Held publishes: passing, refusal, and recorded events.

Events of held publishes are recorded only if requested. Publishes behind a closed gate can be withdrawn.
"""

from __future__ import annotations

import pytest

from penstock.core.effects import PublishRefused
from penstock.core.publish.held import REPORTED_MOST, HeldPublish, ProducerEnded, Refusals, Withheld, withdraw
from penstock.core.publish.hold_room import PLACE_BYTES, held_bytes
from penstock.core.publish.outbox import REFUSED_AT_ONCE, Held, HoldEvent
from penstock.core.publish.producer import Producer
from penstock.core.publish.waiting_publisher import HoldEnd
from penstock.flow.gate import WITHDRAWN
from tests.support.broker_fixture import House, told
from tests.support.sender_links import CHARGE, run_turn


def test_held_publish_is_refused_at_the_deadline_with_the_stopping_gate() -> None:
    house = House("a", capacity_messages=1, hold_deadline=5)
    producer = house.published("p", "a", 100, count=2)
    (held,) = producer.outbox
    said = held.deadline_message([], 105.0)
    assert said.startswith(
        "publish to exchange '' with routing key 'a' refused after its hold deadline of 5 s; queue 'a' "
    )
    assert not held.closes_session()
    house.at(105.1)
    assert not producer.outbox
    assert (2, 2, False) in told(producer)


def test_thousands_of_held_publishes_are_refused_some_at_a_time_in_order() -> None:
    house = House("a", capacity_messages=1, hold_deadline=5)
    producer = house.producer("p")
    for _ in range(2 * REFUSED_AT_ONCE + 2):
        house.publish(producer, "a", 1)
    assert len(producer.outbox) == 2 * REFUSED_AT_ONCE + 1
    before = house.broker.work.done
    refused = 0
    for left in (REFUSED_AT_ONCE + 1, 1, 0):
        house.at(house.broker.now + (0.01 if refused else 5.1))
        assert len(producer.outbox) == left
        refused = 2 * REFUSED_AT_ONCE + 1 - left
    assert house.broker.work.done - before >= refused
    assert [each for each in told(producer) if not each[2]][-1][1] == 2 * REFUSED_AT_ONCE + 2


def test_held_publish_enters_the_remaining_queues_of_the_route() -> None:
    house = House()
    for name, most in (("a", 1), ("b", 5)):
        house.queue(name, capacity_messages=most)
        house.vhost.bind("amq.fanout", house.vhost.queue(name), None, "", {})
    producer = house.published("p", "", 100, "amq.fanout", count=2)
    assert len(producer.outbox) == 1
    house.broker.delete_queue(house.vhost.queue("a"))
    house.broker.run(1000)
    assert house.depth("b") == 2


def test_held_publishes_pass_up_to_stop_and_the_crossing_publish_closes_the_gate() -> None:
    house = House("a", capacity_messages=10, stop_messages=6, resume_messages=2)
    producer, queue = house.producer("p"), house.vhost.queue("a")
    house.publish(producer, "a", 100, count=20)
    assert (house.depth("a"), len(producer.outbox), told(producer)) == (10, 10, [(1, 6, True)])
    for _ in range(8):
        assert house.take("a")
    assert (house.depth("a"), int(queue.bytes), len(producer.outbox), queue.gate.open) == (7, 700, 5, False)
    assert told(producer) == [(7, 14, True)]
    (block,) = queue.gate.stats.blocks.values()
    assert (block.held, block.withheld, int(producer.accepted_messages), int(queue.tail)) == (10, 5, 15, 15)
    assert (int(producer.hold_budget.messages), int(producer.hold_budget.bytes)) == (5, 500)


def test_held_publish_of_a_blocked_user_passes_the_gate_of_the_user_too() -> None:
    house = House("a", capacity_messages=2, stop_messages=1, resume_messages=1)
    producer = house.published("p", "a", 100, count=4)
    gate = house.broker.gates.block("user", "", "alice", "maintenance")
    for _ in range(2):
        assert house.take("a")
    assert (house.depth("a"), len(producer.outbox)) == (0, 2)
    house.broker.gates.unblock("user", "", "alice")
    house.broker.run(1000)
    assert (house.depth("a"), len(producer.outbox), gate.gate.open) == (2, 0, True)


def taken(house: House) -> list[HoldEvent]:
    """Take the events, as the driver does."""
    events = house.broker.hold_events
    assert events is not None
    house.broker.hold_events = []
    return events


def test_hold_events_are_recorded_only_if_traced() -> None:
    house = House("a", capacity_messages=1)
    producer = house.published("p", "a", 100, count=3)
    producer.abort()
    assert house.broker.hold_events is None


def test_hold_event_of_a_passed_publish_has_the_beginning() -> None:
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


def test_held_publish_to_many_queues_takes_hold_budget_for_each() -> None:
    house = House()
    for name in ("a", "b", "c"):
        house.queue(name, capacity_messages=1)
        house.vhost.bind("amq.fanout", house.vhost.queue(name), None, "", {})
    producer = house.published("p", "", 100, "amq.fanout")
    house.broker.effects()
    for key in ("", "1", "2", "1"):
        house.publish(producer, key, 100, "amq.fanout")
    assert producer.hold_budget.bytes == 4 * held_bytes(100, 3) == 4 * (100 + 2 * PLACE_BYTES)
    producer.abort()
    assert (producer.hold_budget.bytes, producer.hold_budget.messages) == (0, 0)
    refused = [effect for effect in house.broker.effects() if isinstance(effect, PublishRefused)]
    assert [(effect.gate.name, effect.messages, effect.bytes) for effect in refused] == [
        (name, 4, 400) for name in ("a", "b", "c")
    ]
    assert [house.vhost.queues[name].counters.refused for name in ("a", "b", "c")] == [4, 4, 4]


@pytest.mark.parametrize(
    ("entries", "sums", "looked_at"),
    [
        ("", {}, 0),
        ("ab ab ab", {"a": (3, 33), "b": (3, 33)}, 2),
        ("ab c ab", {"a": (2, 22), "b": (2, 22), "c": (1, 11)}, 5),
        ("ab bc bc", {"a": (1, 11), "b": (3, 33), "c": (2, 22)}, 4),
        ("a a b a", {"a": (3, 33), "b": (1, 11)}, 3),
    ],
)
def test_refusals_are_summed_by_queue_and_neighbours_with_the_same_list_together(
    entries: str, sums: dict[str, tuple[int, int]], looked_at: int
) -> None:
    house = House("a", "b", "c")
    lists = {names: [house.vhost.queue(name) for name in names] for names in entries.split()}
    refusals = Refusals([Held(lists[names], 11, 1, None, 0.0) for names in entries.split()])
    found = {each.queue.name: (int(each.entries), int(each.charge)) for each in refusals.of_queues.values()}
    assert (found, list(found), int(refusals.looked_at)) == (sums, list(sums), looked_at)


def test_refusal_at_very_many_queues_is_counted_by_each_and_reported_at_closed_gates() -> None:
    house = House("full", capacity_messages=1)
    names = ["full", *(f"q{number}" for number in range(REPORTED_MOST))]
    for name in names:
        if name not in house.vhost.queues:
            house.queue(name)
        house.vhost.bind("amq.fanout", house.vhost.queue(name), None, "", {})
    producer = house.published("p", "", 100, "amq.fanout", count=3)
    house.broker.effects()
    held = len(producer.outbox)
    assert held > 0
    producer.abort()
    refused = [effect for effect in house.broker.effects() if isinstance(effect, PublishRefused)]
    assert [(effect.gate.name, effect.messages) for effect in refused] == [("full", held)]
    assert {house.vhost.queues[name].counters.refused for name in names} == {held}


@pytest.mark.parametrize("by_operator", [False, True], ids=["its own gate", "the operator's gate"])
def test_refusal_at_the_deadline_is_reported_at_queues_that_held_the_publish(by_operator: bool) -> None:
    house = House("full", "empty", capacity_messages=1, hold_deadline=5)
    for name in ("empty", "full"):
        house.vhost.bind("amq.fanout", house.vhost.queue(name), None, "", {})
    if by_operator:
        house.broker.gates.block("queue", "/", "full", "stocktaking")
    else:
        house.published("first", "full", 100)
    house.published("p", "", 100, "amq.fanout")
    house.broker.effects()
    house.at(106.0)
    refused = [effect for effect in house.broker.effects() if isinstance(effect, PublishRefused)]
    assert [(effect.gate.name, effect.messages) for effect in refused] == [("full", 1)]
    assert [house.vhost.queues[name].counters.refused for name in ("empty", "full")] == [0, 1]


def test_hold_event_of_a_refused_or_dropped_publish_has_the_cause() -> None:
    house = House("a", capacity_messages=1, hold_deadline=5)
    producer = house.published("p", "a", 100)
    house.broker.hold_events = []
    house.publish(producer, "a", 100)
    house.at(106.0)
    [late] = taken(house)
    assert isinstance(late, HoldEnd)
    assert (late.cause, late.now) == ("deadline", 106.0)
    assert "refused after" in late.why
    other = house.published("other", "a", 100)
    other.abort("reset")
    gone, dropped = taken(house)
    assert isinstance(gone, ProducerEnded)
    assert isinstance(dropped, HoldEnd)
    assert (gone.producer, dropped.cause) == (other, "reset")


def test_withheld_confirm_is_recorded_with_the_number() -> None:
    house = House("a", capacity_messages=5, stop_messages=1, resume_messages=0)
    house.broker.hold_events = []
    house.published("p", "a", 100, count=4)
    events = taken(house)
    assert [event.number for event in events if isinstance(event, Withheld)] == [2, 3, 4]
    gate = house.vhost.queues["a"].gate
    assert all(isinstance(event, Withheld) and event.gate is gate for event in events)


def prompt_producer(house: House) -> Producer:
    house.queue("a", capacity_messages=2, stop_messages=1)
    producer = house.producer("p")
    producer.prompt = True
    return producer


def test_prompt_producer_is_blocked_and_has_a_confirm() -> None:
    house = House()
    producer = prompt_producer(house)
    house.publish(producer, "a", CHARGE, count=2)
    gate = house.vhost.queues["a"].gate
    assert not gate.open
    assert id(producer) in gate.blocked
    assert told(producer) == [(1, 2, True)]
    house.take("a", count=2)
    run_turn(house)
    assert id(producer) not in gate.blocked


def test_withdrawn_publish_is_refused_and_the_next_takes_the_place() -> None:
    house = House()
    producer = prompt_producer(house)
    house.publish(producer, "a", CHARGE, count=5)
    assert told(producer) == [(1, 2, True)]
    assert withdraw(producer, 3)
    assert withdraw(producer, 5), "one in the middle of the line"
    assert not withdraw(producer, 3)
    assert not withdraw(producer, 1)
    refused = producer.confirms.take()
    assert [(int(each.first), each.refusal.cause) for each in refused if each.refusal] == [
        (3, WITHDRAWN),
        (5, WITHDRAWN),
    ]
    assert (producer.hold_budget.messages, producer.hold_budget.bytes) == (1, CHARGE)
    assert producer.entry(house.vhost.queues["a"].gate).refused == 2
    house.take("a", count=2)
    run_turn(house)
    assert told(producer) == [(4, 4, True)]
    assert house.vhost.queues["a"].messages == 1
    assert not producer.outbox


def test_last_held_publish_leaves_no_line_when_withdrawn() -> None:
    house = House()
    producer = prompt_producer(house)
    house.publish(producer, "a", CHARGE, count=3)
    assert withdraw(producer, 3)
    assert producer.gate is None
    assert not house.vhost.queues["a"].gate.waiters
