"""What is between a queue's memory and the disk: a page that is being written, pages that are asked for, who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64, trait

from penstock.core.journal.group import JournalGroup, MessageRun

if TYPE_CHECKING:
    from penstock.core.queue.pager import QueuePager


@trait
class PageLoadListener:
    """Somebody who waits until messages of a queue are in memory again."""

    def on_loaded(self) -> None:
        """Some are, or there are no more."""
        raise NotImplementedError


class PageRead:
    """Pages that the store is asked for."""

    __slots__ = ("pages", "number", "first", "most")

    def __init__(self, pages: QueuePager, number: int, first: int, most: int) -> None:
        self.pages = pages
        self.number = number
        """The queue's."""
        self.first = first
        """The sequence from which on."""
        self.most = most
        """Bytes of data; one page at least."""


class PageWrite:
    """A page on its way to the disk."""

    __slots__ = ("pages", "group", "first", "lasting", "lasting_bytes", "gone")

    def __init__(self, pages: QueuePager, number: i64, first: i64) -> None:
        self.pages = pages
        self.group = JournalGroup(number)
        self.group.runs.append(MessageRun(pages.kept, 0))
        self.first: i64 = first
        self.lasting: i64 = 0
        self.lasting_bytes: i64 = 0
        """How much of it comes back when the broker is restarted: persistent messages of a durable queue."""
        self.gone: bool = False
        """It was purged."""

    def end(self) -> i64:
        """Return the sequence after its last message."""
        return self.first + len(self.group.messages)
