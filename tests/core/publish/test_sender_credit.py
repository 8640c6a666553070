"""Sender credit: granted from free room, used without a wait, and released at the end."""

from __future__ import annotations

import random

import pytest

from penstock.core.effects import Blocked, Unblocked
from penstock.core.publish.connection_gates import ConnectionGates
from penstock.core.publish.credit_window import CreditWindow
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.sender_credit import QUEUES_MAX
from penstock.core.publish.unit_of_work import Coordinator
from penstock.settings.read import read_settings
from tests.support import at_once
from tests.support.broker_fixture import MIB, House
from tests.support.sender_links import CHARGE, OCTETS, Link, run_turn, run_until_quiet
from tests.support.setting_values import in_bytes

# Grants


def test_new_link_gets_the_first_credit_in_the_next_turn_and_is_notified_once(house: House) -> None:
    house.queue("a")
    link = Link(house, "a")
    assert link.left == 0
    run_turn(house)
    assert (link.left, link.client.notified) == (64, 1)
    assert house.reserved("a") == (64, 64 * CHARGE)
    run_turn(house)
    assert (link.left, link.client.notified) == (64, 1)


def test_credit_window_is_topped_up_at_half_in_messages_or_bytes(house: House) -> None:
    house.queue("a")
    link = Link(house, "a", window=CreditWindow(100, 200 * CHARGE, OCTETS))
    run_turn(house)
    assert link.send(32) == 32
    run_turn(house)
    assert link.left == 100
    link.send(49)
    run_turn(house)
    assert link.left == 51
    link.send(2)
    run_turn(house)
    assert link.left == 100
    narrow = Link(house, "a", window=CreditWindow(100, 10 * CHARGE, OCTETS))
    run_turn(house)
    assert narrow.left == 10


def test_charge_of_a_credit_is_the_largest_of_the_last_messages(house: House) -> None:
    house.queue("a")
    link = Link(house, "a", window=CreditWindow(100, 1 << 20, OCTETS))
    run_turn(house)
    link.send(40)
    link.send(1, 4 * CHARGE)
    run_turn(house)
    assert house.reserved("a") == (100, 400 * CHARGE)
    link.send(99)
    run_turn(house)
    assert house.reserved("a") == (100, 400 * CHARGE), "one of them was large"
    link.send(64)
    run_turn(house)
    assert house.reserved("a") == (100, 100 * CHARGE)


def test_first_grant_is_a_trial_in_a_small_queue_and_more_in_a_large_queue(house: House) -> None:
    house.queue("a", capacity_bytes=4 * MIB)
    house.queue("b")
    small, large, anywhere = (Link(house, key, window=CreditWindow()) for key in ("a", "b", None))
    run_turn(house)
    assert (small.left, large.left, anywhere.left) == (1, 24, 1), "a quarter of 100 MiB in messages of 1 MiB"
    small.send(1)
    run_turn(house)
    assert small.left == 2
    assert house.reserved("a") == (2, 2 * CHARGE)


@pytest.mark.parametrize("links", [1, 8, 64])
@pytest.mark.parametrize("seed", range(3))
def test_messages_of_mixed_sizes_on_credit_are_never_refused_and_few_are_held(
    house: House, links: int, seed: int
) -> None:
    house.queue("a", capacity_bytes=MIB)
    budget, chance = HoldBudget(MIB), random.Random(seed)
    senders = [Link(house, "a", window=CreditWindow(), budget=budget) for _ in range(links)]
    queue = house.vhost.queues["a"]
    for _ in range(200):
        run_turn(house)
        for link in senders:
            for _ in range(link.left):
                link.send(1, 240 + chance.randint(100, 10_000))
            assert int(queue.bytes + queue.reserved.bytes) <= MIB
    for link in senders:
        link.take_outcomes()
        assert link.refused == 0
    assert sum(len(link.producer.outbox) for link in senders) <= links, "no more than one a link"
    assert max(len(link.producer.outbox) for link in senders) <= 2
    assert int(queue.bytes) > MIB * 8 // 10


