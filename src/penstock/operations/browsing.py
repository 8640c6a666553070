"""Browsing: the messages of a queue in the order of their positions, without a mark, a delivery or any credit.

Theory of operation. A position is the sequence of a message in its queue; of a stream it is the offset that clients
see, which is one less. A request reads one page: ready messages in
memory through the index of the queue (as browsers do), messages on the disk as copies, and deliveries that consumers
have not settled. The work is done in slices, and a request examines a bounded number of messages, so a page may be
empty and still have a next position.

A page is no snapshot: each message is shown as it was when it was examined. Ready messages are read first and
deliveries last, so a message that is delivered meanwhile is shown once, as a delivery.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.access.permission import MANAGEMENT, MONITORING
from penstock.connections.authorization import check_read_queue
from penstock.connections.connection import Connection
from penstock.connections.control_request import ControlRequest
from penstock.connections.peer import CONNECTION_NAME
from penstock.content.message_rows import BASE64, STRING, properties_row
from penstock.core.broker import Broker
from penstock.core.consume.consumer import Batch
from penstock.core.consume.scan import COPIED_BYTES, MessageFilter
from penstock.core.consume.session import Session
from penstock.core.message import Message, StoredMessage, TrackedMessage
from penstock.core.message_format import UnreadableContent
from penstock.core.queue.indexed_ready_queue import REACH_WORK, IndexedReadyQueue, indexed, lines_of
from penstock.core.queue.pager import PageReader, QueuePager
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_room import visible_tail
from penstock.core.queue.shared_ready_queue import SharedReadyQueue
from penstock.describe.table import Row
from penstock.errors import InternalError, NotFound, PreconditionFailed
from penstock.flow.wait import Wait, Waits
from penstock.management.node import Node
from penstock.management.operation import LOOKS, VHOST, Operation, Route, Waiting
from penstock.operations.body_reads import part_of_body
from penstock.operations.message_filter import FIELDS as CHOICES
from penstock.operations.message_filter import chosen_messages, chosen_positions
from penstock.settings.kind import COUNT, Kind, whole

LIMIT_DEFAULT: Final = 100
LIMIT_MOST: Final = 1000
"""Messages of one answer."""
PAGE_BYTES: Final = 256 * 1024
"""Bytes (charges) of one answer; at least one message is in it."""
BODY_MOST: Final = 1024 * 1024
"""Bytes of a body in an answer; a longer one is truncated."""
EXAMINED_MOST: Final = 20_000
"""Messages that one request compares with its filter."""
SLICE: Final = 150
"""Units of work between two pauses of a request."""
ROW_WORK: Final = 10
BYTES_A_UNIT: Final = 1024
"""Units of work to write a row, and bytes of its body for a unit more."""
SESSIONS_A_UNIT: Final = 4
MESSAGES_A_UNIT: Final = 16
"""Sessions, and unsettled deliveries, examined with one unit of work."""
AT_LEAST_ONE: Final = whole(1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
UNBOUNDED: Final = (1 << 63) - 1
"""Last sequence of a request without positions."""
READY: Final = "ready"
UNACKED: Final = "unacked"
PAGED: Final = "paged"
"""States of a message: in memory and free, with a consumer, or on the disk only."""


class Found:
    """A message of a page."""

    __slots__ = ("message", "state", "session", "consumer", "since")

    def __init__(
        self, message: Message, state: str, session: Session | None = None, consumer: str = "", since: float = 0.0
    ) -> None:
        self.message = message
        self.state = state
        self.session = session
        """Session of a delivery; None for other messages."""
        self.consumer = consumer
        """Tag of the consumer; empty for `basic.get`."""
        self.since = since
        """Time of the delivery."""


class _Copies(PageReader):
    """Copies of pages, which a request waits for."""

    def __init__(self, first: i64, within: bool) -> None:
        self.messages: list[StoredMessage] = []
        self.following: i64 = 0
        self.wait: Wait = Wait()
        self._first: i64 = first
        """First position that was requested."""
        self._within = within
        """True if the page was requested that contains this position."""

    @override
    def on_copies(self, messages: list[StoredMessage], following: i64) -> None:
        self.messages = messages
        self.following = following
        self.wait.end()

    def after(self, first: i64, durable_end: i64) -> i64:
        """Return the next position to read; `first` is the first position that is on the disk now."""
        if self.following > first:
            return self.following
        if first > self._first or self._within:
            return first  # The page was loaded into memory, or is damaged: the pages after it are read.
        return durable_end


class Browse:
    """One request for a page."""

    def __init__(
        self,
        broker: Broker,
        connections: dict[int, Connection],
        queue: Queue,
        filter: MessageFilter,
        start: int = 0,
        limit: int = LIMIT_DEFAULT,
        truncate: int = BODY_MOST,
        skip: int = 0,
        positions: set[int] | None = None,
    ) -> None:
        self.broker = broker
        self.connections = connections
        self.queue = queue
        self.filter = filter
        self.found: list[Found] = []
        self.reached: i64 = 0
        """First position that was not examined; 0 at the end of the queue."""
        self._offset: i64 = 1 if queue.features.type.retains else 0
        """Difference between a sequence and the position that users see."""
        self._start: i64 = start + self._offset if start + self._offset > 0 else 1
        self._limit: i64 = limit
        self._truncate = truncate
        self._positions = positions
        """Sequences of the messages to show; None for all."""
        self._last: i64 = UNBOUNDED if positions is None else max(positions)
        """Sequence of the last message to show."""
        if positions is not None and min(positions) > self._start:
            self._start = min(positions)
        self._skip = skip
        """Bytes of each body that are left out; the rest is in base64 then."""
        self._bytes: i64 = 0
        self._examined: i64 = 0
        self._spent: i64 = 0
        """Units of work since the last pause."""

    def steps(self, sees_names: bool, user: str) -> Waits[Row]:
        """Read the page. `sees_names`: the user may see the connections of others."""
        yield from self._collect_steps()
        yield from self._delivered_steps()
        messages: list[Row] = []
        for found in self.found:
            row = yield from self._row_steps(found)
            if row is not None:
                row["holder"], row["client"] = self._holder(found, sees_names, user)
                messages.append(row)
        following = int(self.reached - self._offset) if 0 < self.reached <= self._last else None
        return {"queue": self.queue.name, "messages": messages, "next": following, "examined": int(self._examined)}

    def _is_slice_over(self, units: i64) -> bool:
        self.broker.work.done += units
        self._spent += units
        if self._spent < SLICE:
            return False
        self._spent = 0
        return True

    # Ready messages, in memory and on the disk

    def _collect_steps(self) -> Waits[None]:
        if self._start > self.queue.tail:
            return  # Otherwise all messages in memory would enter the index.
        at = self._start
        within = True
        copies: _Copies | None = None
        while True:
            end = yield from self._memory_steps(at)
            # The end of the messages in memory was seen without a pause: a page loaded later is read from its copy.
            pager = self.queue.pager
            if end > 0 or self.queue.deleted or pager is None or pager.messages == 0:
                self.reached = end
                return
            first = at if at > pager.next else pager.next
            if copies is not None:
                is_over = yield from self._paged_steps(copies.messages, first)
                if is_over:
                    return
                at = copies.after(first, pager.durable_end())
                copies = None
            elif first < pager.durable_end():
                at = first  # All ready messages before this position were examined.
                copies = _Copies(first, within)
                pager.request_copies(first, COPIED_BYTES, copies, within)
                within = False
                yield copies.wait
                yield None
            else:
                yield from self._paged_steps(_unwritten(pager), first)
                return

    def _paged_steps(self, messages: list[StoredMessage], first: i64) -> Waits[bool]:
        """Examine messages of the disk from a position on; return whether the page is complete."""
        for message in messages:
            if message.sequence < first:
                continue
            if message.sequence > visible_tail(self.queue):
                break
            if self._examine(message, PAGED):
                self.reached = message.sequence + 1
                return True
            if self._is_slice_over(self.filter.work + self.filter.searched):
                yield None
        return False

    def _memory_steps(self, start: i64) -> Waits[int]:
        """Examine ready messages in memory; return the first position that was not examined, 0 for none."""
        reached: i64 = 0
        done: set[IndexedReadyQueue] = set()
        while not self.queue.deleted:
            line = next((each for each in _lines(self.queue) if each not in done), None)
            if line is None:
                break
            end = yield from self._line_steps(line, start)
            if end > 0 and (reached == 0 or end < reached):
                reached = end
            done.add(line)
        return self._cut(reached)

    def _line_steps(self, line: IndexedReadyQueue, start: i64) -> Waits[int]:
        """Examine a line; return as `_memory_steps`. The amount found in other lines does not count."""
        bytes_before, count_before = self._bytes, len(self.found)
        self._bytes = 0
        limit = self._limit
        self._limit = limit + count_before
        at = start - 1
        end: i64 = 0
        is_over = False
        while not is_over:
            while not line.reach(at):
                if self._is_slice_over(REACH_WORK):
                    yield None
            while True:
                message = line.step()
                if message is None or message.sequence > visible_tail(self.queue):
                    is_over = True
                    break
                at = message.sequence
                if self._examine(message, READY):
                    end = at + 1
                    is_over = True
                    break
                if self._is_slice_over(self.filter.work + self.filter.searched):
                    yield None
                    break
        self._limit = limit
        self._bytes += bytes_before
        return end

    def _examine(self, message: Message, state: str) -> bool:
        """Add a message if it matches; return whether the page is complete with it."""
        self._examined += 1
        if self._matches(message):
            self.found.append(Found(message, state))
            self._bytes += self._shown(message)
        if len(self.found) >= self._limit or message.sequence >= self._last:
            return True
        return self._bytes >= PAGE_BYTES or self._examined >= EXAMINED_MOST

    def _matches(self, message: Message) -> bool:
        now = self.broker.now
        self.filter.searched = 0
        if not self._is_chosen(message):
            return False
        if isinstance(message, TrackedMessage) and message.expires <= now:
            return False
        if message.arrived + self.queue.settings.message_ttl_s <= now:
            return False
        return self.filter.matches(message)

    def _is_chosen(self, message: Message) -> bool:
        positions = self._positions
        return positions is None or int(message.sequence) in positions

    def _shown(self, message: Message) -> i64:
        """Return the bytes that a message has in an answer, without the truncated part of its body."""
        return message.charge if message.charge < self._truncate else i64(self._truncate)

    def _cut(self, reached: i64) -> i64:
        """Sort what was found, and drop what is beyond the page; return the first position beyond the page, or 0."""
        self.found.sort(key=_position)
        kept: list[Found] = []
        size: i64 = 0
        for found in self.found:
            sequence = found.message.sequence
            if reached > 0 and sequence >= reached:
                break
            if kept and (len(kept) >= self._limit or size >= PAGE_BYTES):
                reached = sequence
                break
            kept.append(found)
            size += self._shown(found.message)
        self.found = kept
        self._bytes = size
        return reached

    # Deliveries that are not settled

    def _delivered_steps(self) -> Waits[None]:
        """Add the deliveries within the page, in steps over all sessions."""
        queue = self.queue
        if queue.unacked_messages == 0:
            return
        delivered: dict[int, Found] = {}
        left = queue.unacked_messages
        for connection in list(self.connections.values()):
            for session in list(connection.engine.sessions()):
                if self._is_slice_over(1):
                    yield None
                for batch in session.unsettled.batches():
                    if batch.consumer.queue is not queue or batch.left == 0:
                        continue
                    left -= batch.left
                    self._add_batch(batch, session, delivered)
                    if self._is_slice_over(1 + len(batch.messages) // MESSAGES_A_UNIT):
                        yield None
                    if len(delivered) > 2 * LIMIT_MOST:
                        delivered = _first_of(delivered)
            if left <= 0:
                break
        self.found = [found for found in self.found if int(found.message.sequence) not in delivered]
        self.found += delivered.values()
        self.reached = self._cut(self.reached)

    def _add_batch(self, batch: Batch, session: Session, delivered: dict[int, Found]) -> None:
        for message in batch.messages:
            if message is None or message.sequence < self._start:
                continue
            if self.reached > 0 and message.sequence >= self.reached:
                continue
            if self._is_chosen(message) and self.filter.matches(message):
                found = Found(message, UNACKED, session, batch.consumer.tag, batch.at)
                delivered[int(message.sequence)] = found

    # Rows

    def _row_steps(self, found: Found) -> Waits[Row | None]:
        """Return the row of a message; None if its body has left the store while it was read."""
        message, broker = found.message, self.broker
        message_format = broker.formats.find(message.content)
        size = int(broker.formats.body_bytes(message.content))
        try:
            most = min(max(size - self._skip, 0), self._truncate)
            body = yield from part_of_body(broker, message.content, self._skip, most)
        except InternalError:
            return None
        unreadable = False
        try:
            properties = properties_row(message_format.properties(message.content))
        except UnreadableContent:
            properties, unreadable = {}, True
        arrived = EPOCH + timedelta(microseconds=round((message.arrived + broker.wall_offset) * 1e6))
        row: Row = {
            "position": int(message.sequence - self._offset),
            "state": found.state,
            "holder": None,
            "client": None,
            "consumer": found.consumer if found.state == UNACKED else None,
            "held_s": round(max(broker.now - found.since, 0.0), 3) if found.state == UNACKED else None,
            "arrived": arrived.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z",
            "age_s": round(max(broker.now - message.arrived, 0.0), 3),
            "redelivered": message.redelivered,
            "delivery_count": message.failures,
            "exchange": message.envelope.exchange,
            "routing_key": message.envelope.routing_key,
            "format": message_format.name,
            "properties": properties,
            "payload_bytes": size,
        }
        if unreadable:
            row["unreadable"] = True
        is_cut = size > self._skip + len(body)
        if is_cut:
            row["truncated"] = True
        try:
            row["payload"] = _text_of(body, is_cut) if not self._skip else base64.b64encode(body).decode()
            row["payload_encoding"] = BASE64 if self._skip else STRING
        except UnicodeDecodeError:
            row["payload"] = base64.b64encode(body).decode()
            row["payload_encoding"] = BASE64
        if self._is_slice_over(ROW_WORK + len(body) // BYTES_A_UNIT):
            yield None
        return row

    def _holder(self, found: Found, sees_names: bool, user: str) -> tuple[str | None, str | None]:
        """Return the name of the session that has a message, and its client's own name; None without one.

        Of the connections of others only the number is told.
        """
        session = found.session
        if session is None:
            return None, None
        connection = self.connections.get(session.connection_number)
        if sees_names or (connection is not None and connection.user == user):
            given = "" if connection is None else str(connection.peer.properties.get(CONNECTION_NAME, ""))
            return session.name, given or None
        return f"con:{session.connection_number}", None


def _unwritten(pager: QueuePager) -> list[StoredMessage]:
    """Return the messages that are being written, which are bounded by `pager.UNWRITTEN_BYTES`."""
    messages: list[StoredMessage] = []
    for page in pager.unwritten:
        for message in page.group.messages:
            if message is not None:
                messages.append(message)
    return messages


def _position(found: Found) -> int:
    return int(found.message.sequence)


def _first_of(delivered: dict[int, Found]) -> dict[int, Found]:
    """Return the deliveries with the lowest positions, one more than a page may have."""
    return {sequence: delivered[sequence] for sequence in sorted(delivered)[: LIMIT_MOST + 1]}


def _text_of(body: bytes, truncated: bool) -> str:
    """Return a body as a text. Raises UnicodeDecodeError; a character that the truncation has cut is left out."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        if not truncated or error.end < len(body) or len(body) - error.start >= 4:
            raise
        return body[: error.start].decode()


