"""Credit of senders to a durable queue while a disk gate is closed: it stops those whose messages are stored."""

from __future__ import annotations

import pytest

from penstock.core.publish.credit_window import CreditWindow
from tests.support.broker_fixture import MIB
from tests.support.durable_broker import Kept
from tests.support.sender_links import CHARGE, OCTETS, Link, run_turn, run_until_quiet


@pytest.fixture
def kept() -> Kept:
    return Kept()


def blocking(link: Link) -> list[str]:
    gate = link.credit.blocked_by()
    return [] if gate is None else [gate.name]


def full_disk(kept: Kept) -> None:
    kept.set("vhost", "/", disk_overfull=100)
    kept.store(kept.producer("filler"), "b", 200)
    assert kept.closed() == ["quota of vhost /"]
    run_until_quiet(kept)


def test_closed_disk_gate_stops_no_link_whose_messages_are_not_stored(kept: Kept) -> None:
    sender = Link(kept, "a")
    run_turn(kept)
    sender.send(1)
    full_disk(kept)
    new = Link(kept, "a")
    run_turn(kept)
    assert (sender.left, new.left, int(new.credit.hold.aside)) == (1000, 1, 1), "a new one gets a trial"
    for _ in range(20):
        for link in (sender, new):
            assert link.send(100) > 0
            assert not link.producer.outbox
        run_turn(kept)
    assert kept.reserved("a")[0] > 0
    sender.credit.close()
    new.credit.close()
    assert kept.reserved("a") == (0, 0)


def test_closed_disk_gate_stops_credit_of_links_that_stored_recently(kept: Kept) -> None:
    links = [Link(kept, "a", window=CreditWindow(32, MIB, OCTETS)) for _ in range(2)]
    run_turn(kept)
    links[0].send(1, stored=True)
    run_turn(kept)
    links[0].send(31)
    run_turn(kept)
    for link in links:
        run_turn(kept)
        link.send(31)
    links[1].send(1, stored=True)
    run_turn(kept)
    full_disk(kept)
    sent = [link.send(10_000) for link in links]
    run_until_quiet(kept)
    assert all(sent)
    assert links[0].left > 0
    assert links[1].left == 0
    assert blocking(links[1]) == kept.closed()
    kept.set("vhost", "/", disk_overfull=1_000_000)
    run_until_quiet(kept)
    assert links[1].left > 0


def test_stored_message_on_credit_for_transient_messages_is_held_at_the_disk_gate(kept: Kept) -> None:
    full_disk(kept)
    link = Link(kept, "a")
    run_turn(kept)
    assert link.send(1) == 1
    run_turn(kept)
    assert link.left > 1
    assert link.send(2, stored=True) == 2
    run_until_quiet(kept)
    assert (kept.depth("a"), len(link.producer.outbox)) == (1, 2)
    assert blocking(link) == kept.closed()
    kept.set("vhost", "/", disk_overfull=1_000_000)
    run_until_quiet(kept)
    kept.write()
    link.take_outcomes()
    assert (kept.depth("a"), link.confirmed, link.refused) == (3, 3, 0)
    assert link.left > 0


def test_link_that_reaches_the_disk_gate_behind_another_gets_a_trial_there(kept: Kept) -> None:
    kept.set("queue", "a", capacity_messages=4, stop_messages=3, resume_messages=3)
    full_disk(kept)
    for _ in range(4):
        kept.publish_now("a", CHARGE)
    link = Link(kept, "a", window=CreditWindow())
    run_until_quiet(kept)
    assert (link.left, link.credit.gate) == (0, kept.vhost.queues["a"].gate)
    kept.take("a")
    run_until_quiet(kept)
    assert (link.left, link.credit.gate) == (1, None)
