"""Arrow blocks: messages as columns in the layout of Arrow buffers, which readers need not copy.

"PSB1", u32 header length, header (JSON), zeros up to a multiple of 64, buffers each at a multiple of 64

The header names each column with the positions of its buffers, or with the one value of all its rows.
docs/inside/blocks.md describes the format for other readers.

A request for several ranges is answered with one block: the ranges in order, as many as fit. The header contains the
sequence up to which each range was read. So thousands of queues with a few messages each need few requests.

The body of a block is its columns, which are encoded, and the bodies of messages, which are written as the peer reads.
A body is copied from its message into the output of the connection, and never joined with others before. So a block of
any size takes little memory and a small part of each turn. The block refers to the contents, so messages remain
readable when they are settled meanwhile.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Final

from librt.strings import BytesWriter, read_i32_le, write_i32_le
from mypy_extensions import i32, i64
from typing_extensions import override

from penstock.connections.authorization import check_read_queue
from penstock.connections.connection import Connection
from penstock.connections.control_request import BLOCK_OCTETS, ControlRequest
from penstock.core.large_bodies import LargeBodies, LargeBody, LargeReader, Parts, PieceListener, Span
from penstock.core.large_content import BodyLoad, LoadListener, body_of, is_large
from penstock.core.message import Message, StoredMessage
from penstock.core.message_format import MessageFormats
from penstock.core.queue.pager import PageReader
from penstock.errors import BrokerError, ContentTooLarge, InternalError, PreconditionFailed
from penstock.flow.work import Steps
from penstock.ranges.columns import (
    ALIGNMENT,
    CONTENT,
    DEFAULT_COLUMNS,
    Buffers,
    Column,
    check_columns,
    message_columns,
    rows_within,
)
from penstock.ranges.cursor_table import CursorTable
from penstock.ranges.cursors import Cursor
from penstock.texts import worded

MAGIC: Final = b"PSB1"
CONTENT_TYPE: Final = "application/vnd.penstock.block"
_BUFFERS: Final = ("offsets", "data", "valid")
"""Fields of a column that are a buffer: its start and its length."""
SMALL_PART: Final = 448
"""Bytes that are copied at once: Python allocates a piece of this size without the C library."""
LARGE_VALUE: Final = 8192
"""Bytes from which a piece of any size costs less than many small pieces."""


def encode_block(
    queue: str | None,
    messages: list[Message],
    formats: MessageFormats,
    wall_offset: float,
    names: list[str],
    ranges: list[object] | None = None,
) -> BlockBody:
    """Encode these columns of messages as a block; the values are the bodies of the messages, or their contents.

    `ranges` has the queue, the rows and the reached sequence of each range, for a request of several; `queue` is None
    then. `wall_offset` is added to the broker's monotonic seconds to get seconds since the epoch.
    """
    buffers = Buffers()
    unreadable: dict[str, list[int]] = {}
    columns = message_columns(buffers, names, messages, formats, wall_offset, unreadable)
    values = BlockValues()
    last = CONTENT if CONTENT in names else "value"
    if last in names:
        values = _contents(messages, formats) if last == CONTENT else _values(messages, formats)
        offsets = buffers.append(values.offsets)
        columns[last] = {"offsets": offsets, "data": [buffers.length(), int(values.octets())]}
    head: dict[str, object] = {"rows": len(messages)}
    if ranges is None:
        head["queue"] = queue
        head["first"] = int(messages[0].sequence) if messages else 0
        head["last"] = int(messages[len(messages) - 1].sequence) if messages else 0
    else:
        head["ranges"] = ranges
    head["columns"] = columns
    if unreadable:
        head["unreadable"] = unreadable
    return _assemble(buffers, columns, head, values)


def _assemble(buffers: Buffers, columns: dict[str, Column], head: dict[str, object], values: BlockValues) -> BlockBody:
    # Positions are relative to the block, so the header has a fixed size: it is padded.
    room = len(json.dumps(head)) + 12 * _count_buffers(columns) + 8
    room += -room % ALIGNMENT
    _move_buffers(columns, room)
    header = json.dumps(head).encode()
    assert len(header) + 8 <= room, "the header outgrew its room"
    before = b"".join(
        (MAGIC, len(header).to_bytes(4, "little"), header, bytes(room - 8 - len(header)), buffers.out.getvalue())
    )
    return BlockBody(before, values, bytes(-int(values.octets()) % ALIGNMENT))


def _count_buffers(columns: dict[str, Column]) -> int:
    buffers = 0
    for column in columns.values():
        buffers += sum(name in column for name in _BUFFERS)
        items = column.get("items")
        if isinstance(items, dict):
            buffers += _count_buffers(items["columns"])
    return buffers


def _move_buffers(columns: dict[str, Column], octets: int) -> None:
    """Add `octets` bytes to the start of each buffer."""
    for column in columns.values():
        for name in _BUFFERS:
            place = column.get(name)
            if isinstance(place, list):
                column[name] = [place[0] + octets, place[1]]
        items = column.get("items")
        if isinstance(items, dict):
            _move_buffers(items["columns"], octets)


def _values(messages: list[Message], formats: MessageFormats) -> BlockValues:
    """Find the bodies of messages, and their offsets."""
    values = BlockValues()
    contents = values.contents
    starts = values.starts
    offsets = BytesWriter()
    end: i64 = 0
    write_i32_le(offsets, 0)
    for message in messages:
        content = message.content
        message_format = formats.find(content)
        start = message_format.payload_at(content)
        if start >= 0:
            end += message_format.body_bytes(content)
        else:
            content = message_format.payload(content)
            start = 0
            end += len(content)
        contents.append(content)
        starts.append(int(start))
        write_i32_le(offsets, i32(end))
    values.offsets = offsets.getvalue()
    return values


def _contents(messages: list[Message], formats: MessageFormats) -> BlockValues:
    """Find the contents of messages, and their offsets. Those of large messages are put together."""
    values = BlockValues()
    offsets = BytesWriter()
    end: i64 = 0
    write_i32_le(offsets, 0)
    for message in messages:
        content = message.content
        if is_large(content):
            content = formats.whole(content)
        end += len(content)
        values.contents.append(content)
        values.starts.append(0)
        write_i32_le(offsets, i32(end))
    values.offsets = offsets.getvalue()
    return values


class BlockValues:
    """The values of a block: bodies of messages, or their contents, not copied."""

    __slots__ = ("contents", "starts", "offsets")

    def __init__(self) -> None:
        self.contents: list[bytes] = []
        """Contents, or bodies that had to be joined."""
        self.starts: list[int] = []
        """Start of the value in each content."""
        self.offsets: bytes = b"\0\0\0\0"
        """Arrow's offsets of the values: one more than there are values."""

    def octets(self) -> i64:
        """Return the bytes of all values."""
        return i64(read_i32_le(self.offsets, len(self.offsets) - 4))


