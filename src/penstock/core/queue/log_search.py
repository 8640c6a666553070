"""Search of a stream's log for the first message that arrived at a time or later.

Arrivals are in the order of sequences. Each step reads the page in the middle of the rest, so a search reads as many
pages as the logarithm of their number. If a page cannot be read, the search continues before it: it may end too early,
but never too late. Messages that are being written are in memory.
"""

from __future__ import annotations

from mypy_extensions import i64, trait
from typing_extensions import override

from penstock.core.message import StoredMessage
from penstock.core.queue.pager import PageReader
from penstock.core.queue.stream_log import StreamLog


@trait
class SearchListener:
    """The client of a search."""

    def on_found(self, position: i64) -> None:
        """Handle the position of the first message; the next one that is published if there is none."""
        raise NotImplementedError


class LogSearch(PageReader):
    """A search in one log."""

    def __init__(self, log: StreamLog, since: float, listener: SearchListener) -> None:
        """`since` is in seconds of the broker's clock."""
        self._log = log
        self._since = since
        self._listener: SearchListener | None = listener
        self._low: i64 = log.next
        self._high: i64 = log.durable_end() - 1
        """Remaining range of sequences on the disk, both ends included."""
        self._middle: i64 = 0
        self._found: i64 = 0
        """Position of the earliest message found so far; 0 for none."""

    def begin(self) -> None:
        """Begin; the listener may be called at once."""
        self._go_on()

    def cancel(self) -> None:
        """Cancel: the listener is not called any more."""
        self._listener = None

    def _go_on(self) -> None:
        listener = self._listener
        if listener is None:
            return
        if self._low <= self._high:
            self._middle = (self._low + self._high) >> 1
            self._log.request_copies(self._middle, 1, self, True)
            return
        self._listener = None
        listener.on_found(self._found if self._found > 0 else self._first_unwritten())

    @override
    def on_copies(self, messages: list[StoredMessage], following: i64) -> None:
        count: i64 = len(messages)
        if count == 0:
            self._high = self._middle - 1
        elif messages[count - 1].arrived < self._since:
            last = messages[count - 1].sequence
            self._low = (last if last > self._middle else self._middle) + 1
        else:
            index = self._index(messages)
            self._found = messages[index].sequence
            first = messages[0].sequence
            self._high = (first if first < self._middle else self._middle) - 1
            if index > 0:
                self._low = self._high + 1
        self._go_on()

    def _index(self, messages: list[StoredMessage]) -> i64:
        """Return the index of the first message that arrived at the time or later; the length without one."""
        low: i64 = 0
        high: i64 = len(messages)
        while low < high:
            middle = (low + high) >> 1
            if messages[middle].arrived < self._since:
                low = middle + 1
            else:
                high = middle
        return low

    def _first_unwritten(self) -> i64:
        """Return the position in messages that are being written, or behind them."""
        log = self._log
        for page in log.unwritten:
            for message in page.group.messages:
                if message is not None and message.arrived >= self._since:
                    return message.sequence
        return log.queue.tail + 1
