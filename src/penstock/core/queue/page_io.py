"""Page reads: messages of a queue that are to come back from the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, trait

if TYPE_CHECKING:
    from penstock.core.message import StoredMessage
    from penstock.core.queue.pager import QueuePager


@trait
class PageLoadListener:
    """A listener for messages loaded from disk."""

    def on_loaded(self) -> None:
        """Handle loaded messages, or the end of the paged ones."""
        raise NotImplementedError


@trait
class PageReader:
    """A reader of copies: what it reads stays on the disk."""

    def on_copies(self, messages: list[StoredMessage], following: i64) -> None:
        """Handle the messages of pages, in order; `following` is the first sequence after them, 0 if none was found."""
        raise NotImplementedError


class PageRead:
    """A request to read pages from the store."""

    __slots__ = ("pages", "number", "first", "most", "reader")

    def __init__(self, pages: QueuePager, number: int, first: int, most: int, reader: PageReader | None = None) -> None:
        self.pages = pages
        self.number = number
        """Number of the queue."""
        self.first = first
        """First sequence to read."""
        self.most = most
        """Bytes of data to read; at least one page."""
        self.reader = reader
        """The reader of copies; None if the messages come into memory."""