def _lines(queue: Queue) -> list[IndexedReadyQueue]:
    """Return the lines of ready messages with an index, which a purge replaces."""
    ready = queue.ready_queue
    if isinstance(ready, SharedReadyQueue):
        aside = ready.aside
        if not isinstance(aside, IndexedReadyQueue):
            aside = IndexedReadyQueue(aside)
            ready.aside = aside
        return [aside, ready.line]  # A page is loaded into the line, which is examined last.
    queue.ready_queue = indexed(ready)
    return lines_of(queue.ready_queue)


# The operation


FIELDS: Final[tuple[str, ...]] = ("queue", *CHOICES, "positions", "limit", "from", "truncate", "skip")


def browse(node: Node, request: ControlRequest) -> Waiting:
    """Return a page of the messages of a queue, as `FIELDS` say.

    `filter` is a selector, `from` a position, `positions` those of the messages to show; a page with the last one has
    no `next`. `truncate` is the most bytes of a body, which begins after `skip` bytes. So
    a body of any size is read in pieces. Raises NotFound (404), InvalidField (406) for a text that is no selector,
    PreconditionFailed (406) for another condition that is invalid.
    """
    name = request.text("queue")
    check_read_queue(request.access, name)
    queue = request.vhost.queue(name, request.connection)
    filter = chosen_messages(node, request)
    limit = _whole(request, "limit", LIMIT_DEFAULT, AT_LEAST_ONE)
    start = _whole(request, "from", 0, COUNT)
    skip = _whole(request, "skip", 0, COUNT)
    truncate = _whole(request, "truncate", BODY_MOST, COUNT)
    shown = (start, min(limit, LIMIT_MOST), min(truncate, BODY_MOST), skip)
    positions = chosen_positions(request, queue)
    wanted = Browse(node.broker, node.connections, queue, filter, *shown, positions)
    rules = request.access.rules
    return Waiting(_checked(wanted.steps(rules.has_tag(MONITORING), request.access.user), queue))


