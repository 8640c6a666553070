"""Removals of purged messages: which changes wait for the end of which removal."""

from __future__ import annotations

from penstock.core.journal.journal import Removal
from penstock.protocols.common.callbacks import DurableCallback
from tests.support.durable_broker import Kept


class Reply:
    """A reply to a durable change."""

    def __init__(self) -> None:
        self.durable = False
        self.listener = DurableCallback(self.on_durable)

    def on_durable(self) -> None:
        self.durable = True


def changes(kept: Kept) -> int:
    return int(kept.broker.durable_changes.durable_declarations)


def purge(kept: Kept) -> Removal:
    """Begin a removal, as a large purge does."""
    kept.journal.require_flush()
    return kept.journal.removals.begin()


def wait(kept: Kept, before: int) -> Reply:
    reply = Reply()
    kept.journal.wait_for_change(reply.listener, before)
    return reply


def test_a_reply_waits_for_the_removal_of_its_own_change() -> None:
    kept = Kept()
    before = changes(kept)
    removal = purge(kept)
    reply = wait(kept, before)
    assert kept.journal.removals.is_awaited_by(reply.listener)
    kept.write()
    assert not reply.durable
    kept.journal.finish_removal(removal)
    assert not reply.durable, "its end must be written first"
    kept.write()
    assert reply.durable


def test_a_reply_does_not_wait_for_the_removal_of_an_earlier_change() -> None:
    kept = Kept()
    removal = purge(kept)
    before = changes(kept)
    kept.journal.require_flush()
    reply = wait(kept, before)
    kept.write()
    assert reply.durable
    assert kept.journal.removals.pending()
    kept.journal.finish_removal(removal)


def test_two_replies_to_one_change_wait_for_the_same_removal() -> None:
    kept = Kept()
    before = changes(kept)
    removal = purge(kept)
    replies = [wait(kept, before), wait(kept, before)]
    assert removal.listeners == [each.listener for each in replies]
    kept.journal.cancel_wait(replies[0].listener)
    assert removal.listeners == [replies[1].listener]