class BlockBody(LargeBody):
    """The bytes of a block."""

    __slots__ = ("head", "values", "end")

    def __init__(self, head: bytes, values: BlockValues, end: bytes) -> None:
        super().__init__(0, None)
        self.head = head
        """Bytes before the values."""
        self.values = values
        self.end = end
        """Bytes after the values."""
        self.octets = len(head) + values.octets() + len(end)
        self.spans = [Span(0, self.octets)]

    @override
    def open(self, bodies: LargeBodies, spans: list[Span], listener: PieceListener) -> LargeReader:
        """Return a reader of the whole block, which has no other spans."""
        return _BlockReader(bodies, self, spans, listener)


class _BlockReader(LargeReader):
    """A reader that always has the next bytes at hand."""

    __slots__ = ("_block", "_part", "_at")

    def __init__(self, bodies: LargeBodies, body: BlockBody, spans: list[Span], listener: PieceListener) -> None:
        super().__init__(bodies, body, spans, listener)
        self._block = body
        self._part: i64 = -1
        """Index of a value; -1 is the head, and the index after the last value is the end."""
        self._at: i64 = 0
        """Bytes of this part that are written."""

    @override
    def ready(self, most: i64) -> i64:
        self._count = most if most < self.left else self.left
        self.left -= self._count
        return self._count

    @override
    def take(self, most: i64) -> bytes:
        out = BytesWriter()
        self.ready(most)
        self.write(out, [])
        return out.getvalue()

    @override
    def write(self, out: BytesWriter, parts: Parts) -> None:
        values = self._block.values
        rows: i64 = len(values.starts)
        part = self._part
        at = self._at
        count = self._count
        while count > 0:
            if 0 <= part < rows:
                first = i64(read_i32_le(values.offsets, part * 4))
                left = i64(read_i32_le(values.offsets, part * 4 + 4)) - first - at
                start = values.starts[part] + at
                octets = values.contents[part]
            else:
                octets = self._block.head if part < 0 else self._block.end
                left = len(octets) - at
                start = at
            done = left > count
            if done:
                left = count
            _write_part(out, octets, start, left)
            count -= left
            at += left
            if not done:
                part += 1
                at = 0
        self._part = part
        self._at = at