def _checked(steps: Waits[Row], queue: Queue) -> Waits[Row]:
    """Carry out steps. Raises NotFound (404) if the queue was deleted meanwhile."""
    row = yield from steps
    if queue.deleted:
        raise NotFound(f"queue '{queue.name}' was deleted meanwhile")
    return row


def _whole(request: ControlRequest, name: str, default: int, kind: Kind) -> int:
    """Return a number, which may be digits in a text. Raises PreconditionFailed (406)."""
    value = request.fields.get(name)
    if value is None:
        return default
    found: object = kind.parse(value)
    if not isinstance(found, int):
        raise PreconditionFailed(kind.fault(f"'{name}'", value))
    return found


def _of_path(fields: Row) -> Row:
    """Return the fields of a request at the path of a queue."""
    return {**fields, "queue": fields["name"]}


OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation("messages.browse", browse, FIELDS, tag="", permissions=("read queue",), how=LOOKS, audited=False,
              asks=VHOST, routes=(
        Route("GET /penstock/queues/{vhost}/{name}/messages", "Browse messages of a queue without taking them: ready, "
              "unacknowledged and on the disk. `next` is the position of the next page.", tag=MANAGEMENT,
              query=("filter", "key", "body", "reason", "positions", "limit", "from", "truncate", "skip"),
              many=("header",),
              read=_of_path),
    )),
)  # fmt: skip
