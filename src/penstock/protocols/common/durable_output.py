"""Output that waits for fsync: replies to durable changes, and deliveries.

Theory of operation. The reply to a declaration (or deletion, purge, binding ...) is written to the output buffer at
once. The whole buffer is then held back until the journal group with the change is durable, because frames of a
connection must stay in order. Deliveries may have to wait too (core/queue/redelivery_mark.py). They do not wait while
the store cannot be written: that would stop them for an unbounded time, and without the wait messages only come back as
redelivered.

Replies wait at most for the broker's hold deadline. Then the outcome of the requests is unknown: the output is
discarded and the connection closed with an internal error (541 in AMQP 0-9-1, whose section 1.2 defines it for cases
where an operator must intervene). The changes remain in memory and become durable when the store can be written. A
client that reconnects can check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.journal.group import DurabilityListener, JournalGroup
from penstock.errors import InternalError
from penstock.flow.timers import NEVER, TimerHandler

if TYPE_CHECKING:
    from penstock.protocols.common.connection import Connection


class DurableReplies(TimerHandler, DurabilityListener):
    """Replies of one connection that wait for fsync."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self.waiting: int = 0
        """Number of requests whose reply waits."""
        self._since: float = 0.0
        """Time of the last reply sent, or of the first that waits: seconds of the broker's clock."""

    def wait(self, before: i64) -> None:
        """Hold the replies back until everything so far is durable: the changes after the first `before` ones."""
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
        journal.wait_for_change(self, before)

    @override
    def on_durable(self, group: JournalGroup) -> None:
        if self.waiting > 0:
            self.waiting -= 1
            self._since = self.connection.broker.now
            if self.waiting == 0:
                self.connection.broker.timers.drop(self)
            self.connection.request_flush()

    @override
    def on_deadline(self, now: float) -> float:
        broker = self.connection.broker
        if self.waiting > 0 and broker.journal is not None and broker.journal.removals.is_awaited_by(self):
            self._since = now  # A large purge takes its time; the disk has not been asked yet.
        due = self._since + broker.defaults.hold_deadline_s
        if self.waiting == 0 or due > now:
            return due if self.waiting else NEVER
        self.waiting = 0
        disk = broker.gates.disk
        why = disk.fault.reason if disk.is_failing() else "the disk has not answered"
        patience = f"{broker.defaults.hold_deadline_s:g} s"
        self.connection.output.buffer.truncate(0)
        self.connection.close(
            InternalError(f"the changes are not durable after {patience}, and their outcome is unknown: {why}")
        )
        return NEVER

    def end(self) -> None:
        """Cancel the wait: the connection is closed."""
        if self.waiting > 0:
            self.waiting = 0
            broker = self.connection.broker
            broker.timers.drop(self)
            if broker.journal is not None:
                broker.journal.cancel_wait(self)


class DurableDeliveries(DurabilityListener):
    """Deliveries of one connection that wait for fsync."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.waiting: int = 0

    def wait(self) -> None:
        """Hold the deliveries back until everything so far is durable."""
        journal = self.connection.broker.journal
        if journal is not None:
            self.waiting += 1
            journal.wait(self)

    @override
    def on_durable(self, group: JournalGroup) -> None:
        self.waiting -= 1
        self.connection.request_flush()

    def must_wait(self) -> bool:
        """Tell whether any deliveries wait."""
        return self.waiting > 0 and not self.connection.broker.gates.disk.is_failing()


class DurableOutput:
    """All output of one connection that waits for fsync."""

    def __init__(self, connection: Connection) -> None:
        self._changes = connection.broker.durable_changes
        self.replies = DurableReplies(connection)
        self.deliveries = DurableDeliveries(connection)

    def waits(self) -> bool:
        """Tell whether the output must wait."""
        return self.replies.waiting > 0 or self.deliveries.must_wait()

    def await_change(self, declared: i64) -> None:
        """Make the replies wait if a durable declaration or deletion followed the first `declared` ones."""
        if self._changes.durable_declarations != declared:
            self.replies.wait(declared)
