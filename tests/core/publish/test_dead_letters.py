"""Dead letters: they stay in their queue until there is room elsewhere, up to a deadline."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.core.consume.outcome import Outcome
from penstock.core.effects import PublishRefused
from penstock.core.message import Envelope
from penstock.core.publish.dead_letters import LETTER_DEADLINE_S, LETTER_UNITS, TARGET_UNITS, publisher_of
from penstock.core.publish.held import REPORTED_MOST
from penstock.core.queue.expiry import expire
from penstock.errors import PreconditionFailed
from penstock.flow.work import UNITS_A_TURN
from tests.support.broker_fixture import House, told
from tests.support.dead_letters import Morgue
from tests.support.full_queue import FullQueue
from tests.support.transaction_client import Client


def waiting_letter(*contents: bytes) -> Morgue:
    """A house of which the first message was rejected, and finds no room among the dead."""
    house = Morgue()
    house.queue("dead", capacity_messages=1)
    house.put(b"old", queue="dead")
    house.put(*contents)
    house.deliver()
    house.reject(1)
    return house


def test_rejected_message_goes_to_the_dead_letter_exchange_in_order() -> None:
    house = Morgue()
    house.queue("dead")
    house.put(b"1", b"2", b"3", b"4")
    house.deliver(4)
    house.reject(2)
    house.reject(4, multiple=True)
    assert house.ready("dead") == [b"2|work:rejected", b"1|work:rejected", b"3|work:rejected", b"4|work:rejected"]
    assert house.sums("work") == (0, 0, 0)
    assert int(house["work"].counters.rare.dead_lettered) == 4


def test_dead_letter_is_charged_with_the_added_headers() -> None:
    house = Morgue()
    house.queue("dead")
    house.put(b"1")
    house.deliver()
    house.reject(1)
    assert house.sums("dead") == (1, 100 + len(b"|work:rejected"), 0)


def test_expired_messages_go_there_too() -> None:
    house = Morgue(message_ttl=1000)
    house.queue("dead")
    house.put(b"1", b"2")
    expire(house["work"], house.broker.now + 1.5, house.broker.now)
    house.run()
    assert house.ready("dead") == [b"1|work:expired", b"2|work:expired"]
    assert house.sums("work") == (0, 0, 0)
    assert int(house["work"].counters.expired) == 2


@pytest.mark.parametrize(
    ("policy", "outcomes", "dead", "refused", "dropped"),
    [
        ("drop-head", [(1, 4, True)], 2, 0, 2),
        ("reject-publish-dlx", [(4, 4, False), (3, 3, False), (1, 2, True)], 2, 2, 0),
        ("reject", [(4, 4, False), (3, 3, False), (1, 2, True)], 0, 2, 0),
    ],
)
def test_overflow_policy_dead_letters_dropped_and_refused_messages(
    policy: str, outcomes: list[tuple[int, int, bool]], dead: int, refused: int, dropped: int
) -> None:
    house = Morgue(capacity_messages=2, overflow=policy)
    house.queue("dead")
    producer = house.published("p", "work", 100, count=4)
    house.run()
    assert sorted(told(producer)) == sorted(outcomes)
    assert house.ready("dead") == [b"x|work:maxlen"] * dead
    counters = house["work"].counters
    assert (house.depth("work"), int(counters.refused), int(counters.dropped)) == (2, refused, dropped)


def test_dead_letter_without_a_configured_routing_key_keeps_the_original_key() -> None:
    house = Morgue()
    house.queue("dead")
    house.queue("keeping", dead_letter_exchange="amq.topic")
    house.bind("amq.topic", "dead", "keep.#")
    house["keeping"].enqueue(Envelope("", "keep.this"), b"1", 100, house.broker.now)
    house.put(b"2", queue="keeping")
    assert house.session.get(house["keeping"], False, house.broker.now) is not None
    house.reject(1)
    assert house.ready("dead") == [b"1|keeping:rejected"]


# Without room


def test_dead_letter_waits_in_the_source_queue_for_room_and_blocks_the_producers() -> None:
    house = Morgue(capacity_messages=2, stop_messages=1, resume_messages=0)
    house.queue("dead", capacity_messages=1, stop_messages=0, resume_messages=0)
    house.put(b"old", queue="dead")
    house.put(b"1", b"2")
    house.deliver(2)
    house.reject(1)
    assert house.sums("work") == (2, 200, 2), "it is where it was, and with nobody"
    producer = house.published("p", "work", 100)
    assert len(producer.outbox) == 1, "a full dead-letter queue stops the producers of the first, and loses nothing"
    assert house.lost() == 0
    house.reject(2)
    assert house.take("dead")
    assert house.ready("dead") == [b"1|work:rejected"]
    assert house.depth("work") == 1
    assert house.take("dead")
    assert house.ready("dead") == [b"2|work:rejected"]
    house.run()
    assert len(producer.outbox) == 0
    assert house.sums("work") == (1, 100, 0)


@pytest.mark.parametrize("others", [2, REPORTED_MOST], ids=["few queues", "very many"])
@pytest.mark.parametrize("letters", [1, 3])
def test_lost_dead_letters_are_reported_once_at_the_queue_that_held_them(letters: int, others: int) -> None:
    house = Morgue(dead_letter_exchange="amq.fanout")
    house.queue("full", capacity_messages=1, hold_deadline=5)
    house.bind("amq.fanout", "full", "")
    for number in range(others):
        house.queue(f"other{number}")
        house.bind("amq.fanout", f"other{number}", "")
    house.put(b"old", queue="full")
    house.put(*[b"x"] * letters)
    house.deliver(letters)
    house.reject(letters, True)
    waiting = publisher_of(house["work"])
    assert waiting is not None
    assert len(waiting.outbox) == letters
    house.broker.effects()
    house.run(5.1)
    house.run(1.0)
    refused = [effect for effect in house.broker.effects() if isinstance(effect, PublishRefused)]
    assert [(effect.gate, effect.messages) for effect in refused] == [(house["full"].gate, letters)]
    assert house.lost() == letters


@pytest.mark.parametrize(("deadline", "waits"), [(5, 5.0), (0, LETTER_DEADLINE_S)])
def test_dead_letter_without_room_at_the_deadline_is_lost_and_counted(deadline: float, waits: float) -> None:
    house = Morgue()
    house.queue("dead", capacity_messages=1, hold_deadline=deadline)
    house.put(b"old", queue="dead")
    house.put(b"1", b"2")
    house.deliver(2)
    house.reject(1)
    house.run(1.0)
    house.reject(2)
    house.run(waits - 1.1)
    assert (house.depth("work"), house.lost()) == (2, 0)
    house.run(0.2)
    assert (house.depth("work"), house.lost()) == (1, 1)
    house.run(1.0)
    assert (house.sums("work"), house.lost()) == ((0, 0, 0), 2)
    assert house.take("dead")
    assert house.depth("dead") == 0, "nothing of it comes later"
    assert len(house["dead"].gate.blocked) == 0


def test_dead_letter_dropped_by_a_ring_does_not_wait() -> None:
    """What a ring drops must be gone at once: the next message already has its place."""
    house = Morgue(capacity_messages=1, overflow="drop-head")
    house.queue("dead", capacity_messages=1)
    house.put(b"old", queue="dead")
    house.put(b"1", b"2")
    house.run()
    assert (house.ready("work"), house.ready("dead"), house.lost()) == ([b"2"], [b"old"], 1)


def test_letters_of_a_full_queue_to_itself_do_not_wait_for_each_other() -> None:
    house = Morgue(capacity_messages=2, message_ttl=1000, dead_letter_routing_key="work")
    house.put(b"1", b"2")
    house.deliver(2)
    house.reject(2, multiple=True)
    assert house.ready("work") == [b"1|work:rejected", b"2|work:rejected"], "a retry of one's own"
    assert house["work"].messages == 2


# Without a target


def test_dead_letter_circle_without_a_rejection_is_dropped() -> None:
    house = Morgue(message_ttl=1000, dead_letter_routing_key="work")
    house.put(b"1")
    expire(house["work"], house.broker.now + 2, house.broker.now)
    house.run()
    assert (house.depth("work"), house.lost()) == (0, 1)


def test_dead_letter_circle_with_a_rejection_goes_on() -> None:
    house = Morgue(dead_letter_routing_key="wait")
    house.queue("wait", message_ttl=1000, dead_letter_exchange="", dead_letter_routing_key="work")
    house.put(b"1")
    for turn in range(1, 4):
        house.deliver()
        house.reject(turn)
        assert house.depth("wait") == 1
        house.run(1.5)
        expire(house["wait"], house.broker.now, house.broker.now)
        house.run()
        assert house.depth("work") == 1, "retried"
    assert house.lost() + house.lost("wait") == 0


@pytest.mark.parametrize("exchange", ["nowhere", "amq.direct"])
def test_dead_letter_without_an_exchange_or_binding_is_lost_and_counted(exchange: str) -> None:
    house = Morgue(dead_letter_exchange=exchange)
    house.put(b"1")
    house.deliver()
    house.reject(1)
    assert (house.sums("work"), house.lost()) == ((0, 0, 0), 1)


def test_dead_letter_exchange_declared_later_is_found() -> None:
    house = Morgue(dead_letter_exchange="later")
    house.queue("dead")
    house.put(b"1", b"2")
    house.deliver(2)
    house.reject(1)
    house.vhost.declare_exchange("later", "fanout", {}, False, False, True)
    house.bind("later", "dead", "")
    house.reject(2)
    assert (house.ready("dead"), house.lost()) == ([b"2|work:rejected"], 1), "an internal one, as is meant for this"


def test_dead_letter_routing_key_without_an_exchange_is_refused() -> None:
    house = House()
    with pytest.raises(PreconditionFailed, match="needs dead-letter-exchange, which is not set"):
        house.queue("work", dead_letter_routing_key="dead")


# Deletions, changes, transactions


def test_waiting_dead_letter_continues_when_the_target_is_deleted() -> None:
    house = waiting_letter(b"1")
    assert house.depth("work") == 1
    house.broker.delete_queue(house["dead"])
    house.run()
    assert (house.sums("work"), house.lost()) == ((0, 0, 0), 1)


def test_waiting_dead_letter_arrives_although_the_source_is_deleted() -> None:
    house = waiting_letter(b"1")
    house.broker.delete_queue(house["work"])
    house.run()
    assert house.take("dead")
    assert house.ready("dead") == [b"1|work:rejected"]


def test_purge_leaves_dead_letters_on_their_way_alone() -> None:
    house = waiting_letter(b"1", b"2")
    assert house["work"].purge(house.broker.now) == 1
    assert house.take("dead")
    assert house.ready("dead") == [b"1|work:rejected"]


def test_rejection_in_a_transaction_dead_letters_at_the_commit() -> None:
    house = Morgue()
    house.queue("dead")
    house.put(b"1", b"2")
    client = Client(house, "tx")
    client.discard(client.get("work"))
    client.get("work")
    house.run()
    assert (house.ready("dead"), house.sums("work")) == ([], (2, 200, 2))
    assert client.commit()
    house.run()
    assert house.ready("dead") == [b"1|work:rejected"]
    assert house.sums("work") == (1, 100, 1)


def test_dead_letter_to_many_queues_costs_as_many_units() -> None:
    house = FullQueue(1000, x_dead_letter_exchange="all")
    house.vhost.declare_exchange("all", "fanout", {}, False, False, False)
    for number in range(99):
        house.queue(f"d{number}", capacity_messages=10_000)
        house.vhost.bind("all", house.vhost.queues[f"d{number}"], None, "", {})
    house.deliver_all()
    house.session.unsettled.settle_tag(0, True, Outcome.REJECTED, house.broker.now)
    house.broker.run(1000)
    assert house.depth("d98") == UNITS_A_TURN // (LETTER_UNITS + 99 * TARGET_UNITS) + 1


# At-least-once

KEEPS = {"dead_letter_strategy": "at-least-once"}


@pytest.mark.parametrize("deadline", [0, 1])
def test_letter_of_at_least_once_has_no_deadline(deadline: int) -> None:
    house = Morgue(capacity_messages=2, stop_messages=1, resume_messages=0, **KEEPS)
    house.queue("dead", capacity_messages=1, hold_deadline=deadline)
    house.put(b"old", queue="dead")
    house.put(b"1", b"2")
    house.deliver(2)
    house.reject(2, multiple=True)
    house.run(10_000.0)
    assert (house.sums("work"), house.lost()) == ((2, 200, 2), 0)
    producer = house.published("p", "work", 100)
    assert len(producer.outbox) == 1, "the source holds its letters, and so its producers"
    for content in (b"1", b"2"):
        assert house.take("dead")
        house.run()
        assert house.ready("dead") == [content + b"|work:rejected"]
    assert (house.depth("work"), house.lost()) == (1, 0)


@pytest.mark.parametrize(
    "full",
    [
        {"overflow": "reject", "capacity_messages": 1},
        {"overflow": "reject-dead-letter", "capacity_messages": 1},
        {"x-max-length": 1, "x-overflow": "reject-publish"},
        {"overflow": "block", "capacity_messages": 1},
        {"overflow": "block", "capacity_bytes": 150},
    ],
)
def test_letter_of_at_least_once_waits_for_a_queue_that_refuses(full: dict[str, object]) -> None:
    house = Morgue(**KEEPS)
    house.queue("dead", **full)
    house.put(b"old", queue="dead")
    house.put(b"1", b"2")
    house.deliver(2)
    house.reject(2, multiple=True)
    house.run(100.0)
    assert (house.ready("dead"), house.depth("work"), house.lost()) == ([b"old"], 2, 0)
    for left in (1, 0):
        assert house.take("dead")
        house.run(2.0)
        assert (len(house.ready("dead")), house.depth("work"), house.lost()) == (1, left, 0)


def no_exchange(house: Morgue) -> None:
    house.vhost.declare_exchange("later", "fanout", {}, False, False, False)
    house.bind("later", "dead", "")


def no_binding(house: Morgue) -> None:
    house.bind("amq.direct", "dead", "work")


def too_small(house: Morgue) -> None:
    house.set("queue", "small", capacity_bytes=1000)


@pytest.mark.parametrize(
    ("exchange", "key", "repair", "said"),
    [
        ("later", "work", no_exchange, "its dead-letter exchange 'later' is not there"),
        ("amq.direct", "work", no_binding, "exchange 'amq.direct' with routing key 'work' leads to no queue"),
        ("", "small", too_small, "it can never fit into queue 'small'"),
    ],
)
def test_letter_of_at_least_once_without_a_route_is_parked_until_there_is_a_route(
    exchange: str, key: str, repair: Callable[[Morgue], None], said: str
) -> None:
    house = Morgue(dead_letter_exchange=exchange, dead_letter_routing_key=key, capacity_messages=2, **KEEPS)
    house.queue("dead")
    house.queue("small")
    house.set("queue", "small", capacity_bytes=100)
    house.put(b"1", b"2")
    house.deliver(2)
    house.reject(2, multiple=True)
    house.run(1000.0)
    letters = publisher_of(house["work"])
    assert letters is not None
    assert [parked.cause for parked in letters.parked] == [said] * 2
    assert (house.sums("work"), house.lost(), int(letters.waiting().messages)) == ((2, 200, 2), 0, 2)
    repair(house)
    house.run(2.0)
    assert (house.sums("work"), house.lost(), int(letters.waiting().messages)) == ((0, 0, 0), 0, 0)
    assert house.depth("dead") + house.depth("small") == 2
    assert len(letters.parked) == 0


def test_parked_letter_does_not_hold_later_letters() -> None:
    house = Morgue(dead_letter_exchange="amq.topic", **KEEPS)
    house.queue("source", dead_letter_exchange="amq.topic", **KEEPS)
    house.queue("dead")
    house.bind("amq.topic", "dead", "good")
    for key in ("bad", "good", "bad", "good"):
        house["source"].enqueue(Envelope("x", key), key.encode(), 100, house.broker.now)
    for _ in range(4):
        assert house.session.get(house["source"], False, house.broker.now) is not None
    house.reject(4, multiple=True)
    assert len(house.ready("dead")) == 2
    assert (house.depth("source"), house.lost("source")) == (2, 0)


def test_parked_letters_end_with_the_queue_or_the_strategy() -> None:
    for ends in ("deleted", "at-most-once"):
        house = Morgue(dead_letter_exchange="later", dead_letter_routing_key="x")
        house.set("queue", "work", dead_letter_strategy="at-least-once")
        house.put(b"1")
        house.deliver()
        house.reject(1)
        house.run(100.0)
        queue = house["work"]
        assert (house.depth("work"), house.lost()) == (1, 0)
        if ends == "deleted":
            house.broker.delete_queue(queue)
        else:
            house.set("queue", "work", dead_letter_strategy="at-most-once")
        house.run(2.0)
        assert (int(queue.messages), int(queue.counters.rare.dead_letters_lost)) == (0, 1)


def test_strategy_that_comes_and_goes_applies_to_letters_that_wait() -> None:
    house = waiting_letter(b"1")
    house.run(20.0)
    house.set("queue", "work", dead_letter_strategy="at-least-once")
    house.run(1000.0)
    assert (house.depth("work"), house.lost()) == (1, 0)
    house.set("queue", "work", dead_letter_strategy="at-most-once")
    house.run(24.0)
    assert (house.depth("work"), house.lost()) == (1, 0), "a whole deadline from then on"
    house.run(2.0)
    assert (house.depth("work"), house.lost()) == (0, 1)


def test_letter_of_at_least_once_whose_target_is_deleted_is_parked() -> None:
    house = Morgue(**KEEPS)
    house.queue("dead", capacity_messages=1)
    house.put(b"old", queue="dead")
    house.put(b"1")
    house.deliver()
    house.reject(1)
    house.broker.delete_queue(house["dead"])
    house.run()
    assert (house.depth("work"), house.lost()) == (1, 0)
    house.queue("dead")
    house.run(2.0)
    assert (house.ready("dead"), house.depth("work")) == ([b"1|work:rejected"], 0)


@pytest.mark.parametrize("strategy", ["at-most-once", "at-least-once"])
def test_letter_of_a_queue_full_by_bytes_to_itself_is_not_lost(strategy: str) -> None:
    house = Morgue(capacity_bytes=200, dead_letter_routing_key="work", dead_letter_strategy=strategy)
    house.put(b"1", b"2")
    house.deliver(2)
    house.reject(2, multiple=True)
    assert (len(house.ready("work")), house.lost()) == (2, 0)
    assert int(house["work"].highest()[1]) <= 200
