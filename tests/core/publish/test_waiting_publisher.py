"""Producers stopped at a closed gate for a whole hold deadline, producer states, and withheld runs."""

from __future__ import annotations

import pytest

from penstock.core.effects import Stopped
from penstock.core.gates.operator import VHOST
from penstock.core.publish.producer import Producer
from penstock.core.publish.waiting_publisher import PRODUCER_STATES, ProducerState
from penstock.errors import InternalError, PreconditionFailed, ResourceError
from penstock.flow.turns import DISMISS_WORK
from penstock.flow.work import UNITS_A_TURN
from tests.support.broker_fixture import House, told
from tests.support.setting_values import in_bytes
from tests.support.transaction_client import Client, traces


@pytest.fixture
def house() -> House:
    return House("a", capacity_messages=10, stop_messages=3, resume_messages=1, hold_deadline=5)


def closed(house: House, count: int = 4) -> Producer:
    """A producer whose publishes closed the gate at 100.0; it is told of all of them at 105.0."""
    producer = house.published("p", "a", 100, count=count)
    house.at(105.0)
    assert told(producer) == [(1, count, True)]
    return producer


def stops(house: House) -> list[tuple[str, str, float]]:
    return [
        (effect.producer.name, effect.gate.name, effect.hold_deadline_s)
        for effect in house.broker.effects()
        if isinstance(effect, Stopped)
    ]


def test_zone_takes_publishes_under_way_when_the_gate_closed(house: House) -> None:
    producer = house.published("p", "a", 100, count=4)
    house.at(104.9)
    house.publish(producer, "a", 100, count=5)
    assert (house.depth("a"), len(producer.outbox)) == (9, 0)


def test_stopped_producer_has_publishes_held_and_refused_at_the_deadline(
    house: House,
) -> None:
    producer = closed(house)
    house.at(106.0)
    house.publish(producer, "a", 100)
    assert (house.depth("a"), len(producer.outbox)) == (4, 1)
    house.at(110.9)
    assert told(producer) == []
    house.at(111.0)
    assert told(producer) == [(5, 5, False)]
    house.publish(producer, "a", 100)
    house.at(116.0)
    assert told(producer) == [(6, 6, False)], "and so it goes on"
    assert house.depth("a") == 4


def test_stopped_producer_without_confirms_has_the_channel_closed_with_the_reason(house: House) -> None:
    producer = house.producer("p", confirming=False)
    house.publish(producer, "a", 100, count=4)
    house.at(105.0)
    house.publish(producer, "a", 100)
    assert (house.depth("a"), len(producer.outbox)) == (4, 1)
    house.at(110.0)
    assert producer.closing.code == 506
    assert producer.closing.reply_text == (
        "RESOURCE_ERROR - 1 publish is lost: publish to exchange '' with routing key 'a' refused after its hold "
        "deadline of 5 s; queue 'a' holds 4 messages, 400 bytes (closed above 3 messages, opens at 1 message, capacity "
        "10 messages)"
    )


def test_stopped_producer_goes_on_in_turn_when_the_gate_opens(house: House) -> None:
    producer = closed(house)
    house.publish(producer, "a", 100, count=2)
    for _ in range(3):
        assert house.take("a")
    assert told(producer) == [(5, 6, True)]
    assert (house.depth("a"), len(producer.outbox)) == (3, 0)
    house.publish(producer, "a", 100, count=5)
    assert (house.depth("a"), len(producer.outbox)) == (8, 0), "the gate has closed anew: a new wait begins"


def test_wait_of_a_producer_counts_from_the_last_closing_of_the_gate(house: House) -> None:
    first, second = house.producer("first"), house.producer("second")
    house.publish(first, "a", 100, count=10)
    house.publish(second, "a", 100, count=3)
    house.at(104.0)
    while house.vhost.queues["a"].gate.stats.transitions == 1:
        assert house.take("a")
    assert not house.vhost.queues["a"].gate.open
    assert second.gates or not second.outbox
    house.at(106.0)
    house.publish(second, "a", 100)
    assert not second.outbox, "the gate was open 2 s ago"


