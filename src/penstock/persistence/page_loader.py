"""Page loader: puts pages that the store has read back into their queues."""

from __future__ import annotations

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.journal.group import JournalGroup
from penstock.core.message import StoredMessage
from penstock.core.queue.pager import PageHead, PageLister, PageRead, PageReader
from penstock.core.queue.queue import Queue
from penstock.errors import StoreError
from penstock.persistence.restore import WallTimes
from penstock.persistence.rows import RowContext
from penstock.store.records import MessageRow
from penstock.store.store import Store


def read_rows(store: Store, read: PageRead) -> list[MessageRow]:
    """Read the requested pages from a store. Raises StoreError."""
    if read.lister is not None:
        return store.page_heads(read.number, read.first, read.most)
    first = read.first
    if read.within:
        for head in store.page_heads(read.number, first, 1):
            first = head.first
    return store.pages(read.number, first, read.most)


def _give_heads(read: PageRead, lister: PageLister, rows: list[MessageRow]) -> None:
    pages = read.pages
    if pages.reading is read:
        pages.reading = None
    elif lister is pages:
        return  # The queue was purged or deleted meanwhile.
    lister.on_heads(_heads_of(read, rows))


def _heads_of(read: PageRead, rows: list[MessageRow]) -> list[PageHead]:
    """Return the heads of the pages that are known to be on disk, and only there.

    A page ends where the next one begins. The number in a row does not include transient messages. In a page written
    before the last start these are lost. In a later page, the number counts only if it equals the number of sequences,
    so that there were none.
    """
    pages = read.pages
    end = pages.durable_end()
    heads: list[PageHead] = []
    for index, row in enumerate(rows):
        if row.first < pages.next or row.first >= end:
            continue
        last = int(end) - 1
        if index + 1 < len(rows):
            last = min(last, rows[index + 1].first - 1)
        elif len(rows) == read.most:
            break  # The end of this page is unknown.
        is_whole = row.number < pages.journal.since or row.messages == last - row.first + 1
        heads.append(PageHead(row.number, row.first, last, row.messages if is_whole else -1, row.messages, row.size))
    return heads


class Loader(RowContext):
    """Loader of the pages of one broker, one queue after the other."""

    def __init__(self) -> None:
        super().__init__(0.0, True, False)
        self._queue: Queue | None = None
        self._number: int = 0

    @override
    def queue(self, number: i64) -> Queue | None:
        return self._queue if number == self._number else None

    def load(self, read: PageRead, rows: list[MessageRow], times: WallTimes) -> list[str]:
        """Load requested rows as far as there is room; at least one page if nothing is ready. Empties `rows`.

        Return a sentence for each message that is missing or cannot be read.
        """
        self.large = read.pages.broker.large
        if read.lister is not None:
            _give_heads(read, read.lister, rows)
            return []
        if read.reader is not None:
            return self._load_copies(read, read.reader, rows, times)
        return self._load_pages(read, rows, times)

    def _load_pages(self, read: PageRead, rows: list[MessageRow], times: WallTimes) -> list[str]:
        pages = read.pages
        if pages.reading is not read:
            return []  # The queue was purged or deleted meanwhile.
        pages.reading = None
        queue = pages.queue
        # The outcome of the last transaction may not be reported yet.
        rows[:] = [row for row in reversed(rows) if pages.is_page_durable(row.first)]
        if not rows:
            lost = int(pages.drop_missing())
            return [
                f"{lost:,} messages of queue '{queue.name}' in vhost '{queue.vhost}' are lost: nothing is left of them"
            ]
        self._queue = queue
        self._number = read.number
        self.now = pages.broker.now
        failed: list[str] = []
        while rows:
            row = rows.pop()
            if row.number in pages.journal.rows:  # No message of the page is left, and the store is about to delete it.
                pages.skip_page(row.first)
                continue
            group = JournalGroup(row.number)
            self.transient = row.number >= pages.journal.since
            self.wall_offset = times.of(row.number)
            try:
                reader = self.read(group, row.data)
            except StoreError as error:
                failed.append(f"page of queue '{queue.name}' in vhost '{queue.vhost}': {error}")
                pages.skip_page(row.first)
                continue
            pages.has_read(len(row.data), group.size)
            if not pages.is_wanted(group.live, group.bytes):
                pages.defer_page(group.live, group.bytes)
                group.release()
                break
            messages = group.runs[0].messages if group.runs else []
            pages.take_in(group, messages, reader.following())
        self._queue = None
        pages.finish_if_empty()
        return failed

    def _load_copies(self, read: PageRead, reader: PageReader, rows: list[MessageRow], times: WallTimes) -> list[str]:
        """Pass copies of the messages of rows to their reader; the queue does not change. Empties `rows`."""
        pages = read.pages
        messages: list[StoredMessage] = []
        following: i64 = 0
        failed: list[str] = []
        self._queue = pages.queue
        self._number = read.number
        self.now = pages.broker.now
        for row in rows:
            if not pages.is_page_durable(row.first) or row.number in pages.journal.rows:
                continue
            group = JournalGroup(row.number)
            self.transient = row.number >= pages.journal.since
            self.wall_offset = times.of(row.number)
            try:
                following = self.read(group, row.data).following()
            except StoreError as error:
                failed.append(f"page of queue '{pages.queue.name}' in vhost '{pages.queue.vhost}': {error}")
                following = row.first + 1
                continue
            if group.runs:
                for message in group.runs[0].messages:
                    if message is not None:
                        messages.append(message)
            group.release()
        rows.clear()
        self._queue = None
        reader.on_copies(messages, following)
        return failed
