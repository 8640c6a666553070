"""Reads of planned ranges: blocks of messages, also of those that are on the disk.

Messages that are there, and the bodies of large ones, are read for one block at a time. The connection of the request
is not read meanwhile. The cursor is checked again when all is there. Nothing stays in memory.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.large_bodies import LargeBody
from penstock.core.large_content import body_of
from penstock.core.large_loading import BodyLoad, LoadListener
from penstock.core.message import Message, StoredMessage
from penstock.core.queue.page_io import PageReader
from penstock.errors import BrokerError, ContentTooLarge, InternalError
from penstock.flow.work import Steps
from penstock.protocols.common.control_request import ControlRequest
from penstock.ranges.blocks import CONTENT_TYPE, encode_block
from penstock.ranges.columns import DEFAULT_COLUMNS, check_columns, rows_within
from penstock.ranges.cursor_table import CursorTable
from penstock.ranges.cursors import Cursor

BLOCK_ROWS_MAX: Final = 20_000
BLOCK_BYTES_MAX: Final = 16 * 1024 * 1024
"""Most rows and bytes of one block, so that no reply is large; readers ask for the next block."""
BLOCK_MESSAGE_MAX: Final = 1024 * 1024 * 1024
"""Most octets of the bodies in a block: a large message is alone in one, and its value has an offset of 31 bits."""


def large_bodies(messages: list[Message]) -> list[LargeBody]:
    """Return the bodies of the large messages. Raises ContentTooLarge (311) for more than a block may have."""
    found: list[LargeBody] = []
    total: i64 = 0
    for message in messages:
        body = body_of(message.content)
        if body is not None:
            found.append(body)
            total += body.octets
    if total > BLOCK_MESSAGE_MAX:
        raise ContentTooLarge(
            f"a message of {int(total):,} octets does not fit into a block, which has at most {BLOCK_MESSAGE_MAX:,}; "
            "consume it"
        )
    return found


class BlockRange:
    """The messages of a block: the first ones of (lo, hi], within rows and bytes but at least one."""

    def __init__(self, queue: str, lo: i64, hi: i64, rows: i64, bytes: i64) -> None:
        self.queue = queue
        self.lo: i64 = lo
        self.hi: i64 = hi
        self.rows: i64 = rows
        self.bytes: i64 = bytes

    def in_memory(self, cursor: Cursor) -> list[Message]:
        """Return the messages that are in memory."""
        return cursor.read(self.queue, self.lo, self.hi, self.rows, self.bytes)

    def of(self, messages: list[StoredMessage]) -> list[Message]:
        """Return those of messages that were read from the disk."""
        found: list[Message] = []
        size: i64 = 0
        for message in messages:
            if message.sequence <= self.lo:
                continue
            if message.sequence > self.hi or len(found) >= self.rows or (found and size + message.charge > self.bytes):
                break
            found.append(message)
            size += message.charge
        return found


class BlockLoad(LoadListener, PageReader):
    """A block that waits for pages, or for the bodies of its large messages."""

    def __init__(
        self, reads: BlockReads, request: ControlRequest, wanted: BlockRange | None, messages: list[Message]
    ) -> None:
        """`wanted` is what must be read from the disk; None if only bodies must."""
        self.request = request
        self.messages = messages
        self._reads = reads
        self._wanted = wanted
        self._next: i64 = 0
        """First sequence of the next read of pages."""
        self._load: BodyLoad | None = None
        request.begin_wait()

    def begin(self) -> bool:
        """Begin to load. Return whether it is answered already: nothing was to be read."""
        try:
            if self._wanted is not None and self._request_pages(self._wanted):
                return False
            bodies = self._reads.bodies_of(self.request, self.messages)
        except BrokerError as error:
            self._fail(error)
            return True
        if bodies:
            self._load = BodyLoad(self._reads.table.broker.large, bodies, self)
            if not self._load.begin():
                return False
        self._answer()
        return True

    def _request_pages(self, wanted: BlockRange) -> bool:
        """Request pages unless messages are in memory by now. Returns False if nothing is left to read."""
        cursor = self._reads.table.holder(self.request)
        position = cursor.position(wanted.queue)
        self.messages = wanted.in_memory(cursor)
        pager = position.queue.pager
        if self.messages or pager is None or not position.is_on_disk(wanted.lo, wanted.hi):
            return False
        most = pager.data_of(wanted.rows, wanted.bytes)
        if self._next == 0:
            self._next = wanted.lo + 1
            pager.request_copies(self._next, most, self, True)
            return True
        if self._next > wanted.hi:
            return False
        pager.request_copies(self._next, most, self)
        return True

    @override
    def on_copies(self, messages: list[StoredMessage], following: i64) -> None:
        wanted = self._wanted
        assert wanted is not None
        found = wanted.of(messages)
        if found:
            self._wanted = None
            self.messages = found
        elif following == 0:
            self._next = wanted.hi + 1
        elif following > self._next:
            self._next = following
        if self.begin():
            self._reads.finished()

    @override
    def on_loaded(self) -> None:
        self._answer()
        self._reads.finished()

    def _answer(self) -> None:
        reads = self._reads
        load = self._load
        try:
            if load is not None and load.fault:
                raise InternalError(f"a large message cannot be read from the store: {load.fault}")
            reads.table.holder(self.request)
            if load is not None:
                load.insert()
            try:
                reads.reply(self.request, self.messages)
            finally:
                if load is not None:
                    load.release()
        except BrokerError as error:
            self._fail(error)
        else:
            self.request.end_wait()

    def _fail(self, error: BrokerError) -> None:
        self._reads.table.control.fail(self.request, error)
        self.request.end_wait()


class BlockReads:
    """Blocks of messages of planned ranges, the answer to `cursor.range`; those that wait for the disk, in order."""

    def __init__(self, table: CursorTable) -> None:
        self.table = table
        self._waiting: deque[BlockLoad] = deque()
        """The first one is being loaded."""

    def range(self, request: ControlRequest) -> dict[str, object] | None:
        """Reply with a block of messages of a planned range, which may be read again."""
        return self.table.control.answer_in_slices(request, self._range_steps(request))

    def _range_steps(self, request: ControlRequest) -> Steps[dict[str, object] | None]:
        while not self._reach(request):
            yield
        self._reply_range(request)
        return None

    def _reach(self, request: ControlRequest) -> bool:
        """Prepare a block; False if this turn's share of work is used up."""
        cursor = self.table.holder(request)
        lo, hi, rows = request.number("lo"), request.number("hi"), _block_rows(request)
        return cursor.reach(request.text("queue"), lo, rows, hi, self.table.broker.work)

    def _reply_range(self, request: ControlRequest) -> None:
        cursor = self.table.holder(request)
        queue = request.text("queue")
        if request.fields.get("query") is not None and request.fields.get("lease") is None:
            self.table.broker.pinned_rooms.assign(cursor, request.text("query"))
        check_columns(_columns(request))
        size = min(request.amount("bytes", BLOCK_BYTES_MAX), BLOCK_BYTES_MAX)
        wanted = BlockRange(queue, request.number("lo"), request.number("hi"), _block_rows(request), size)
        messages = wanted.in_memory(cursor)
        if not messages and cursor.position(queue).is_on_disk(wanted.lo, wanted.hi):
            self._add(BlockLoad(self, request, wanted, []))
        elif self.bodies_of(request, messages):
            self._add(BlockLoad(self, request, None, messages))
        else:
            self.reply(request, messages)

    def bodies_of(self, request: ControlRequest, messages: list[Message]) -> list[LargeBody]:
        """Return the large bodies that a block needs. Raises ContentTooLarge (311) for more than it may have."""
        return large_bodies(messages) if "value" in _columns(request) else []

    def reply(self, request: ControlRequest, messages: list[Message]) -> None:
        """Reply with messages as a block: with the first ones if they are much work."""
        columns, formats = _columns(request), self.table.broker.formats
        rows, work = rows_within(columns, messages, formats)
        self.table.broker.work.done += work
        messages = messages[:rows]
        counters = self.table.holder(request).counters
        counters.blocks += 1
        counters.messages += len(messages)
        block = encode_block(request.text("queue"), messages, formats, self.table.broker.wall_offset, columns)
        self.table.control.reply_block(request, CONTENT_TYPE, block)

    # Those that wait for the disk

    def _add(self, load: BlockLoad) -> None:
        self._waiting.append(load)
        if len(self._waiting) == 1:
            self._begin()

    def finished(self) -> None:
        """Go on after the first one."""
        self._waiting.popleft()
        self._begin()

    def _begin(self) -> None:
        while self._waiting and self._waiting[0].begin():
            self._waiting.popleft()


def _columns(request: ControlRequest) -> list[str]:
    """Return the columns of a block in the order asked for; those of a reader that names none are the default."""
    return list(DEFAULT_COLUMNS) if request.fields.get("columns") is None else request.names("columns")


def _block_rows(request: ControlRequest) -> int:
    return max(min(request.amount("rows", BLOCK_ROWS_MAX), BLOCK_ROWS_MAX), 1)