def test_producer_that_has_not_waited_uses_the_zone_but_passes_no_waiter(house: House) -> None:
    other, late = house.producer("other"), house.producer("late")
    stopped = closed(house)
    house.publish(other, "a", 100)
    assert (house.depth("a"), len(other.outbox)) == (5, 0), "it has not waited yet"
    house.publish(stopped, "a", 100)
    house.publish(late, "a", 100)
    assert (house.depth("a"), len(stopped.outbox), len(late.outbox)) == (5, 1, 1)


def test_producer_that_comes_at_a_closed_gate_waits_from_the_closing(house: House) -> None:
    """A client that connects anew for each try does not fill the queue."""
    house.publish(house.producer("p"), "a", 100, count=4)
    house.at(103.0)
    early = house.published("early", "a", 100)
    assert (house.depth("a"), len(early.outbox)) == (5, 0)
    house.at(105.0)
    late = house.published("late", "a", 100)
    house.publish(early, "a", 100)
    assert (house.depth("a"), len(early.outbox), len(late.outbox)) == (5, 1, 1)
    house.at(108.0)
    assert told(early) == [(1, 1, True)]
    house.at(110.0)
    assert (told(early), told(late)) == ([(2, 2, False)], [(1, 1, False)])


def test_producer_stopped_at_a_gate_continues_at_other_gates(house: House) -> None:
    house.queue("b", capacity_messages=10, stop_messages=3, resume_messages=1, hold_deadline=5)
    producer = closed(house)
    house.publish(producer, "b", 100, count=4)
    assert house.depth("b") == 4
    house.at(107.0)
    house.publish(producer, "b", 100)
    assert house.depth("b") == 5, "it has waited 2 s there"
    house.publish(producer, "a", 100)
    house.publish(producer, "b", 100)
    assert (house.depth("a"), house.depth("b"), len(producer.outbox)) == (4, 5, 2), "its order is kept"


def test_message_for_two_queues_waits_at_the_gate_that_stopped_the_producer(house: House) -> None:
    house.queue("b")
    for name in ("a", "b"):
        house.vhost.bind("amq.fanout", house.vhost.queues[name], None, "", {})
    producer = closed(house)
    house.publish(producer, "", 100, "amq.fanout")
    assert (house.depth("a"), house.depth("b"), len(producer.outbox)) == (4, 0, 1)


def test_virtual_host_gate_stops_producers_as_a_queue_gate_does() -> None:
    house = House("a", hold_deadline=5)
    house.queue("b", hold_deadline=5)
    bound = in_bytes(1000, 500, 400)
    house.broker.gates.set_vhost_limit(house.vhost, bound)
    producer = house.published("p", "a", 100, count=6)
    house.at(105.0)
    house.publish(producer, "b", 100)
    assert (house.depth("a"), house.depth("b"), len(producer.outbox)) == (6, 0, 1)


def test_queue_below_the_guaranteed_share_is_not_stopped_by_the_memory_gate() -> None:
    house = House("hog", hold_deadline=5)
    house.queue("small", hold_deadline=5)
    bound = in_bytes(9000, 5000, 4000)
    house.broker.gates.set_memory_capacity(bound, 1000)
    producer = house.published("p", "hog", 100, count=55)
    memory = house.broker.gates.memory
    assert not memory.gate.open
    house.at(105.0)
    house.publish(producer, "small", 100)
    assert (house.depth("small"), len(producer.outbox)) == (1, 0)
    house.publish(producer, "hog", 100)
    assert (house.depth("hog"), len(producer.outbox)) == (55, 1)


def test_producer_without_a_hold_deadline_is_never_stopped() -> None:
    house = House("a", capacity_messages=10, stop_messages=3, resume_messages=1, hold_deadline=0)
    producer = house.published("p", "a", 100, count=4)
    house.at(1e6)
    house.publish(producer, "a", 100, count=6)
    assert (house.depth("a"), len(producer.outbox)) == (10, 0)
    assert stops(house) == []


