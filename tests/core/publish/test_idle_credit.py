"""Idle credit: revoked within 100 ms if others need its room, whether the drain is answered or not."""

from __future__ import annotations

import pytest

from penstock.core.publish.connection_gates import ConnectionGates
from penstock.core.publish.credit_state import is_draining, is_idle
from penstock.core.publish.credit_window import CreditWindow
from penstock.core.publish.hold_room import ASIDE_BYTES, HoldBudget
from penstock.core.publish.producer import Producer
from penstock.flow.level import OVERHEAD
from tests.support.broker_fixture import MIB, House
from tests.support.sender_links import CHARGE, OCTETS, Link, run_until_quiet


def pass_time(house: House, seconds: float) -> None:
    """Let time pass in steps that no timer is missed in."""
    until = house.broker.now + seconds
    while house.broker.now < until:
        house.broker.begin(min(house.broker.now + 0.02, until))
        run_until_quiet(house)


def fill(house: House, budget: HoldBudget | None = None, octets: int = OCTETS) -> list[Link]:
    """Fill a queue of 20 messages with credit that nobody uses."""
    house.queue("a", capacity_messages=20, stop_messages=20, resume_messages=20)
    links: list[Link] = []
    while house.reserved("a")[0] + house.depth("a") < 20:
        links.append(Link(house, "a", window=CreditWindow(20, 20 * MIB, octets), budget=budget))
        run_until_quiet(house)
    return links


def make_full(house: House, budget: HoldBudget | None = None, octets: int = OCTETS) -> tuple[list[Link], Producer]:
    """Fill a queue of 20 messages with credit that nobody uses, and let a publish of the same connection wait."""
    links = fill(house, budget, octets)
    producer = house.published("p", "a", CHARGE)
    run_until_quiet(house)
    assert len(producer.outbox) == 1, "what was just granted is not idle yet"
    return links, producer


def test_idle_credit_stays_while_no_publisher_waits(house: House) -> None:
    house.queue("a", capacity_messages=20)
    link = Link(house, "a")
    run_until_quiet(house)
    pass_time(house, 60.0)
    assert (link.left, house.reserved("a")[0], is_draining(link.credit.state)) == (10, 10, False)
    assert house.broker.next_deadline() is None, "no timer runs"


def test_sender_that_answers_the_drain_frees_the_room_for_waiting_senders(house: House) -> None:
    links, producer = make_full(house)
    pass_time(house, 0.05)
    assert not any(is_draining(link.credit.state) for link in links)
    pass_time(house, 0.1)
    assert all(is_draining(link.credit.state) for link in links)
    assert not producer.outbox
    notified = links[0].client.notified
    links[0].credit.give_back(links[0].left)
    run_until_quiet(house)
    assert not is_draining(links[0].credit.state)
    assert links[0].left == 1, "a trial, which takes no room from others"
    assert (int(links[0].credit.hold.messages), int(links[0].credit.hold.aside)) == (0, 1)
    assert links[0].client.notified == notified + 1


def test_sender_that_does_not_answer_keeps_credit_which_is_set_aside(house: House) -> None:
    links, producer = make_full(house)
    before = [link.left for link in links]
    pass_time(house, 0.12)
    assert not producer.outbox
    assert house.reserved("a")[0] == 0
    assert [link.left for link in links] == before
    assert [int(link.credit.hold.aside) for link in links] == before
    house.publish(producer, "a", CHARGE, count=40)
    assert house.depth("a") == 20
    assert links[0].send(100) == before[0]
    assert len(links[0].producer.outbox) == before[0], "held, not refused"
    assert int(links[0].credit.hold.aside) == 0


def test_sender_that_ignores_drains_is_not_asked_and_the_credit_is_set_aside(house: House) -> None:
    links, producer = make_full(house)
    before, notified = links[0].left, links[0].client.notified
    for link in links:
        link.credit.idle.asks = False
    pass_time(house, 0.12)
    assert not producer.outbox
    assert (links[0].left, int(links[0].credit.hold.aside)) == (before, before)
    assert (is_draining(links[0].credit.state), links[0].client.notified) == (False, notified)
    assert int(links[0].credit.counts.idle) == 1


