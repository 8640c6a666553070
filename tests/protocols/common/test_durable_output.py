"""Replies that wait for the disk: in order, and for no longer than the hold deadline."""

from __future__ import annotations

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import drain, methods, publish
from tests.support.durable_queue import MANY, PURGE, SLICE, DurableQueue

DECLARE = method_frame(1, spec.QUEUE_DECLARE, queue="durable", durable=True)


def test_a_purge_longer_than_the_hold_deadline_is_answered_and_one_that_the_disk_keeps_ends_with_541() -> None:
    kept = DurableQueue()
    patience_s = kept.broker.defaults.hold_deadline_s
    kept.ask(PURGE)
    for _ in range(MANY // SLICE):
        kept.driver.begin(kept.broker.now + patience_s + 1)
        kept.driver.run_turn()
        assert kept.client.connection.output.waits_for_disk()
    while kept.journal.removals.pending():
        kept.turn()
    kept.write()
    assert kept.replies() == ["queue.purge-ok"]
    kept.fill(0, MANY)
    kept.write()
    kept.ask(PURGE)
    while kept.journal.removals.pending():
        kept.turn()
    kept.driver.begin(kept.broker.now + 2 * patience_s + 1)
    kept.driver.run_turn()
    assert kept.replies() == ["connection.close"]


def test_nobody_is_told_of_a_purge_whose_connection_is_gone() -> None:
    kept = DurableQueue()
    kept.ask(PURGE)
    kept.client.connection.on_disconnect()
    while kept.journal.removals.pending():
        kept.turn()
    assert not kept.journal.open.listeners
    kept.write()
    assert kept.after_a_kill() == []


def blocked_by_a_transient_queue(octets: bytes) -> DurableQueue:
    """A client whose queue t takes one message; it sends that, and what else is given, in a turn of its own."""
    kept = DurableQueue(0)
    kept.client.declare("t", capacity_messages=1)
    for each in (octets, publish("t", b"1")) if octets else (publish("t", b"1"), DECLARE):
        kept.ask(each)
        kept.turn()
    assert kept.client.connection.output.waits_for_disk()
    return kept


def test_notices_pass_replies_that_wait_for_the_disk() -> None:
    kept = blocked_by_a_transient_queue(DECLARE)
    assert [method.name for method in methods(kept.client.listen())] == ["connection.blocked"]
    drain(kept.driver, "t")
    assert [method.name for method in methods(kept.client.listen())] == ["connection.unblocked"]
    kept.write()
    assert kept.replies() == ["queue.declare-ok"]


def test_notice_that_passes_is_not_lost_when_the_wait_ends_first() -> None:
    kept = blocked_by_a_transient_queue(DECLARE)
    kept.write()
    assert kept.replies() == ["connection.blocked", "queue.declare-ok"]


def test_notice_never_passes_the_one_before_it() -> None:
    kept = blocked_by_a_transient_queue(b"")
    drain(kept.driver, "t")
    assert kept.client.listen() == []
    kept.write()
    assert kept.replies() == ["connection.blocked", "queue.declare-ok", "connection.unblocked"]