def _write_part(out: BytesWriter, octets: bytes, start: i64, count: i64) -> None:
    """Write a part of the bytes."""
    if count < LARGE_VALUE:
        while count > SMALL_PART:
            out.write(octets[start : start + SMALL_PART])
            start += SMALL_PART
            count -= SMALL_PART
    out.write(octets[start : start + count])


BLOCK_ROWS_MAX: Final = 20_000
BLOCK_BYTES_MAX: Final = 16 * 1024 * 1024
"""Most rows and bytes of one block, so that no reply is large; readers ask for the next block."""
BLOCK_RANGES_MAX: Final = 1_000
"""Most ranges of one request."""
RANGES_A_UNIT: Final = 2
"""Ranges that are checked with one unit of work."""
BLOCK_MESSAGE_MAX: Final = 1024 * 1024 * 1024
"""Most bytes of the bodies in a block: a large message is alone in its block, and its value has an offset of 31
bits.
"""


BLOCK_CONTENT_MAX: Final = BLOCK_OCTETS - 256 * 1024
"""Most bytes of the body of a large message whose content is read: its block can be published."""


def large_bodies(messages: list[Message], most: i64 = BLOCK_MESSAGE_MAX) -> list[LargeBody]:
    """Return the bodies of the large messages. Raises ContentTooLarge (311) for more bytes than a block may have."""
    bodies: list[LargeBody] = []
    total: i64 = 0
    for message in messages:
        content = message.content
        if not is_large(content):  # Cheaper than to look at the type of each content.
            continue
        body = body_of(content)
        if body is not None:
            bodies.append(body)
            total += body.octets
    if total > most:
        raise ContentTooLarge(
            f"a message of {int(total):,} bytes does not fit into a block, which has at most {int(most):,}; consume it"
        )
    return bodies


class BlockRange:
    """The messages of a block: the first messages of (lo, hi], within rows and bytes but at least one."""

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
        """Select the messages of the range among messages read from the disk."""
        selected: list[Message] = []
        size: i64 = 0
        for message in messages:
            if message.sequence <= self.lo:
                continue
            if (
                message.sequence > self.hi
                or len(selected) >= self.rows
                or (selected and size + message.charge > self.bytes)
            ):
                break
            selected.append(message)
            size += message.charge
        return selected


class BlockPart:
    """The messages of one range in a block."""

    __slots__ = ("queue", "messages", "reached")

    def __init__(self, queue: str, messages: list[Message], reached: i64) -> None:
        self.queue = queue
        self.messages = messages
        self.reached: i64 = reached
        """Sequence up to which the range was read: its end, if no messages are left there."""


