"""Output of a connection: the buffer that engines write to, its bounds, and data that waits for room or for fsync.

The output refers to its connection only while the connection is open: a closed connection is freed at once.

Theory of operation. The reply to a declaration (or deletion, purge, binding ...) is written to the output buffer at
once. The whole buffer is then held back until the journal group with the change is durable, because frames of a
connection must stay in order. Deliveries may have to wait too (core/queue/storage.py). Deliveries do not wait while the
store cannot be written: the wait would be unbounded, and without it messages only come back as redelivered.

Replies wait at most for the broker's hold deadline. Then the outcome of the requests is unknown: the output is
discarded and the connection closed with an internal error (541 in AMQP 0-9-1, whose section 1.2 defines it for cases
where an operator must intervene). The changes remain in memory and become durable when the store can be written. A
client that reconnects can check them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.core.consume.consumer import WaitList
from penstock.core.journal.group import DurabilityListener, JournalGroup
from penstock.core.large_bodies import Parts
from penstock.errors import InternalError
from penstock.flow.timers import NEVER, TimerHandler

if TYPE_CHECKING:
    from penstock.connections.connection import Connection


class DurableReplies(TimerHandler, DurabilityListener):
    """Replies of one connection that wait for fsync."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self.waiting: int = 0
        """Number of requests with a waiting reply."""
        self._since: float = 0.0
        """Time of the last sent reply, or of the first waiting reply, in seconds of the broker's clock."""

    def wait(self, before: i64) -> None:
        """Hold the replies back until all changes so far are durable: the changes after the first `before` ones."""
        broker = self.connection.broker
        journal = broker.journal
        if journal is None:
            return
        if self.waiting == 0:
            self._since = broker.now
            hold_deadline_s = broker.defaults.hold_deadline_s
            if hold_deadline_s > 0:
                broker.timers.add(self, broker.now + hold_deadline_s)
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
            self._since = now  # A large purge takes time; fsync has not begun yet.
        due = self._since + broker.defaults.hold_deadline_s
        if self.waiting == 0 or due > now:
            return due if self.waiting else NEVER
        self.waiting = 0
        disk = broker.gates.disk
        why = disk.fault.reason if disk.is_failing() else "the disk has not answered"
        hold_deadline = f"{broker.defaults.hold_deadline_s:g} s"
        self.connection.output.buffer.truncate(0)
        self.connection.close(
            InternalError(f"the changes are not durable after {hold_deadline}, and their outcome is unknown: {why}")
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
        """Hold the deliveries back until all changes so far are durable."""
        journal = self.connection.broker.journal
        if journal is not None:
            self.waiting += 1
            journal.wait(self)

    @override
    def on_durable(self, group: JournalGroup) -> None:
        self.waiting -= 1
        self.connection.request_flush()

    def must_wait(self) -> bool:
        """Return whether any deliveries wait."""
        return self.waiting > 0 and not self.connection.broker.gates.disk.is_failing()


KEPT_OCTETS: Final = 256
"""Most bytes of output memory that an idle connection keeps: they fit into the buffer object itself."""
OUTPUT_FULL: Final = 256 * 1024
"""Bytes of output at which deliveries to the connection wait for the next flush."""
SOURCES_FULL: Final = 512 * 1024
"""Bytes of output, large messages included, that are written at once; they are parts of pieces, not copies."""
SHARE_OCTETS: Final = 64 * 1024
"""Bytes of a large message that are written before the turn of the next large message."""
OPEN_SOURCES: Final = 4
"""Large messages of a connection that are written at the same time, with pieces in memory; further ones wait."""
OUTPUT_LEFT_UNREAD: Final = 1024 * 1024
"""Bytes of unread output at which input is not handled: a client that never reads must not fill the memory."""


def octets_of(parts: Parts) -> i64:
    """Return the bytes of all parts."""
    octets: i64 = 0
    for part in parts:
        octets += len(part)
    return octets


@mypyc_attr(allow_interpreted_subclasses=True)
class OutputSource:
    """A large message that is written to a connection as its peer reads."""

    is_open: bool = False
    """True while the source is one of the `OPEN_SOURCES`."""

    def write_some(self, out: BytesWriter, parts: Parts) -> bool:
        """Write about `SHARE_OCTETS`. Return whether more bytes are at hand; if not, the source is added again later.

        `parts` precede `out`, whose bytes become a part when a large part follows.
        """
        raise NotImplementedError

    def end(self) -> None:
        """End: the connection is gone."""
        raise NotImplementedError


class ConnectionOutput(WaitList):
    """Output of one connection, and the consumers that wait for room in it."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = BytesWriter()
        self.writable: bool = True
        """True if deliveries may be written; false while the output is full."""
        self.touched: bool = False
        """Open sources with bytes at hand; sources take turns."""
        self.sources: list[OutputSource] = []
        """Open sources with bytes at hand; they take turns."""
        self._open: int = 0
        """Number of open sources."""
        self._waiting: list[OutputSource] = []
        """Sources that wait for another source to close."""
        self._connection: Connection | None = None
        """The connection while it is open: only then it changes durable objects and gets deliveries."""
        self.replies: DurableReplies | None = None
        """Replies that wait for fsync; None until the first."""
        self.deliveries: DurableDeliveries | None = None
        """Deliveries that wait for fsync; None until the first."""
        self._grown: bool = False
        """True if the buffer has had more than `KEPT_OCTETS`, and still has that memory."""

    @override
    def is_open(self) -> bool:
        return self.writable

    def open(self, connection: Connection) -> None:
        """Begin to wait for fsync, because the connection may now change durable objects and get deliveries."""
        self._connection = connection

    def end(self) -> None:
        """Stop waiting for fsync, and end the sources: the socket is closed."""
        if self.replies is not None:
            self.replies.end()
        self._connection = self.replies = self.deliveries = None
        waiting, self._waiting = self._waiting, []
        for source in [*self.sources, *waiting]:
            source.end()
        self.sources.clear()

    def take(self) -> bytes:
        """Take the buffered bytes."""
        data = self.buffer.getvalue()
        self.buffer.truncate(0)
        if len(data) > KEPT_OCTETS:
            self._grown = True
        return data

    def renew(self) -> BytesWriter:
        """Return a new buffer with the present bytes, if the buffer has grown: a buffer does not shrink."""
        if self._grown:
            self._grown = False
            octets = self.buffer.getvalue()
            self.buffer = BytesWriter()
            self.buffer.write(octets)
        return self.buffer

    def fill(self, parts: Parts) -> i64:
        """Take the buffered bytes, and more from the sources until the output is full; return the number of added
        bytes."""
        buffer = self.buffer
        before = octets_of(parts) + len(buffer)
        octets = before
        while self.sources and octets < SOURCES_FULL:
            source = self.sources.pop(0)
            if source.write_some(buffer, parts):
                self.sources.append(source)
            octets = octets_of(parts) + len(buffer)
        parts.append(self.take())
        self._grown = True  # Its bytes may have become parts.
        return octets - before

    def open_source(self, source: OutputSource) -> None:
        """Let a source write: now, or when another source is closed."""
        if self._open == OPEN_SOURCES:
            self._waiting.append(source)
            return
        self._open += 1
        source.is_open = True
        self.sources.append(source)

    def close_source(self, source: OutputSource) -> None:
        """Close a source: it is complete, or must wait for its peer. The next source begins."""
        if not source.is_open:
            self._waiting = [each for each in self._waiting if each is not source]
            return
        source.is_open = False
        self._open -= 1
        if self._waiting:
            self.open_source(self._waiting.pop(0))

    def bound(self) -> None:
        """Stop deliveries if the output is full."""
        if len(self.buffer) >= OUTPUT_FULL:
            self.writable = False

    def drained(self) -> None:
        """Resume deliveries: the peer has taken output."""
        if not self.writable:
            self.writable = True
            self.schedule_wake()

    def is_left_unread(self) -> bool:
        """Return whether waiting output has reached the bound at which input is left unread."""
        return len(self.buffer) > OUTPUT_LEFT_UNREAD

    def waits_for_disk(self) -> bool:
        """Return whether the output waits for fsync."""
        if self.replies is not None and self.replies.waiting > 0:
            return True
        return self.deliveries is not None and self.deliveries.must_wait()

    def await_deliveries(self) -> None:
        """Hold the output back until all changes so far are durable, because of its deliveries."""
        if self._connection is not None:
            if self.deliveries is None:
                self.deliveries = DurableDeliveries(self._connection)
            self.deliveries.wait()

    def await_change(self, declared: i64) -> None:
        """Hold the output back if a durable declaration or deletion followed the first `declared` ones."""
        connection = self._connection
        if connection is not None and connection.broker.durable_changes.durable_declarations != declared:
            if self.replies is None:
                self.replies = DurableReplies(connection)
            self.replies.wait(declared)