@pytest.mark.parametrize(("deadline", "held_at"), [(2, 110.0), (20, 128.0), (0, None)])
def test_hold_deadline_that_changes_restarts_the_wait_of_a_stopped_producer(
    deadline: int, held_at: float | None
) -> None:
    house = House("a", capacity_messages=10, stop_messages=3, resume_messages=1)
    house.set("queue", "a", hold_deadline=5)
    producer = closed(house)
    house.at(108.0)
    house.set("queue", "a", hold_deadline=deadline)
    house.at(109.9 if held_at is None else held_at - 0.1)
    house.publish(producer, "a", 100)
    assert (house.depth("a"), len(producer.outbox)) == (5, 0), "it has a whole hold deadline again"
    house.at(1e6 if held_at is None else held_at)
    house.publish(producer, "a", 100)
    assert len(producer.outbox) == (0 if held_at is None else 1)


def test_stopped_producer_that_leaves_is_dropped_by_the_gate(house: House) -> None:
    producer = closed(house)
    house.publish(producer, "a", 100)
    producer.abort()
    gate = house.vhost.queues["a"].gate
    assert (gate.waiters, gate.blocked, gate.to_release, gate.stats.blocks) == ([], {}, {}, {})
    house.take("a", count=3)
    house.publish(house.producer("p"), "a", 100, count=4)
    assert house.depth("a") == 5


def test_deleted_queue_stops_no_producer(house: House) -> None:
    producer = closed(house)
    house.publish(producer, "a", 100)
    house.broker.delete_queue(house.vhost.queues["a"])
    house.at(105.1)
    assert told(producer) == [(5, 5, False)]
    house.queue("a", capacity_messages=10, stop_messages=3, resume_messages=1, hold_deadline=5)
    house.publish(producer, "a", 100, count=4)
    assert (house.depth("a"), len(producer.outbox)) == (4, 0)


def test_reject_policy_refuses_a_stopped_producer_at_once() -> None:
    house = House("a", capacity_messages=4, stop_messages=3, resume_messages=1, hold_deadline=5, overflow="reject")
    producer = closed(house)
    house.publish(producer, "a", 100)
    assert told(producer) == [(5, 5, False)]


@pytest.mark.parametrize("capacity", [1, 2, 3, 10])
def test_second_publish_at_the_closed_gate_is_refused_with_each_capacity(capacity: int) -> None:
    house = House("a", capacity_messages=capacity, hold_deadline=5)
    producer = house.producer("p")
    number, now, outcomes = 0, 100.0, []
    while len(outcomes) < 2:
        number += 1
        house.publish(producer, "a", 100)
        if not told(producer):
            now += 5.0
            house.at(now)
            outcomes.append(told(producer))
    assert outcomes == [[(number - 1, number - 1, True)], [(number, number, False)]]
    assert house.depth("a") == number - 1 <= capacity


def test_stopped_producer_is_reported_once_for_each_closing_of_the_gate(house: House) -> None:
    producer = closed(house)
    assert stops(house) == [("p", "a", 5.0)]
    house.publish(producer, "a", 100, count=3)
    house.at(120.0)
    told(producer)
    assert stops(house) == []
    house.take("a", count=3)
    house.publish(producer, "a", 100, count=3)
    house.at(130.0)
    assert stops(house) == [("p", "a", 5.0)]
    (block,) = house.vhost.queues["a"].gate.stats.blocks.values()
    assert block.stops == 2
    assert block.as_dict(130.0, house.vhost.queues["a"].gate.stats.since)["stopped"] is True


def test_stopped_producer_without_confirms_is_reported_at_the_first_held_publish(house: House) -> None:
    producer = house.producer("p", confirming=False)
    house.publish(producer, "a", 100, count=4)
    house.at(120.0)
    house.publish(producer, "a", 100)
    assert stops(house) == [("p", "a", 5.0)]