def test_credit_set_aside_is_bounded_and_the_rest_keeps_no_room(house: House) -> None:
    budget = HoldBudget(MIB)
    links, producer = make_full(house, budget, MIB)
    pass_time(house, 0.12)
    assert not producer.outbox
    aside = ASIDE_BYTES // (MIB + OVERHEAD)
    assert sum(int(link.credit.hold.aside) for link in links) == aside
    assert sum(int(link.credit.reservation.revoked + link.credit.hold.messages) for link in links) == 20 - aside
    assert house.reserved("a")[0] == 0


def test_active_sender_keeps_room_for_as_much_as_was_sent(house: House) -> None:
    links, producer = make_full(house)
    house.session.get(house.vhost.queues["a"], True, house.broker.now)
    links[0].send(2)
    house.publish(producer, "a", CHARGE, count=2)
    pass_time(house, 0.12)
    assert not producer.outbox
    first = links[0].credit
    assert (is_draining(first.state), is_idle(first.state), int(first.reservation.messages)) == (True, False, 2)
    assert all(is_idle(link.credit.state) for link in links[1:])
    assert house.reserved("a")[0] == 2


def test_window_begins_with_a_single_message_after_the_room_was_taken_back(house: House) -> None:
    links, producer = make_full(house)
    pass_time(house, 0.12)
    link = links[0]
    link.credit.give_back(link.left)
    run_until_quiet(house)
    granted = []
    for _ in range(4):
        granted.append(link.left)
        link.send(link.left)
        run_until_quiet(house)
    assert granted == [1, 2, 6, 5], "at most twice what has come, and half of what is free"
    assert not producer.outbox


def test_publish_of_another_connection_waits_for_no_link_beyond_the_share(house: House) -> None:
    links = fill(house)
    stranger = Producer(house.broker, "s", HoldBudget(MIB), ConnectionGates("ann", "10.0.0.1:7000"))
    house.publish(stranger, "a", CHARGE, count=10)
    run_until_quiet(house)
    assert (house.depth("a"), len(stranger.outbox)) == (10, 0), "not one turn of waiting"
    assert house.reserved("a")[0] <= 10
    pass_time(house, 0.02)
    assert any(is_draining(link.credit.state) for link in links)


def test_links_that_come_later_have_at_most_the_share_of_the_connection(house: House) -> None:
    fill(house)
    stranger = Producer(house.broker, "s", HoldBudget(MIB), ConnectionGates("ann", "10.0.0.1:7000"))
    house.publish(stranger, "a", CHARGE)
    run_until_quiet(house)
    more = [Link(house, "a", window=CreditWindow(20, MIB, OCTETS)) for _ in range(30)]
    run_until_quiet(house)
    assert house.reserved("a")[0] <= 10
    assert all(link.left >= 1 for link in more), "one message each, held if it does not fit"
    before = house.depth("a")
    house.publish(stranger, "a", CHARGE, count=9)
    assert house.depth("a") == before + 9
    assert not stranger.outbox


def test_credit_that_was_moved_is_used_where_there_is_room(house: House) -> None:
    links, _producer = make_full(house)
    pass_time(house, 0.12)
    left = links[0].left
    assert links[0].send(100) == left
    assert not links[0].producer.outbox
    run_until_quiet(house)
    assert links[0].left > 0
    assert int(links[0].credit.counts.moved) == left


def test_infinite_idle_time_takes_no_credit_back(house: House) -> None:
    links = fill(house)
    for link in links:
        link.credit.idle.idle_s = float("inf")
    producer = house.published("p", "a", CHARGE)
    pass_time(house, 3.0)
    assert len(producer.outbox) == 1


def test_link_end_during_a_drain_leaves_no_timer(house: House) -> None:
    links, producer = make_full(house)
    pass_time(house, 0.12)
    for link in links:
        link.credit.close()
    run_until_quiet(house)
    assert (house.reserved("a")[0], len(producer.outbox)) == (0, 0)
    assert all(int(link.producer.hold_budget.reserved) == 0 for link in links)