class BlockLoad(LoadListener, PageReader):
    """A block that waits for pages, or for the bodies of its large messages, for its last range."""

    def __init__(
        self,
        reads: BlockReads,
        request: ControlRequest,
        before: list[BlockPart],
        range: BlockRange,
        messages: list[Message],
        on_disk: bool,
    ) -> None:
        """`before` are the ranges without messages before this range; `on_disk`: the range must be read from the
        disk.
        """
        self.request = request
        self.messages = messages
        self._reads = reads
        self._before = before
        self._range = range
        self._wanted: BlockRange | None = range if on_disk else None
        """The range that must be read from the disk; None if only bodies must be read."""
        self._next: i64 = 0
        """First sequence of the next read of pages."""
        self._load: BodyLoad | None = None
        request.begin_wait()

    def begin(self) -> bool:
        """Begin to load. Return whether the block is answered already, because no read was needed."""
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
        """Request pages unless messages are in memory by now. Returns False if no page is left to read."""
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
        wanted_messages = wanted.of(messages)
        if wanted_messages:
            self._wanted = None
            self.messages = wanted_messages
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
                part = part_of(reads.table.holder(self.request), self._range, self.messages)
                reads.reply(self.request, [*self._before, part])
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


def part_of(cursor: Cursor, wanted: BlockRange, messages: list[Message]) -> BlockPart:
    """Return the first messages of a range as a part of a block, with the sequence reached."""
    if not messages:
        return BlockPart(wanted.queue, messages, wanted.hi)
    last = messages[len(messages) - 1].sequence
    if last < wanted.hi:
        left = cursor.read(wanted.queue, last, wanted.hi, 1, BLOCK_BYTES_MAX)
        if not left and not cursor.position(wanted.queue).is_on_disk(last, wanted.hi):
            last = wanted.hi
    return BlockPart(wanted.queue, messages, last)


class BlockReads:
    """Blocks of messages of planned ranges, the answer to `cursor.range`; blocks that wait for the disk are loaded in
    order.
    """

    def __init__(self, table: CursorTable) -> None:
        self.table = table
        self._waiting: deque[BlockLoad] = deque()
        """Waiting blocks, the first of which is being loaded."""

    def range(self, request: ControlRequest) -> dict[str, object] | None:
        """Reply with a block of messages of planned ranges, which may be read repeatedly."""
        return self.table.control.answer_in_slices(request, self._range_steps(request))

    def _range_steps(self, request: ControlRequest) -> Steps[dict[str, object] | None]:
        wanted = _wanted(request)
        for each in wanted:
            check_read_queue(request.access, each.queue)
        for each in wanted:
            while not self.table.holder(request).reach(each.queue, each.lo, each.rows, each.hi, self.table.broker.work):
                yield
        self._reply_ranges(request, wanted)
        return None

    def _reply_ranges(self, request: ControlRequest, wanted: list[BlockRange]) -> None:
        cursor = self.table.holder(request)
        if request.fields.get("query") is not None and request.fields.get("lease") is None:
            self.table.broker.pinned_rooms.assign(cursor, request.text("query"))
        check_columns(_columns(request))
        self.table.broker.work.done += len(wanted) // RANGES_A_UNIT
        parts: list[BlockPart] = []
        rows, size = wanted[0].rows, wanted[0].bytes
        count: i64 = 0
        for each in wanted:
            if parts and (rows <= 0 or size <= 0):
                break
            each.rows = rows
            each.bytes = size
            messages = each.in_memory(cursor)
            on_disk = not messages and cursor.position(each.queue).is_on_disk(each.lo, each.hi)
            if on_disk or self.bodies_of(request, messages):
                if count == 0:
                    self._add(BlockLoad(self, request, parts, each, messages, on_disk))
                    return
                break
            if count > 0 and messages and messages[0].charge > size:
                break
            part = part_of(cursor, each, messages)
            parts.append(part)
            if part.reached < each.hi:
                break
            count += len(messages)
            rows -= len(messages)
            for message in messages:
                size -= message.charge
        self.reply(request, parts)

    def bodies_of(self, request: ControlRequest, messages: list[Message]) -> list[LargeBody]:
        """Return the large bodies that a block needs. Raises ContentTooLarge (311) for more bytes than a block may
        have.
        """
        columns = _columns(request)
        if CONTENT in columns:
            return large_bodies(messages, BLOCK_CONTENT_MAX)
        return large_bodies(messages) if "value" in columns else []

    def reply(self, request: ControlRequest, parts: list[BlockPart]) -> None:
        """Reply with the messages of ranges as a block: with only the first messages if all are too much work."""
        columns, formats = _columns(request), self.table.broker.formats
        messages = parts[0].messages if len(parts) == 1 else [each for part in parts for each in part.messages]
        rows, work = rows_within(columns, messages, formats)
        self.table.broker.work.done += work
        if rows < len(messages):
            messages = messages[:rows]
            parts = _first_rows(parts, rows)
        counters = self.table.holder(request).counters
        counters.blocks += 1
        counters.messages += len(messages)
        if request.fields.get("lease") is not None:
            self.table.leases.fetched(request, int(parts[0].reached))
        wall_offset = self.table.broker.wall_offset
        if request.fields.get("ranges") is None:
            block = encode_block(parts[0].queue, messages, formats, wall_offset, columns)
        else:
            ranges: list[object] = [[part.queue, len(part.messages), int(part.reached)] for part in parts]
            block = encode_block(None, messages, formats, wall_offset, columns, ranges)
        self.table.control.reply_block(request, CONTENT_TYPE, block)

    def end(self, connection: Connection) -> None:
        """Drop blocks of a connection that ends, except the block that is being loaded."""
        for load in list(self._waiting)[1:]:
            if load.request.connection is connection:
                self._waiting.remove(load)

    # Blocks that wait for the disk

    def _add(self, load: BlockLoad) -> None:
        self._waiting.append(load)
        if len(self._waiting) == 1:
            self._begin()

    def finished(self) -> None:
        """Continue after the first block."""
        self._waiting.popleft()
        self._begin()

    def _begin(self) -> None:
        while self._waiting and self._waiting[0].begin():
            self._waiting.popleft()