def test_link_gets_no_more_while_the_credit_lacks_the_room_for_the_messages(house: House) -> None:
    house.queue("a", capacity_bytes=40 * CHARGE, stop_bytes=40 * CHARGE, resume_bytes=40 * CHARGE)
    link = Link(house, "a", window=CreditWindow(100, MIB, OCTETS))
    run_turn(house)
    assert link.left == 20
    link.send(1, 15 * CHARGE)
    run_turn(house)
    assert (link.left, house.reserved("a")) == (19, (19, 19 * CHARGE)), "no room for 19 as large"
    link.credit.on_flow(100)
    run_turn(house)
    assert (link.left, link.credit.gate) == (19, None)
    link.send(19)
    run_turn(house)
    assert link.left == 0
    assert link.credit.gate is house.vhost.queues["a"].gate
    house.take("a")
    run_turn(house)
    assert link.left == 1


def test_small_room_gives_small_grants_and_sent_is_never_more_than_the_places(house: House) -> None:
    house.queue("a", capacity_messages=720)
    links = [Link(house, "a") for _ in range(64)]
    sent = 0
    for _ in range(50):
        run_turn(house)
        for link in links:
            sent += link.send(1000)
        queue = house.vhost.queues["a"]
        assert int(queue.messages) + int(queue.reserved.messages) <= 720
    assert 720 * 80 // 100 < sent <= 720
    assert sent == house.depth("a")
    for link in links:
        link.take_outcomes()
        assert link.refused == 0
        assert not link.producer.outbox


def test_closed_gate_grants_no_credit_and_the_opening_grants_some_within_a_turn(house: House) -> None:
    house.queue("a", capacity_messages=10, stop_messages=5, resume_messages=2)
    house.publish_now("a", CHARGE, count=6)
    link = Link(house, "a")
    run_until_quiet(house)
    assert link.left == 0
    for _ in range(3):
        house.take("a")
        assert link.left == 0
    house.session.get(house.vhost.queues["a"], True, house.broker.now)
    run_turn(house)
    assert link.left == 4, "half of eight"


def test_full_queue_with_an_open_gate_gives_no_credit_until_there_is_room(house: House) -> None:
    house.queue("a", capacity_messages=4, stop_messages=4, resume_messages=4)
    first = Link(house, "a", window=CreditWindow(4, 1 << 20, OCTETS))
    first.credit.on_flow(4)
    run_until_quiet(house)
    first.send(1)
    run_until_quiet(house)
    other = Link(house, "a")
    run_until_quiet(house)
    while first.send(1):
        run_until_quiet(house)
    assert int(house.vhost.queues["a"].messages) + house.reserved("a")[0] == 4
    assert other.left + first.left == house.reserved("a")[0]
    while not (first.left and other.left):
        house.take("a")
        run_until_quiet(house)


def test_sender_that_has_more_waits_in_line_despite_credit(house: House) -> None:
    house.queue("a", capacity_messages=100)
    link = Link(house, "a", window=CreditWindow(90, 1 << 20, OCTETS))
    run_until_quiet(house)
    assert link.left == 32
    link.credit.on_flow(1000)
    run_until_quiet(house)
    assert link.left >= 45


# The line


def test_link_that_waits_at_a_closed_gate_holds_no_publish_in_the_zone(house: House) -> None:
    house.queue("a", capacity_messages=10, stop_messages=3, resume_messages=1)
    house.publish_now("a", CHARGE, count=4)
    link = Link(house, "a")
    run_until_quiet(house)
    gate = house.vhost.queues["a"].gate
    assert (link.left, gate.in_line(), gate.has_line()) == (0, 1, False)
    producer = house.published("p", "a", CHARGE, count=7)
    assert (house.depth("a"), len(producer.outbox)) == (10, 1)
    assert link.credit.blocked_by() is gate