def test_idle_links_without_a_road_drain_if_another_link_of_the_connection_waits(house: House) -> None:
    house.queue("a")
    budget = HoldBudget(4 * CHARGE)
    links = [Link(house, None, window=CreditWindow(1, MIB, OCTETS), budget=budget) for _ in range(5)]
    run_until_quiet(house)
    assert [link.left for link in links] == [1, 1, 1, 1, 0]
    pass_time(house, 1.2)
    assert all(is_draining(link.credit.state) for link in links[:4])
    links[0].credit.give_back(1)
    run_until_quiet(house)
    assert links[4].left == 1
    assert links[4].send(1, key="a") == 1


def test_second_waiter_soon_after_the_first_gets_the_room_of_newer_links(house: House) -> None:
    links, producer = make_full(house)
    for link in links:
        link.producer.abort()
    run_until_quiet(house)
    assert not producer.outbox
    later, _ = make_full(house)
    assert all(link.credit.used_at == links[0].credit.used_at for link in later)
    pass_time(house, 2.3)
    assert all(int(link.credit.counts.idle) == 1 for link in later), "asked, although the last recall was just before"
    assert house.reserved("a")[0] == 0


@pytest.mark.parametrize("answers", [True, False], ids=["drain is answered", "drain is not answered"])
def test_room_of_idle_links_is_with_waiting_links_within_a_quarter_of_a_second(house: House, answers: bool) -> None:
    links, producer = make_full(house)
    newcomer = Link(house, "a")
    for link in links[:3]:
        link.send(1)  # Not idle yet when the others come.
    run_until_quiet(house)
    until = house.broker.now + 0.25
    while house.broker.now < until:
        pass_time(house, 0.02)
        for link in links if answers else ():
            if is_draining(link.credit.state):
                link.credit.give_back(link.left)
    assert not producer.outbox
    assert newcomer.left > 0


def test_silent_links_without_a_road_take_no_room_from_other_links(house: House) -> None:
    house.queue("a")
    budget = HoldBudget(MIB)
    silent = [Link(house, None, window=CreditWindow(), budget=budget) for _ in range(2000)]
    run_until_quiet(house)
    assert all(link.left == 1 for link in silent)
    assert int(budget.reserved) == 0
    busy = Link(house, None, window=CreditWindow(), budget=budget)
    for _ in range(8):
        run_until_quiet(house)
        assert busy.left > 0
        busy.send(busy.left, key="a")
    assert busy.credit.window.stores() is False
    for link in silent:
        link.send(1, key="a")
    run_until_quiet(house)
    assert not all(link.left > 0 for link in silent), "more than there is hold room for"
    busy.send(1000, key="a")
    pass_time(house, 2.5)
    assert all(link.left > 0 for link in (busy, *silent)), "what lies idle was set aside"
    for link in [busy, *silent]:
        link.credit.close()
    assert (int(budget.reserved), int(budget.room.aside_bytes)) == (0, 0)


def test_waiting_publish_revokes_credit_that_moves_to_the_queue_by_a_binding(house: House) -> None:
    house.vhost.declare_exchange("x", "fanout", {}, False, False, False)
    for name in ("a", "b"):
        house.queue(name, capacity_messages=20, stop_messages=20, resume_messages=20)
    house.vhost.bind("x", house.vhost.queues["b"], None, "", {})
    link = Link(house, "", "x", window=CreditWindow(20, MIB, OCTETS))
    run_until_quiet(house)
    house.vhost.bind("x", house.vhost.queues["a"], None, "", {})
    house.publish_now("a", CHARGE, count=16)
    link.credit.schedule_review()
    producer = house.published("p", "a", CHARGE)
    run_until_quiet(house)
    house.publish(producer, "a", CHARGE)
    pass_time(house, 2.5)
    assert not producer.outbox


def test_link_whose_credit_is_set_aside_is_not_asked_to_drain_again(house: House) -> None:
    house.queue("a")
    budget = HoldBudget(4 * CHARGE)
    trial = Link(house, None, window=CreditWindow(), budget=budget)
    links = [Link(house, None, window=CreditWindow(1, MIB, OCTETS), budget=budget) for _ in range(5)]
    run_until_quiet(house)
    assert (trial.left, links[4].left) == (1, 0)
    pass_time(house, 5.0)
    assert links[4].left == 1
    assert [int(link.credit.counts.idle) for link in (trial, *links)] == [0, 1, 1, 1, 1, 0]