# Transactions


def test_stopped_transaction_is_held_and_rolled_back_at_the_deadline(house: House) -> None:
    client = Client(house, "t")
    client.publish("a", *[100] * 4)
    assert not client.commit()
    house.at(105.0)
    assert client.told() == 1
    client.publish("a", 100, 100)
    assert not client.commit()
    assert house.depth("a") == 4
    house.at(110.0)
    assert client.producer.closing.code == 506
    assert "refused after its hold deadline of 5 s" in client.producer.closing.reply_text
    client.end()
    assert traces(house, client) == []


def test_stopped_transaction_that_frees_as_much_as_added_continues(house: House) -> None:
    client = Client(house, "t")
    client.publish("a", *[100] * 4)
    client.commit()
    house.at(105.0)
    client.told()
    client.ack(client.get("a"))
    client.publish("a", 100)
    assert client.commit()
    client.ack(client.get("a"))
    assert client.commit()
    assert house.depth("a") == 3


@pytest.fixture
def narrow() -> House:
    return House("a", capacity_messages=1, hold_deadline=5)


def test_closed_producer_stays_closed() -> None:
    for state in ProducerState:
        with pytest.raises(InternalError):
            PRODUCER_STATES.move(ProducerState.CLOSED, state)


def test_refused_publish_without_a_confirm_closes_the_producer(narrow: House) -> None:
    producer = narrow.producer("p", confirming=False)
    assert producer.state is ProducerState.OPEN
    narrow.publish(producer, "a", 100, count=2)
    narrow.at(105.0)
    assert producer.state is ProducerState.CLOSING
    producer.abort()
    assert producer.state is ProducerState.CLOSED


def test_producer_lingers_until_the_last_held_publish_has_passed(narrow: House) -> None:
    producer = narrow.producer("p", confirming=False)
    narrow.publish(producer, "a", 100, count=2)
    producer.close_gracefully()
    assert producer.state is ProducerState.LINGERING
    assert narrow.take("a")
    assert (producer.state, narrow.depth("a")) == (ProducerState.CLOSED, 1)


def test_producer_without_held_publishes_is_closed_at_once(narrow: House) -> None:
    producer = narrow.producer("p", confirming=False)
    producer.close_gracefully()
    assert producer.state is ProducerState.CLOSED


def test_producer_that_closes_with_an_error_drops_the_held_publishes(
    narrow: House,
) -> None:
    producer = narrow.producer("p", confirming=False)
    narrow.publish(producer, "a", 100, count=3)
    producer.close(ResourceError("refused"))
    narrow.publish(producer, "a", 100)
    assert len(producer.outbox) == 2, "it takes no publishes"
    producer.close_gracefully()
    assert (producer.state, len(producer.outbox)) == (ProducerState.CLOSED, 0)
    assert producer.loss.messages == 2


def withheld(producer: Producer) -> list[tuple[int, int, float]]:
    """First, last and deadline of what is withheld."""
    return [(int(each.first), int(each.number), each.deadline) for each in producer.confirms.pending]


def test_withheld_run_is_a_single_entry_and_counts_each_publish(house: House) -> None:
    producer = house.published("p", "a", 100, count=9)
    assert withheld(producer) == [(4, 9, 105.0)]
    assert producer.withheld_run is not None
    assert told(producer) == [(1, 3, True)]
    (block,) = house.vhost.queues["a"].gate.stats.blocks.values()
    assert (block.withheld, block.withheld_bytes) == (6, 600)
    assert house.vhost.queues["a"].tail == 9


def test_withheld_run_ends_at_the_capacity_and_the_next_publish_is_held(house: House) -> None:
    producer = house.published("p", "a", 100, count=12)
    assert (house.depth("a"), len(producer.outbox), producer.withheld_run) == (10, 2, None)
    assert withheld(producer)[0] == (4, 10, 105.0)