def test_link_that_waits_at_an_open_gate_is_not_passed_by_newcomers(house: House) -> None:
    house.queue("a", capacity_messages=8, stop_messages=8, resume_messages=8)
    holders = [Link(house, "a", window=CreditWindow(8, 1 << 20, OCTETS)) for _ in range(4)]
    run_until_quiet(house)
    assert house.reserved("a")[0] == 8
    waiting = Link(house, "a", window=CreditWindow(8, 1 << 20, OCTETS))
    run_until_quiet(house)
    producer = house.published("p", "a", CHARGE)
    assert (waiting.left, len(producer.outbox)) == (0, 1)
    holders[0].credit.give_back(2)
    run_until_quiet(house)
    assert waiting.left == 1
    assert not producer.outbox, "the next place is for the publish, not for more credit"


def test_turns_of_links_and_publishes_alternate_by_bytes(house: House) -> None:
    house.queue("a", capacity_messages=1, stop_messages=0, resume_messages=0)
    house.publish_now("a", CHARGE)
    links = [Link(house, "a") for _ in range(2)]
    run_until_quiet(house)
    producers = [house.producer(f"p{n}") for n in range(2)]
    for producer in producers:
        house.publish(producer, "a", CHARGE, count=20)
    sent = [0, 0]
    for _ in range(40):
        house.take("a")
        run_until_quiet(house)
        for n, link in enumerate(links):
            sent[n] += link.send(1)
        run_until_quiet(house)
    passed = [20 - len(producer.outbox) for producer in producers]
    assert sum(sent) + sum(passed) == 40
    assert max(*sent, *passed) - min(*sent, *passed) <= 2, (sent, passed)


def test_round_of_a_closing_gate_passes_over_senders_that_wait_for_credit(house: House) -> None:
    house.queue("a", capacity_messages=10, stop_messages=4, resume_messages=4)
    house.publish_now("a", CHARGE, count=10)
    first, last = house.producer("first"), house.producer("last")
    house.publish(first, "a", CHARGE)
    link = Link(house, "a")
    run_until_quiet(house)
    house.publish(last, "a", CHARGE)
    for _ in range(6):
        assert len(first.outbox) == len(last.outbox) == 1
        house.take("a")
    run_until_quiet(house)
    assert (len(first.outbox), len(last.outbox), house.depth("a"), link.left) == (0, 0, 6, 0)
    house.take("a", count=2)
    run_until_quiet(house)
    assert link.left > 0


def test_link_follows_the_road_while_waiting(house: House) -> None:
    for name in "ab":
        house.queue(name, capacity_messages=4, stop_messages=1, resume_messages=0)
    house.publish_now("a", CHARGE, count=2)
    house.vhost.declare_exchange("x", "direct", {}, False, False, False)
    house.vhost.bind("x", house.vhost.queues["a"], None, "k", {})
    link = Link(house, "k", "x")
    run_until_quiet(house)
    assert (link.left, link.credit.blocked_by()) == (0, house.vhost.queues["a"].gate)
    house.vhost.bind("x", house.vhost.queues["b"], None, "k", {})
    house.vhost.unbind("x", house.vhost.queues["a"], None, "k", {})
    run_until_quiet(house)
    assert link.left == 2
    assert house.reserved("b") == (2, 2 * CHARGE)


def test_deleted_queue_leaves_the_credit_to_the_hold_room(house: House) -> None:
    house.vhost.declare_exchange("x", "fanout", {}, False, False, False)
    for name in "ab":
        house.queue(name, capacity_messages=100)
        house.vhost.bind("x", house.vhost.queues[name], None, "", {})
    link = Link(house, "", "x")
    run_turn(house)
    assert (link.left, house.reserved("a"), house.reserved("b")) == (32, (32, 32 * CHARGE), (32, 32 * CHARGE))
    house.broker.delete_queue(house.vhost.queues["a"])
    run_until_quiet(house)
    assert int(link.credit.hold.messages) + house.reserved("b")[0] == 32
    house.vhost.delete_exchange("x", False)
    assert link.left == 32


