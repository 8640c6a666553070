"""What a connection may not say yet, because it is not true on the disk yet.

Theory of operation. An answer to a declaration (a deletion, a purge, a binding ...) is written into the output at once,
and all the output waits, so that the order stays right, until the group of the journal that has it is on the disk.
Deliveries may have to wait as well (core/journal/redelivery_mark.py); but not while the store cannot be written, for
then they would wait for ever, and all that is lost is that the messages come back as redelivered.

Answers wait no longer than the broker's hold deadline without any of them being told. Then nobody can say what has
become of what was asked for: what is in the output is thrown away, and the connection closed with 541, as AMQP 0-9-1
has it where an operator must intervene (section 1.2). What was declared is there, and lasts as soon as the store can be
written; a client that comes back finds out by asking again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.journal.group import DurabilityListener, JournalGroup
from penstock.flow.timers import NEVER, TimerHandler

if TYPE_CHECKING:
    from penstock.protocols.amqp091.connection import Connection


class DurableReplies(TimerHandler, DurabilityListener):
    """Answers that wait for the disk, of one connection."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self.waiting: int = 0
        """How many requests have an answer that waits."""
        self._since: float = 0.0
        """Since when none of them has been told: seconds of the broker's clock."""

    def wait(self) -> None:
        """Let what has been answered wait until everything that has happened is on the disk."""
        broker = self.connection.broker
        journal = broker.journal
        if journal is None:
            return
        if self.waiting == 0:
            self._since = broker.now
            patience_s = broker.defaults.hold_deadline_s
            if patience_s > 0:
                broker.timers.add(self, broker.now + patience_s)
        self.waiting += 1
        journal.wait(self)

    def on_durable(self, group: JournalGroup) -> None:
        """See `DurabilityListener.on_durable`."""
        if self.waiting > 0:
            self.waiting -= 1
            self._since = self.connection.broker.now
            if self.waiting == 0:
                self.connection.broker.timers.drop(self)
            self.connection.request_flush()

    def on_deadline(self, now: float) -> float:
        """See `TimerHandler.on_deadline`."""
        broker = self.connection.broker
        due = self._since + broker.defaults.hold_deadline_s
        if self.waiting == 0 or due > now:
            return due if self.waiting else NEVER
        self.waiting = 0
        disk = broker.gates.disk
        why = disk.fault.reason if disk.is_failing() else "the disk has not answered"
        patience = f"{broker.defaults.hold_deadline_s:g} s"
        self.connection.fail_pending_replies(
            f"what was asked for is not on the disk after {patience}, and may or may not last: {why}"
        )
        return NEVER

    def end(self) -> None:
        """Nobody wants to hear them any more."""
        if self.waiting > 0:
            self.waiting = 0
            broker = self.connection.broker
            broker.timers.drop(self)
            if broker.journal is not None:
                broker.journal.cancel_wait(self)


class DurableDeliveries(DurabilityListener):
    """Deliveries that wait for the disk, of one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.waiting: int = 0

    def wait(self) -> None:
        """Let what has been delivered wait until everything that has happened is on the disk."""
        journal = self.connection.broker.journal
        if journal is not None:
            self.waiting += 1
            journal.wait(self)

    def on_durable(self, group: JournalGroup) -> None:
        """See `DurabilityListener.on_durable`."""
        self.waiting -= 1
        self.connection.request_flush()

    def must_wait(self) -> bool:
        """Tell whether any must wait."""
        return self.waiting > 0 and not self.connection.broker.gates.disk.is_failing()
