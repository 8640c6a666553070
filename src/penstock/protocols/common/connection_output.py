"""Output of a connection: the buffer that engines write to, its bounds, and what waits for room in it or for fsync.

It refers to no connection, except while one is open (`DurableOutput`): a connection that is gone is freed at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.core.consume.consumer_lists import WaitList
from penstock.protocols.common.durable_output import DurableOutput

if TYPE_CHECKING:
    from penstock.protocols.common.connection import Connection

OUTPUT_FULL: Final = 256 * 1024
"""Bytes of output at which deliveries to the connection wait for the next flush."""
SHARE_OCTETS: Final = 64 * 1024
"""Octets of a large message that are written before the turn of the next one."""
OPEN_SOURCES: Final = 4
"""Large messages of a connection that are written at the same time, and have pieces in memory; others wait."""
OUTPUT_LEFT_UNREAD: Final = 1024 * 1024
"""Bytes of unread output at which input is not handled: a client that never reads must not fill the memory."""


@mypyc_attr(allow_interpreted_subclasses=True)
class OutputSource:
    """A large message that is written to a connection as its peer reads."""

    is_open: bool = False
    """True while it is one of the `OPEN_SOURCES`."""

    def write_some(self, out: BytesWriter) -> bool:
        """Write about `SHARE_OCTETS`. Return whether more is at hand; if not, it is added again later."""
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
        """True while the connection is registered for a flush."""
        self.sources: list[OutputSource] = []
        """Open sources with octets at hand; they take turns."""
        self._open: int = 0
        """Number of open sources."""
        self._waiting: list[OutputSource] = []
        """Sources that wait until another one is closed."""
        self.durable: DurableOutput | None = None
        """Output that waits for fsync. None until the connection is open, and after its end."""

    @override
    def is_open(self) -> bool:
        return self.writable

    def open(self, connection: Connection) -> None:
        """Begin to wait for fsync: the connection may change durable objects, and get deliveries, from now on."""
        self.durable = DurableOutput(connection)

    def end(self) -> None:
        """Cease to wait for fsync, and end the sources: the socket is closed."""
        if self.durable is not None:
            self.durable.replies.end()
            self.durable = None
        waiting, self._waiting = self._waiting, []
        for source in [*self.sources, *waiting]:
            source.end()
        self.sources.clear()

    def take(self) -> bytes:
        """Take the buffered octets."""
        data = self.buffer.getvalue()
        self.buffer.truncate(0)
        return data

    def fill(self) -> i64:
        """Write from the sources until the output is full; returns the octets."""
        buffer = self.buffer
        before: i64 = len(buffer)
        while self.sources and len(buffer) < OUTPUT_FULL:
            source = self.sources.pop(0)
            if source.write_some(buffer):
                self.sources.append(source)
        return len(buffer) - before

    def open_source(self, source: OutputSource) -> None:
        """Let a source write: now, or when another one is closed."""
        if self._open == OPEN_SOURCES:
            self._waiting.append(source)
            return
        self._open += 1
        source.is_open = True
        self.sources.append(source)

    def close_source(self, source: OutputSource) -> None:
        """Close a source: it is complete, or has to wait for its peer. The next one begins."""
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
        """Resume deliveries: the peer takes more."""
        if not self.writable:
            self.writable = True
            self.schedule_wake()

    def is_left_unread(self) -> bool:
        """Tell whether so much output waits that the input is left unread."""
        return len(self.buffer) > OUTPUT_LEFT_UNREAD

    def waits_for_disk(self) -> bool:
        """Tell whether the output waits for fsync."""
        return self.durable is not None and self.durable.waits()

    def await_deliveries(self) -> None:
        """Hold the output back until everything so far is durable, because of its deliveries."""
        if self.durable is not None:
            self.durable.deliveries.wait()

    def await_change(self, declared: i64) -> None:
        """Hold the output back if a durable declaration or deletion followed the first `declared` ones."""
        if self.durable is not None:
            self.durable.await_change(declared)