def test_credit_of_a_road_that_grows_too_wide_moves_to_the_hold_room(house: House) -> None:
    house.vhost.declare_exchange("x", "fanout", {}, False, False, False)
    house.queue("a", capacity_messages=10, stop_messages=10, resume_messages=10)
    house.vhost.bind("x", house.vhost.queues["a"], None, "", {})
    link = Link(house, "", "x")
    run_turn(house)
    assert (link.left, house.reserved("a")[0]) == (5, 5)
    for number in range(QUEUES_MAX):
        house.queue(f"q{number}", capacity_messages=1000)
        house.vhost.bind("x", house.vhost.queues[f"q{number}"], None, "", {})
    run_until_quiet(house)
    house.publish_now("a", CHARGE, count=10)
    link.credit.schedule_review()
    run_until_quiet(house)
    assert (house.reserved("a")[0], int(link.credit.hold.messages)) == (0, 5)
    assert link.send(5) == 5
    run_until_quiet(house)
    assert (house.depth("a"), len(link.producer.outbox)) == (10, 5)
    house.take("a", count=5)
    run_until_quiet(house)
    link.take_outcomes()
    assert (link.confirmed, link.refused, len(link.producer.outbox)) == (5, 0, 0)
    assert link.left > 0


def test_rate_takes_tokens_with_the_grant_and_not_again_with_the_message(house: House) -> None:
    how = read_settings("producer", "alice", {"rate-messages": 10, "burst-messages": 10})
    at_once.set_settings(house.broker, "producer", "alice", how)
    house.queue("a")
    link = Link(house, "a")
    run_until_quiet(house)
    assert link.left == 10
    assert link.send(100) == 10
    run_until_quiet(house)
    assert (house.depth("a"), link.left) == (10, 0)
    gate = link.credit.blocked_by()
    assert gate.kind == "rate"
    assert 0.0 < link.credit.retry_after_s() <= 0.1
    house.broker.begin(house.broker.now + 0.35)
    run_until_quiet(house)
    assert link.left == 3


def test_operator_block_of_the_user_ends_grants_but_admits_messages_on_credit(house: House) -> None:
    house.queue("a")
    link = Link(house, "a")
    run_until_quiet(house)
    house.broker.gates.block("user", "", "alice", "stocktaking")
    assert link.send(1000) == 64
    run_until_quiet(house)
    assert (house.depth("a"), link.left) == (64, 0)
    house.broker.gates.unblock("user", "", "alice")
    run_until_quiet(house)
    assert link.left > 0


def test_policy_that_never_holds_gets_the_window_without_a_reservation(house: House) -> None:
    house.queue("a", capacity_messages=5, overflow="drop-head")
    link = Link(house, "a")
    run_until_quiet(house)
    assert (link.left, house.reserved("a")) == (64, (0, 0))
    assert link.send(64) == 64
    run_until_quiet(house)
    link.take_outcomes()
    assert (house.depth("a"), link.confirmed, link.left) == (5, 64, 1000)