def test_withheld_run_passes_no_waiting_publish(house: House) -> None:
    large, small = house.producer("large"), house.producer("small")
    house.queue("bytes", capacity_bytes=1000, stop_bytes=300, resume_bytes=100)
    house.publish(small, "bytes", 100, count=5)
    house.publish(large, "bytes", 600)
    assert len(large.outbox) == 1
    house.publish(small, "bytes", 100)
    assert len(small.outbox) == 1, "there is room for it, but somebody waits"


def test_withheld_run_ends_with_the_turn_because_deadlines_differ(house: House) -> None:
    producer = house.published("p", "a", 100, count=5)
    house.broker.begin(101.0)
    house.publish(producer, "a", 100, count=2)
    assert withheld(producer) == [(4, 5, 105.0), (6, 7, 106.0)]


def test_withheld_run_ends_when_the_gate_opens(house: House) -> None:
    producer = house.published("p", "a", 100, count=5)
    for _ in range(4):
        assert house.take("a")
    house.publish(producer, "a", 100)
    assert told(producer) == [(1, 6, True)]


def test_another_queue_between_does_not_join(house: House) -> None:
    house.queue("b")
    producer = house.published("p", "a", 100, count=5)
    house.publish(producer, "b", 100)
    house.publish(producer, "a", 100)
    assert (house.depth("a"), house.depth("b")) == (6, 1)
    assert [each[:2] for each in withheld(producer)] == [(4, 5), (6, 6), (7, 7)]


def test_lowered_capacity_counts_in_the_same_turn(house: House) -> None:
    def say(capacity: int) -> None:
        words = {"capacity-messages": capacity, "stop-messages": 3, "resume-messages": 1}
        house.set("queue", "said", **dict(words))

    say(10)
    house.queue("said")
    producer = house.published("p", "said", 100, count=5)
    say(6)
    house.publish(producer, "said", 100, count=2)
    assert (house.depth("said"), len(producer.outbox)) == (6, 1)


def test_closed_producer_joins_no_withheld_run(house: House) -> None:
    producer = house.published("p", "a", 100, count=5)
    producer.close(PreconditionFailed("enough"))
    house.publish(producer, "a", 100)
    assert house.depth("a") == 5


def test_neighbour_passes_while_waiters_at_a_deleted_queue_are_answered_in_slices() -> None:
    house = House("a", "b", capacity_messages=10)
    house.published("first", "a", 100, count=10)
    waiting = [house.published(f"p{number}", "a", 100, count=3) for number in range(700)]
    house.broker.run(1000)
    house.broker.delete_queue(house.vhost.queues["a"])
    answered = 0
    while house.broker.pending():
        house.published("neighbour", "b", 100)
        assert house.take("b")
        before, answered = answered, sum([3 - len(producer.outbox) for producer in waiting])
        assert answered - before <= UNITS_A_TURN // DISMISS_WORK + 1
    assert [told(producer) for producer in waiting] == [[(1, 1, False), (2, 2, False), (3, 3, False)]] * 700
    assert house.broker.turns.totals.holds.cumulative()[-1] == 2100


def test_deleted_queues_cost_waiters_elsewhere_a_single_pass_in_slices() -> None:
    house = House("a", *[f"gone{number}" for number in range(100)])
    house.broker.gates.block(VHOST, "/", "/", "")
    others = [house.published(f"p{number}", "a", 100) for number in range(500)]
    concerned = [house.published(f"q{number}", "gone0", 100) for number in range(2000)]
    house.broker.run(1000)
    first, done = house.vhost.queues["gone0"], house.broker.work.done
    for number in range(100):
        house.broker.delete_queue(house.vhost.queues[f"gone{number}"])
    assert house.broker.work.done - done < 1000
    house.broker.run(0)
    assert 0 < sum([producer.gate is first.gate for producer in concerned]) < 2000
    while house.broker.run(1000):
        pass
    assert [told(producer) for producer in concerned] == [[(1, 1, False)]] * 2000
    assert [len(producer.outbox) for producer in others] == [1] * 500
