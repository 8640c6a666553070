"""Page writes and page reads: the transfers between a queue's memory and the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, trait

from penstock.core.journal.group import JournalGroup, MessageRun

if TYPE_CHECKING:
    from penstock.core.queue.pager import QueuePager


@trait
class PageLoadListener:
    """A listener for messages loaded from disk."""

    def on_loaded(self) -> None:
        """Handle loaded messages, or the end of the paged ones."""
        raise NotImplementedError


class PageRead:
    """A request to read pages from the store."""

    __slots__ = ("pages", "number", "first", "most")

    def __init__(self, pages: QueuePager, number: int, first: int, most: int) -> None:
        self.pages = pages
        self.number = number
        """Number of the queue."""
        self.first = first
        """First sequence to read."""
        self.most = most
        """Bytes of data to read; at least one page."""


class PageWrite:
    """A page being written to disk."""

    __slots__ = ("pages", "group", "first", "persistent_messages", "persistent_bytes", "purged")

    def __init__(self, pages: QueuePager, number: i64, first: i64) -> None:
        self.pages = pages
        self.group = JournalGroup(number)
        self.group.runs.append(MessageRun(pages.storage, 0))
        self.first: i64 = first
        self.persistent_messages: i64 = 0
        self.persistent_bytes: i64 = 0
        """Messages in it that survive a restart: persistent ones of a durable queue."""
        self.purged: bool = False
        """True if it was purged."""

    def end(self) -> i64:
        """Return the sequence after its last message."""
        return self.first + len(self.group.messages)
