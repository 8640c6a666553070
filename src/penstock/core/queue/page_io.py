"""Page reads: messages of a queue that are to come back from the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, trait

from penstock.core.large_bodies import LargeBodies, LargeBody
from penstock.core.large_content import body_of

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
    """A reader of copies: the messages stay on the disk."""

    def on_copies(self, messages: list[StoredMessage], following: i64) -> None:
        """Handle the messages of pages, in order; `following` is the first sequence after them, 0 if none was found."""
        raise NotImplementedError


class PageHead:
    """The head of a page on the disk: the sequences that are on it, and the number of its messages."""

    __slots__ = ("number", "first", "last", "messages", "stored", "bytes")

    def __init__(self, number: int, first: i64, last: i64, messages: i64, stored: i64, bytes: i64) -> None:
        self.number = number
        """Number of its row."""
        self.first = first
        self.last = last
        self.messages = messages
        """Number of its messages; -1 if it is unknown until the page is read, because transient messages are on it."""
        self.stored = stored
        """Number of those that survive a restart."""
        self.bytes = bytes
        """Sum of their charges."""


@trait
class PageLister:
    """A reader of the heads of pages."""

    def on_heads(self, heads: list[PageHead]) -> None:
        """Handle the heads of pages, in order; empty if there are none."""
        raise NotImplementedError


class PageRead:
    """A request to read pages from the store."""

    __slots__ = ("pages", "number", "first", "most", "reader", "lister", "within")

    def __init__(
        self,
        pages: QueuePager,
        number: int,
        first: int,
        most: int,
        reader: PageReader | None = None,
        lister: PageLister | None = None,
    ) -> None:
        self.pages = pages
        self.number = number
        """Number of the queue."""
        self.first = first
        """First sequence to read."""
        self.most = most
        """Bytes of data to read, at least one page; or the number of heads."""
        self.reader = reader
        """The reader of copies; None if the messages come into memory."""
        self.lister = lister
        """The reader of heads; None to read pages."""
        self.within: bool = False
        """True to begin with the page that has the sequence `first` on it, also behind its beginning."""


class PageBodies:
    """The bodies of one queue's pages, by the number of the page's row."""

    def __init__(self, large: LargeBodies) -> None:
        self._large = large
        self._held: dict[int, list[LargeBody]] = {}

    def hold(self, row: int, content: bytes) -> None:
        """Hold the body of a large message in a page; its kept pieces go to the store with it."""
        body = body_of(content)
        if body is not None:
            self._large.store(body)
            self._held.setdefault(row, []).append(body)

    def restore(self, row: int, bodies: tuple[int, ...]) -> None:
        """Hold the bodies of a page that was written before a restart, by their numbers."""
        self._held[row] = [self._large.restore(number, 0, []) for number in bodies]

    def release(self, row: int) -> None:
        """Release the bodies of a page whose messages are in memory again, and hold them."""
        self._held.pop(row, None)

    def clear(self) -> None:
        """Release all bodies: no page is left."""
        self._held.clear()
