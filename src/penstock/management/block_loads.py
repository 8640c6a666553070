"""Blocks whose messages, or the bodies of large ones, are on the disk: they are read for one block at a time.

The connection of the request is not read meanwhile. The cursor is checked again when all is there. Nothing stays in
memory.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.large_bodies import LargeBody
from penstock.core.large_content import body_of
from penstock.core.large_loading import BodyLoad, LoadListener
from penstock.core.message import Message, StoredMessage
from penstock.core.queue.cursor import Cursor
from penstock.core.queue.page_io import PageReader
from penstock.errors import BrokerError, ContentTooLarge, InternalError

if TYPE_CHECKING:
    from penstock.management.control_request import ControlRequest
    from penstock.management.cursor_api import CursorApi

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
        self, loads: BlockLoads, request: ControlRequest, wanted: BlockRange | None, messages: list[Message]
    ) -> None:
        """`wanted` is what must be read from the disk; None if only bodies must."""
        self.request = request
        self.messages = messages
        self._loads = loads
        self._wanted = wanted
        self._next: i64 = 0
        """First sequence of the next read of pages."""
        self._load: BodyLoad | None = None
        if request.connection is not None:
            request.connection.busy += 1

    def begin(self) -> bool:
        """Begin to load. Return whether it is answered already: nothing was to be read."""
        try:
            if self._wanted is not None and self._request_pages(self._wanted):
                return False
            bodies = self._loads.cursors.bodies_of(self.request, self.messages)
        except BrokerError as error:
            self._fail(error)
            return True
        if bodies:
            self._load = BodyLoad(self._loads.cursors.broker.large, bodies, self)
            if not self._load.begin():
                return False
        self._answer()
        return True

    def _request_pages(self, wanted: BlockRange) -> bool:
        """Request pages unless messages are in memory by now. Returns False if nothing is left to read."""
        cursor = self._loads.cursors.check_holder(self.request)
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
            self._loads.finished()

    @override
    def on_loaded(self) -> None:
        self._answer()
        self._loads.finished()

    def _answer(self) -> None:
        cursors = self._loads.cursors
        load = self._load
        try:
            if load is not None and load.fault:
                raise InternalError(f"a large message cannot be read from the store: {load.fault}")
            cursors.check_holder(self.request)
            if load is not None:
                load.insert()
            try:
                cursors.reply_block(self.request, self.messages)
            finally:
                if load is not None:
                    load.release()
        except BrokerError as error:
            self._fail(error)
        else:
            self._finish()

    def _fail(self, error: BrokerError) -> None:
        self._loads.cursors.control.fail(self.request, error)
        self._finish()

    def _finish(self) -> None:
        connection = self.request.connection
        if connection is not None:
            connection.busy -= 1
            connection.services.resume_input(connection)


class BlockLoads:
    """Blocks that wait for the disk, in order."""

    def __init__(self, cursors: CursorApi) -> None:
        self.cursors = cursors
        self._waiting: deque[BlockLoad] = deque()
        """The first one is being loaded."""

    def add(self, request: ControlRequest, messages: list[Message]) -> None:
        """Load the bodies of large messages of a block, after those of earlier blocks, and reply with it."""
        self._add(BlockLoad(self, request, None, messages))

    def add_range(self, request: ControlRequest, wanted: BlockRange) -> None:
        """Read the pages of a block, after those of earlier blocks, and reply with it."""
        self._add(BlockLoad(self, request, wanted, []))

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
