"""Replies that wait for the disk: in order, and for no longer than the hold deadline."""

from __future__ import annotations

from tests.support.durable_queue import MANY, PURGE, SLICE, DurableQueue


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
