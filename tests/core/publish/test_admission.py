"""Reasons of refused publishes, and rates of connections and users.

Rates and weights are changed while publishes wait. A publish goes into all queues of its route.
"""

from __future__ import annotations

from penstock.core.publish.admission import QUEUE_WORK, enqueue_all
from penstock.core.publish.connection_gates import ConnectionGates
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.errors import ContentTooLarge
from penstock.flow.gate import DEADLINE, DELETED, HOLD_BOUND, NEVER_FITS, Gate, Refusal
from tests.support import at_once
from tests.support.broker_fixture import House
from tests.support.topology import resolve


def refusal(producer: Producer) -> Refusal:
    """The reason of the only outcome that may be sent."""
    (outcome,) = producer.confirms.take()
    assert not outcome.confirmed
    assert outcome.refusal is not None
    return outcome.refusal


def test_refusal_by_an_overflow_policy_names_the_policy(house: House) -> None:
    house.queue("a", capacity_messages=1, overflow="reject")
    producer = house.published("p", "a", 100)
    producer.confirms.take()
    house.publish(producer, "a", 100)
    reason = refusal(producer)
    assert (reason.cause, reason.retriable) == ("reject", False)
    assert reason.describe() == house.vhost.queues["a"].describe_overflow()


def test_refusal_after_a_hold_deadline_is_retriable(house: House) -> None:
    house.queue("a", capacity_messages=1, hold_deadline=5)
    producer = house.published("p", "a", 100, count=2)
    house.at(105.0)
    refused = [outcome.refusal for outcome in producer.confirms.take() if outcome.refusal is not None]
    assert [(each.cause, each.retriable) for each in refused] == [(DEADLINE, True)]
    assert refused[0].describe().startswith("refused after its hold deadline of 5 s; queue 'a' holds 1 message")


def test_refusal_by_a_full_hold_budget_is_retriable(house: House) -> None:
    house.queue("a", capacity_messages=1)
    producer = Producer(house.broker, "p", HoldBudget(150), house.origin)
    producer.confirming = True
    house.publish(producer, "a", 100, count=3)
    reason = refusal(producer)
    assert (reason.cause, reason.retriable) == (HOLD_BOUND, True)
    assert reason.describe().startswith("refused: 1 publishes (100 bytes) are held already; queue 'a' holds 1 message")


def test_refusal_of_publishes_held_for_a_deleted_queue_names_the_deletion(house: House) -> None:
    house.queue("a", capacity_messages=1)
    producer = house.published("p", "a", 100, count=2)
    producer.confirms.take()
    house.broker.delete_queue(house.vhost.queues["a"])
    house.broker.run(1000)
    refused = [outcome.refusal for outcome in producer.confirms.take() if outcome.refusal is not None]
    assert [(each.cause, each.describe()) for each in refused] == [(DELETED, "queue 'a' was deleted")]


def test_refusal_after_a_lowered_capacity_states_that_the_message_never_fits(house: House) -> None:
    house.queue("a")
    house.set("queue", "a", capacity_bytes=1000)
    producer = house.published("p", "a", 900, count=2)
    producer.confirms.take()
    house.set("queue", "a", capacity_bytes=500)
    assert house.take("a")
    refused = [outcome.refusal for outcome in producer.confirms.take() if outcome.refusal is not None]
    assert [each.cause for each in refused] == [NEVER_FITS]
    assert isinstance(refused[0].error, ContentTooLarge)


def test_rate_of_a_user_is_shared_unlike_the_rate_of_a_connection() -> None:
    house = House("a")
    other = ConnectionGates("alice", "2")
    house.broker.gates.add_connection(other)
    first, second = house.producer("first"), house.producer("second", origin=other)
    house.set("user", "alice", rate_messages=10, burst_messages=2)
    for producer in (first, second):
        house.publish(producer, "a", 100, count=5)
    assert house.depth("a") == 2
    house.later(0.25)
    assert house.depth("a") == 4
    at_once.remove(house.broker, "user", "alice", [])
    house.broker.run(1000)
    assert house.depth("a") == 10
    assert first.fast_path
    assert second.fast_path
    house.set("connection", "#", rate_messages=10, burst_messages=2)
    for producer in (first, second):
        house.publish(producer, "a", 100, count=5)
    assert house.depth("a") == 14, "each connection has its own"


def test_users_weight_is_the_producers_share_of_the_turns() -> None:
    house = House("a", capacity_messages=20, stop_messages=19, resume_messages=10)
    bob = ConnectionGates("bob", "2")
    house.broker.gates.add_connection(bob)
    light, heavy = house.producer("light"), house.producer("heavy", origin=bob)
    house.set("user", "bob", weight=3)
    filler = house.producer("filler")
    filler.confirming = False  # Nobody waits for it to return.
    house.publish(filler, "a", 100, count=20)
    for _ in range(40):
        house.publish(light, "a", 100)
        house.publish(heavy, "a", 100)
    before = len(light.outbox), len(heavy.outbox)
    house.take("a", count=20)
    passed = before[0] - len(light.outbox), before[1] - len(heavy.outbox)
    assert sum(passed) >= 8
    assert abs(passed[1] - 3 * passed[0]) <= 3


def fanout(house: House, **capacities: int) -> Route:
    for name, most in capacities.items():
        house.queue(name, capacity_messages=most, overflow="reject")
        house.vhost.bind("amq.fanout", house.vhost.queue(name), None, "", {})
    route = resolve(house.vhost, "amq.fanout")
    return route


def enqueued(house: House, route: Route) -> Queue | None:
    closed: list[Gate] = []
    return enqueue_all(house.broker, [], route, route.queues, b"x", 100, closed)


def test_enqueue_puts_a_message_into_every_queue_and_counts_the_work() -> None:
    house = House()
    route = fanout(house, a=5, b=5)
    before = house.broker.work.done
    assert enqueued(house, route) is None
    assert (house.depth("a"), house.depth("b")) == (1, 1)
    assert house.broker.work.done - before == 2 * QUEUE_WORK


def test_enqueue_returns_the_queue_that_refused_and_fills_the_rest() -> None:
    house = House()
    route = fanout(house, a=1, b=5)
    enqueued(house, route)
    assert enqueued(house, route) is house.vhost.queue("a")
    assert (house.depth("a"), house.depth("b")) == (1, 2)
    assert int(house.vhost.queue("a").counters.refused) == 1