def test_full_memory_leaves_credit_to_senders_of_an_empty_queue_within_the_share(house: House) -> None:
    house.queue("hog", "empty")
    total = 400 * 1024
    full = in_bytes(total, total * 8 // 10, total * 7 // 10)
    house.broker.gates.set_memory_capacity(full, 40 * 1024)
    memory = house.broker.gates.memory
    while memory.gate.open:
        house.publish_now("hog", 10_000)
    link, other = Link(house, "empty"), Link(house, "hog")
    run_until_quiet(house)
    share = int(memory.gate.guaranteed_bytes) // CHARGE
    assert other.left == 0
    assert 0 < link.left <= share
    for _ in range(100):
        link.send(1000)
        run_until_quiet(house)
    link.take_outcomes()
    assert house.depth("empty") == share
    assert (link.refused, link.left, len(link.producer.outbox)) == (0, 0, 0)
    assert house.reserved("empty") == (0, 0)


# Descriptions


def test_blocked_link_is_reported_once_with_the_gate_and_the_time(house: House) -> None:
    house.queue("a", capacity_messages=4, stop_messages=1, resume_messages=0)
    house.publish_now("a", CHARGE, count=2)
    link = Link(house, "a")
    house.broker.run(100)
    link.credit.on_flow(7)
    house.broker.run(100)
    blocked = [effect for effect in house.broker.effects() if isinstance(effect, Blocked)]
    assert [(effect.producer, effect.gate.name) for effect in blocked] == [(link.producer, "a")]
    assert (link.credit.blocked_since(), link.credit.retry_after_s()) == (house.broker.now, 1.0)
    for _ in range(2):
        house.session.get(house.vhost.queues["a"], True, house.broker.now)
    house.broker.run(100)
    unblocked = [effect for effect in house.broker.effects() if isinstance(effect, Unblocked)]
    assert [effect.producer for effect in unblocked] == [link.producer]
    assert (link.credit.blocked_by(), link.credit.blocked_since(), link.credit.retry_after_s()) == (None, None, 0.0)
    assert not link.producer.gates


# Use


def test_message_on_credit_takes_the_reserved_room_while_other_senders_use_the_rest(house: House) -> None:
    house.queue("a", capacity_messages=10, stop_messages=10, resume_messages=10)
    link = Link(house, "a", window=CreditWindow(3, 1 << 20, OCTETS))
    run_turn(house)
    assert link.left == 3
    producer = house.published("p", "a", CHARGE, count=8)
    assert (house.depth("a"), len(producer.outbox)) == (7, 1)
    assert link.send(10) == 3
    assert (house.depth("a"), house.reserved("a")) == (10, (0, 0))
    link.take_outcomes()
    assert link.confirmed == 3


def test_message_on_credit_uses_the_room_by_the_fast_path_while_other_senders_wait(house: House) -> None:
    house.queue("a", capacity_messages=8, stop_messages=6, resume_messages=5)
    links = [Link(house, "a", window=CreditWindow(10, 1 << 20, OCTETS)) for _ in range(8)]
    run_until_quiet(house)
    queue = house.vhost.queues["a"]
    assert queue.gate.requests
    assert queue.fast_path_max_messages < 0 < queue.reserved.most_messages
    link = links[0]
    total, worked = queue.messages + queue.reserved.messages, house.broker.work.done
    sent = link.send(10)
    assert sent > 0
    assert house.broker.work.done == worked, "the slow path counts work"
    assert queue.messages + queue.reserved.messages == total
    run_until_quiet(house)
    assert queue.messages + queue.reserved.messages <= 8
    held = sum(each.credit.reservation.messages for each in links)
    assert (held, sum(each.credit.reservation.early for each in links)) == (queue.reserved.messages, 0)


def test_message_on_credit_enters_behind_a_closed_gate_and_the_confirm_is_withheld(house: House) -> None:
    house.queue("a", capacity_messages=20, stop_messages=5, resume_messages=2)
    link = Link(house, "a")
    run_turn(house)
    assert link.left == 10
    house.publish_now("a", CHARGE, count=6)
    assert not house.vhost.queues["a"].gate.open
    assert link.send(10) == 10
    run_until_quiet(house)
    link.take_outcomes()
    assert (house.depth("a"), link.confirmed, link.left) == (16, 0, 0)
    house.take("a", count=14)
    run_until_quiet(house)
    link.take_outcomes()
    assert (link.confirmed, link.left) == (10, 9)


def test_larger_message_without_room_is_held_and_the_link_gets_no_credit(house: House) -> None:
    house.queue("a", capacity_bytes=10 * CHARGE, stop_bytes=10 * CHARGE, resume_bytes=10 * CHARGE)
    link = Link(house, "a", window=CreditWindow(3, 1 << 20, OCTETS))
    run_turn(house)
    house.publish_now("a", CHARGE, count=7)
    assert link.send(1, 5 * CHARGE) == 1
    assert len(link.producer.outbox) == 1
    run_until_quiet(house)
    link.send(2)
    run_until_quiet(house)
    assert (link.left, len(link.producer.outbox)) == (0, 3)
    house.take("a", count=9)
    run_until_quiet(house)
    assert not link.producer.outbox
    link.take_outcomes()
    assert (link.confirmed, link.refused) == (3, 0)
    assert link.left > 0


def test_message_without_credit_is_the_callers_question(house: House) -> None:
    house.queue("a", capacity_messages=1)
    link = Link(house, "a")
    assert link.send(1) == 0
    assert link.credit.publish_beyond(link.route, b"x", CHARGE)  # type: ignore[arg-type]
    assert link.credit.publish_beyond(link.route, b"x", CHARGE)  # type: ignore[arg-type]
    assert (house.depth("a"), len(link.producer.outbox)) == (1, 1)


# Hold room


def test_link_without_a_road_gets_credit_from_hold_room_and_overflow_is_held(house: House) -> None:
    house.queue("a", capacity_messages=1)
    link = Link(house, None, window=CreditWindow(10, 1 << 20, OCTETS))
    run_turn(house)
    assert link.left == 10
    assert int(link.producer.hold_budget.reserved) == 10 * CHARGE
    assert link.send(10, key="a") == 10
    run_until_quiet(house)
    assert (house.depth("a"), len(link.producer.outbox), link.left) == (1, 9, 0)
    for _ in range(10):
        house.take("a")
        run_until_quiet(house)
    link.take_outcomes()
    assert (link.confirmed, link.refused, link.left) == (10, 0, 10)


def test_link_waits_for_hold_room_that_other_links_of_the_connection_have(house: House) -> None:
    first = Link(house, None, window=CreditWindow(4, 1 << 20, 400_000))
    run_turn(house)
    assert first.left == 1
    second = Link(house, None, window=CreditWindow(4, 1 << 20, 900_000), budget=first.producer.hold_budget)
    run_until_quiet(house)
    assert second.left == 0
    first.credit.close()
    run_until_quiet(house)
    assert second.left == 1


# Transactions


def test_message_of_a_transaction_uses_the_reserved_room_and_no_producer_gate(house: House) -> None:
    how = read_settings("producer", "alice", {"rate-messages": 10, "burst-messages": 10})
    at_once.set_settings(house.broker, "producer", "alice", how)
    house.queue("a")
    link = Link(house, "a")
    run_turn(house)
    assert link.left == 10
    coordinator = Coordinator(house.producer("c", origin=ConnectionGates("bob", "2")))
    unit = coordinator.begin()
    assert link.route is not None
    for _ in range(10):
        assert link.credit.spend(CHARGE)
        unit.add_publish(link.producer, link.route, b"x", CHARGE)
    assert not link.credit.spend(CHARGE)
    run_turn(house)
    assert house.reserved("a") == (0, 0)
    unit.commit()
    assert house.depth("a") == 10, "at once, although the rate has no tokens"


# End of a link


def test_reservation_is_released_at_the_end_of_a_link(house: House) -> None:
    house.queue("a", capacity_messages=10)
    links = [Link(house, "a"), Link(house, None)]
    run_turn(house)
    waiting = Link(house, "a", window=CreditWindow(100, 1 << 20, OCTETS))
    waiting.credit.on_flow(50)
    run_turn(house)
    for link in [*links, waiting]:
        link.producer.abort()
        link.producer.abort()
    assert house.reserved("a") == (0, 0)
    assert not house.vhost.queues["a"].gate.waiters
    assert all(int(link.producer.hold_budget.reserved) == 0 for link in links)


def test_credit_returned_by_a_sender_is_room_for_other_senders(house: House) -> None:
    house.queue("a", capacity_messages=100)
    link = Link(house, "a")
    run_turn(house)
    link.credit.give_back(link.left)
    assert house.reserved("a") == (0, 0)
    assert int(link.credit.counts.drained) == 32