def _columns(request: ControlRequest) -> list[str]:
    """Return the requested columns of a block in order; the default columns for a reader that names none."""
    return list(DEFAULT_COLUMNS) if request.fields.get("columns") is None else request.names("columns")


def _block_rows(request: ControlRequest) -> int:
    return max(min(request.amount("rows", BLOCK_ROWS_MAX), BLOCK_ROWS_MAX), 1)


def _first_rows(parts: list[BlockPart], rows: i64) -> list[BlockPart]:
    """Return parts with only their first messages, `rows` in total."""
    found: list[BlockPart] = []
    left = rows
    for part in parts:
        if left == 0 and part.messages:
            break
        if len(part.messages) > left:
            messages = part.messages[:left]
            found.append(BlockPart(part.queue, messages, messages[len(messages) - 1].sequence))
            break
        found.append(part)
        left -= len(part.messages)
    return found


def _wanted(request: ControlRequest) -> list[BlockRange]:
    """Return the ranges of a request: one range of a queue, or the ranges in `ranges`.

    Raises PreconditionFailed (406).
    """
    rows = _block_rows(request)
    size = min(request.size("bytes", BLOCK_BYTES_MAX), BLOCK_BYTES_MAX)
    ranges = request.fields.get("ranges")
    if ranges is None:
        return [BlockRange(request.text("queue"), request.number("lo"), request.number("hi"), rows, size)]
    if request.fields.get("lease") is not None:
        raise PreconditionFailed("'ranges' are for a cursor; under a lease a block has one range: name its 'queue'")
    if not isinstance(ranges, list) or not 0 < len(ranges) <= BLOCK_RANGES_MAX:
        raise PreconditionFailed(
            f"'ranges' must be a list of 1 to {BLOCK_RANGES_MAX:,} ranges, each a list of a queue and two sequences"
        )
    return [_range_of(each, rows, size) for each in ranges]


def _range_of(value: object, rows: int, size: int) -> BlockRange:
    if isinstance(value, list) and len(value) == 3:
        queue, lo, hi = value
        if isinstance(queue, str) and _is_sequence(lo) and _is_sequence(hi):
            return BlockRange(queue, lo, hi, rows, size)
    raise PreconditionFailed(f"'ranges' has {worded(value)}, which is no list of a queue and two sequences from 0 up")


def _is_sequence(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
