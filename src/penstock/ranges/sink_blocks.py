"""Operations of sinks: blocks of publishes, with one answer each.

A block is an ordinary request, and its rows are ordinary publishes. They pass the gates through the connection's
producer for blocks (held_block.py). The answer is sent when the block has ended and may be confirmed. It contains the
number of rows that are in their queues, and the reason if not all are.

Incoming blocks: the header and the columns of a block that a client publishes, checked (docs/blocks.md).

Rows of a block as messages: their routes, found as for single publishes, and their contents.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.access.rules import ConnectionAccess
from penstock.content.message_columns import (
    INT32,
    INT64,
    Column,
    HeadersColumn,
    MessageColumns,
    NumberColumn,
    OctetsColumn,
    text_of,
)
from penstock.content.properties import BCC, CC, TEXT_PROPERTIES, Properties
from penstock.core.broker import Broker
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_listener import ProducerListener
from penstock.core.queue.cursor_state import NO_QUERY, QueryId
from penstock.core.routing.route import PERSISTENT, Route, expiration_s, route_with_copies
from penstock.core.routing.topology import resolve_message
from penstock.core.vhost import REPLY_TO, VirtualHost
from penstock.describe.gate import because
from penstock.errors import AccessRefused, BrokerError, ContentTooLarge, PreconditionFailed, ResourceError
from penstock.flow.gate import Gate
from penstock.flow.work import SHARE
from penstock.pools import BLOCKS
from penstock.protocols.common.audit_trail import audit_refusal
from penstock.protocols.common.authorization import check_route
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.control_request import PUBLISH_BLOCK, ControlRequest, Replies
from penstock.protocols.common.peer import query_of
from penstock.ranges.blocks import CONTENT_TYPE, MAGIC
from penstock.ranges.held_block import NO_MARK, NOT_RETRIABLE, BlockLine, BlockMark, HeldBlock, RowSource
from penstock.ranges.sinks import SinkBatches, check_no_cycle
from penstock.texts import worded

ROWS_MAX: Final = 100_000
HEADER_OCTETS_MAX: Final = 64 * 1024
"""Most rows of a block, and most bytes of its header."""
ITEMS_MAX: Final = 1_000_000
"""Most headers of all rows of a block."""
FIELDS: Final = ("rows", "columns", "progress_ms", "mark", "stage")
"""Fields of the header that have a meaning here; fields about the source of a block that was read have none."""
ORIGIN_FIELDS: Final = ("queue", "first", "last", "unreadable")
TEXTS: Final = ("exchange", "routing_key", *TEXT_PROPERTIES)
_INT64_MAX: Final = (1 << 63) - 1
_PREFIX: Final = 8
"""Bytes before the header: the magic, and the length of the header."""
ROUTES_KEPT: Final = 4096
"""Most routes that one block caches; at the bound all are dropped."""
OCTETS_A_UNIT: Final = 2048
"""Bytes of a row that cost one unit of work more than each row does."""
WAITS_SHOWN: Final = 3
"""Gates in the answer about a connection that publishes blocks."""
HEADERS_WORK: Final = 10
"""Units of work to encode the headers of a row."""
_DIRECT_REPLY: Final = REPLY_TO.encode()
_NO_KEY: Final = b""


class IncomingBlock:
    """A block whose header was checked. Every error raises PreconditionFailed (406), and is named."""

    def __init__(self, data: bytes, start: i64 = 0, octets: i64 = -1) -> None:
        """The block is `octets` bytes of `data` from `start` on, which it does not copy; -1 means all that follow."""
        self.data = data
        self._start: i64 = start
        self._size: i64 = octets if octets >= 0 else len(data) - start
        self.fields = _header(data, start, self._size)
        unknown = [name for name in self.fields if name not in FIELDS and name not in ORIGIN_FIELDS]
        if unknown:
            raise PreconditionFailed(f"the block's header has a field '{unknown[0]}'; known are {', '.join(FIELDS)}")
        rows = _number(self.fields.get("rows"), "'rows'")
        if rows > ROWS_MAX:
            raise ContentTooLarge(f"the block has {rows:,} rows; the most is {ROWS_MAX:,}")
        self.rows: i64 = rows
        self.progress_s: float = _number(self.fields.get("progress_ms") or 0, "'progress_ms'") / 1000
        """Least seconds between two progress reports; 0 for none."""
        self.mark = _ids(self.fields, "mark")
        """Ids of a block of a batch; None for a block without them."""
        self.stage = _ids(self.fields, "stage")
        """Ids of a staged block; None for a block that is published."""
        columns = self.fields.get("columns")
        if not isinstance(columns, dict) or "value" not in columns:
            raise PreconditionFailed("the block's 'columns' must be an object with at least the column 'value'")
        self.columns = self._columns(columns)

    def _columns(self, given: dict[str, object]) -> MessageColumns:
        columns = MessageColumns(self._octets("value", _table(given["value"], "value"), self.rows))
        for name, value in given.items():
            table = _table(value, name)
            if name in TEXTS:
                columns.texts[name] = self._octets(name, table, self.rows)
            elif name == "delivery_mode":
                columns.delivery_mode = self._numbers(name, table, INT32, 0, 255)
            elif name == "priority":
                columns.priority = self._numbers(name, table, INT32, 0, 255)
            elif name == "message_timestamp":
                columns.timestamp = self._numbers(name, table, INT64, -_INT64_MAX - 1, _INT64_MAX)
            elif name == "headers_json":
                columns.headers_json = self._octets(name, table, self.rows)
            elif name == "headers":
                columns.headers_column = self._headers(name, table)
            elif name != "value":
                known = ", ".join(
                    ("value", *TEXTS, "delivery_mode", "priority", "message_timestamp", "headers", "headers_json")
                )
                raise PreconditionFailed(f"no message has the column '{name}'; known are {known}")
        return columns

    def _octets(self, name: str, table: dict[str, object], rows: i64) -> OctetsColumn:
        column = OctetsColumn(name, self.data)
        if "all" in table:
            value = table["all"]
            if value is not None and not isinstance(value, str):
                raise PreconditionFailed(f"column {name}: 'all' must be a text or null, not {worded(value)}")
            column.same = True
            column.value = None if value is None else _encoded(value, name)
            return column
        column.offsets = self._buffer(name, table, "offsets", 4 * (rows + 1))
        column.data = self._buffer(name, table, "data", 0)
        column.size = _length(name, table, "data")
        self._set_valid(column, table, rows)
        return column

    def _numbers(self, name: str, table: dict[str, object], width: i64, least: i64, most: i64) -> NumberColumn:
        column = NumberColumn(name, self.data, width, least, most)
        if "all" in table:
            value = table["all"]
            if value is not None and (not isinstance(value, int) or not -_INT64_MAX <= value <= _INT64_MAX):
                raise PreconditionFailed(f"column {name}: 'all' must be an integer or null, not {worded(value)}")
            column.same = True
            column.value = value
            return column
        column.data = self._buffer(name, table, "data", width * self.rows)
        self._set_valid(column, table, self.rows)
        return column

    def _headers(self, name: str, table: dict[str, object]) -> HeadersColumn:
        if "all" in table:
            if table["all"] is not None:
                raise PreconditionFailed(f"column {name}: 'all' must be null, not {worded(table['all'])}")
            nothing = OctetsColumn(name, self.data)
            column = HeadersColumn(name, self.data, 0, nothing, nothing)
            column.same = True
            return column
        items = _table(table.get("items"), f"{name}.items")
        count = _number(items.get("rows"), f"{name}.items.rows")
        if count > ITEMS_MAX:
            raise ContentTooLarge(f"the block has {count:,} headers; the most is {ITEMS_MAX:,}")
        columns = _table(items.get("columns"), f"{name}.items.columns")
        keys = self._octets(f"{name}.key", _table(columns.get("key"), f"{name}.key"), count)
        values = self._octets(f"{name}.value", _table(columns.get("value"), f"{name}.value"), count)
        column = HeadersColumn(name, self.data, count, keys, values)
        column.offsets = self._buffer(name, table, "offsets", 4 * (self.rows + 1))
        self._set_valid(column, table, self.rows)
        return column

    def _set_valid(self, column: Column, table: dict[str, object], rows: i64) -> None:
        if "valid" in table:
            column.valid = self._buffer(column.name, table, "valid", (rows + 7) // 8)

    def _buffer(self, name: str, table: dict[str, object], kind: str, least: i64) -> i64:
        """Return the position of a buffer of at least so many bytes that lies in the block."""
        place = table.get(kind)
        if not isinstance(place, list) or len(place) != 2:
            raise PreconditionFailed(f"column {name}: '{kind}' must be a position and a length, not {worded(place)}")
        start = _number(place[0], f"column {name}: '{kind}'")
        length = _number(place[1], f"column {name}: '{kind}'")
        size = self._size
        if length < least or start > size or length > size - start:
            raise PreconditionFailed(
                f"column {name}: '{kind}' is at {start:,} with {length:,} bytes; {int(least):,} are needed, and the "
                f"block has {int(size):,}"
            )
        return self._start + start


def _header(data: bytes, start: i64, octets: i64) -> dict[str, object]:
    prefix = data[start : start + (octets if octets < _PREFIX else _PREFIX)]
    if len(prefix) < _PREFIX or prefix[:4] != MAGIC:
        raise PreconditionFailed(
            f"a block begins with {MAGIC.decode()} and the length of its header, not {worded(prefix)}"
        )
    size = int.from_bytes(prefix[4:], "little")
    if size > HEADER_OCTETS_MAX or size > octets - _PREFIX:
        raise PreconditionFailed(
            f"the header of the block has {size:,} bytes; the most is {HEADER_OCTETS_MAX:,}, and the block has "
            f"{int(octets):,}"
        )
    try:
        fields = json.loads(data[start + _PREFIX : start + _PREFIX + size])
    except (ValueError, RecursionError) as error:
        raise PreconditionFailed(f"the header of the block must be a JSON object: {error}") from None
    if not isinstance(fields, dict):
        raise PreconditionFailed("the header of the block must be a JSON object")
    return fields


def _ids(fields: dict[str, object], name: str) -> dict[str, object] | None:
    value = fields.get(name)
    if value is None or isinstance(value, dict):
        return value
    raise PreconditionFailed(f"the block's '{name}' must be an object, not {worded(value)}")


def _table(value: object, name: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise PreconditionFailed(f"column {name} must be an object, not {worded(value)}")
    return value


def _number(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or value >= 1 << 40:
        raise PreconditionFailed(f"{name} must be a whole number from 0, not {worded(value)}")
    return value


def _length(name: str, table: dict[str, object], kind: str) -> i64:
    place = table[kind]
    assert isinstance(place, list)
    return _number(place[1], f"column {name}: '{kind}'")


def _encoded(value: str, name: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise PreconditionFailed(f"column {name}: 'all' cannot be encoded as UTF-8") from None


class BlockRows(RowSource):
    """The rows of a block that a user publishes to a virtual host."""

    def __init__(self, broker: Broker, vhost: VirtualHost, block: IncomingBlock, access: ConnectionAccess) -> None:
        columns = block.columns
        exchange, key = columns.texts.get("exchange"), columns.texts.get("routing_key")
        super().__init__(block.rows, vhost.route(_first(exchange), "", False))
        self._broker = broker
        self._vhost = vhost
        self._columns = columns
        self._access = access
        self._user = access.user.encode()
        self._access_epoch: i64 = access.epoch.count
        """Number of changes of permissions at which the routes were checked."""
        self._encoder = broker.formats.default.row_encoder(columns)
        self._exchange = exchange
        self._key = key
        self._one_route = (exchange is None or exchange.same) and (key is None or key.same)
        self._base: Route | None = None
        """The route of all rows, if it is the same."""
        self._routes: dict[bytes, dict[bytes, Route]] = {}
        self._route_count: int = 0
        self.query: QueryId = NO_QUERY
        """Query whose results the rows are; otherwise a query without a name."""
        self._checked = "user_id" in columns.texts or "reply_to" in columns.texts
        self._has_headers = columns.has_headers()
        self._has_variants = columns.priority is not None or "expiration" in columns.texts

    @override
    def load(self, row: i64) -> None:
        if self._checked:
            self._check(row)
        if self._access.epoch.count != self._access_epoch:
            self._access_epoch = self._access.epoch.count
            self._base = None
            self._routes = {}
            self._route_count = 0
        route = self._base
        if route is None:
            route = self._route_of(row)
        if route.epoch != self._vhost.epoch:
            self._vhost.refresh_route(route)
        if route.control:
            raise AccessRefused(f"row {int(row)} is a control operation, which a block cannot carry")
        mode = self._columns.delivery_mode
        if mode is not None and route.checks_delivery_mode and mode.number(row) == PERSISTENT:
            route = route.persistent()
        if self._has_variants:
            route = self._variant(route, row)
        self.content = self._encoder.encode(row)
        self.charge = self._encoder.charge
        self.route = route
        if self.charge > OCTETS_A_UNIT:
            self._broker.work.done += self.charge // OCTETS_A_UNIT
        if self._has_headers or route.by_headers:
            self._route_by_headers(route, row)

    @override
    def check_again(self) -> None:
        if self._access.epoch.count != self._access_epoch:
            check_route(self._access, self._vhost, self.route)

    def _check(self, row: i64) -> None:
        """Check the properties that a client may not set freely, such as the user ID.

        Raises PreconditionFailed (406), as for single publishes.
        """
        texts = self._columns.texts
        column = texts.get("user_id")
        user = None if column is None else column.octets(row)
        if user is not None and user != self._user:
            raise PreconditionFailed(
                f"row {int(row)}: user_id property set to '{user.decode(errors='replace')}' but authenticated user was "
                f"'{self._user.decode()}'"
            )
        column = texts.get("reply_to")
        if column is not None and column.octets(row) == _DIRECT_REPLY:
            raise PreconditionFailed(f"row {int(row)}: fast reply consumer does not exist")

    def _route_of(self, row: i64) -> Route:
        exchange = _NO_KEY if self._exchange is None else self._exchange.short(row) or _NO_KEY
        key = _NO_KEY if self._key is None else self._key.short(row) or _NO_KEY
        routes = self._routes.get(exchange)
        if routes is None:
            routes = {}
            self._routes[exchange] = routes
        route = routes.get(key)
        if route is None:
            route = self._vhost.route(text_of(exchange, "exchange", row), text_of(key, "routing_key", row), False)
            check_route(self._access, self._vhost, route)
            self._vhost.resolve(route, {})
            if self.query.name:
                check_no_cycle(self._broker.pinned_rooms, self._vhost, self.query, route.queues)
            self._route_count += 1
            if self._route_count > ROUTES_KEPT:
                self._routes = {}
                self._route_count = 0
            else:
                routes[key] = route
            if self._one_route:
                self._base = route
        return route

    def _variant(self, route: Route, row: i64) -> Route:
        column = self._columns.priority
        priority = 0 if column is None else column.number(row) or 0
        text = self._columns.texts.get("expiration")
        expiration = None if text is None else text.short(row)
        if expiration is None:
            return route.with_priority(priority)
        return route.variant(priority, expiration_s(expiration))

    def _route_by_headers(self, route: Route, row: i64) -> None:
        """Find the queues of a row by its headers, and by its CC and BCC. Raises PreconditionFailed (406)."""
        headers = self._columns.headers(row) or {}
        self._broker.work.done += HEADERS_WORK
        copied = route_with_copies(route, headers) if CC in headers or BCC in headers else None
        if copied is None and not route.by_headers:
            return
        own = Route(route.envelope, False) if copied is None else copied
        if copied is not None:
            check_route(self._access, self._vhost, copied)
        message_format = self._broker.formats.default
        resolve_message(self._vhost, own, headers, self.content, message_format)
        if BCC in headers:
            properties = self._columns.properties(row)
            properties.headers = {name: value for name, value in headers.items() if name != BCC}
            self.content = message_format.encode(properties, self._columns.body(row))
        self.charge += own.envelope.charge()
        self.route = own


def _first(exchange: OctetsColumn | None) -> str:
    """Return the exchange of all rows, if it is the same; empty otherwise."""
    if exchange is None or not exchange.same or exchange.value is None:
        return ""
    return text_of(exchange.value, "exchange", 0)


PROGRESS_TYPE: Final = "application/vnd.penstock.progress+json"
COPIED_A_UNIT: Final = 4096
"""Bytes of a block that are put together with one unit of work."""
CONNECTION_OCTETS_MAX: Final = 32 * 1024 * 1024
"""Most bytes of one connection's blocks that are not over; the next block is refused."""


class PublishedBlock:
    """One block of a connection, from the request to its answer."""

    def __init__(self, request: ControlRequest, block: HeldBlock, octets: i64, progress_s: float, now: float) -> None:
        self.request = request
        self.block = block
        self.rows = int(block.source.rows)
        self.octets: i64 = octets
        """Bytes of the request while it is not over; 0 afterwards."""
        self.progress_s = progress_s
        self.noted_at = now
        """Time of the last progress report (monotonic seconds)."""
        self.noted: i64 = 0
        """Number of rows that the request announced."""


class BlockPublisher(ProducerListener):
    """The publisher of one connection's blocks."""

    def __init__(self, sinks: SinkBlocks, connection: Connection) -> None:
        super().__init__(connection.number)
        self._sinks = sinks
        self.connection = connection
        self._holder = connection.access.holder()
        self.producer = Producer(
            sinks.broker, f"{connection.name()}/blocks", connection.pausing.budget, connection.origin, self
        )
        self.producer.confirming = True
        self.producer.query = query_of(connection.peer, connection.access.user)
        self.line = BlockLine(self.producer)
        self.octets: i64 = 0
        """Bytes of the connection's blocks that are not over."""
        self._unanswered: deque[PublishedBlock] = deque()

    def publish(
        self, request: ControlRequest, rows: BlockRows, mark: BlockMark, octets: i64, progress_s: float
    ) -> None:
        """Publish a block, after earlier blocks."""
        block = HeldBlock(self.line, rows, mark)
        self.octets += octets
        self._sinks.pool.add(self._holder, octets)
        self._unanswered.append(PublishedBlock(request, block, octets, progress_s, self.producer.broker.now))
        self.line.add(block)
        self.producer.broker.work.count(self.line.work(SHARE, self.producer.broker.now))
        self._release_over()

    def blocks(self) -> int:
        """Return the number of blocks without an answer."""
        return len(self._unanswered)

    def end(self) -> None:
        """Drop the remaining rows, because the connection ends and no answer is awaited."""
        self.line.end()
        self.producer.abort()
        self._sinks.pool.give(self._holder, self.octets)
        self.octets = 0
        self._unanswered.clear()

    def _release_over(self) -> None:
        """Release the bytes of blocks that are over: their rows are messages now."""
        for published in self._unanswered:
            if not published.block.over:
                break
            self.octets -= published.octets
            self._sinks.pool.give(self._holder, published.octets)
            published.octets = 0

    # Producer's client (ProducerListener)

    @override
    def on_confirms(self) -> None:
        self._release_over()
        for outcome in self.producer.confirms.take():
            for _ in range(int(outcome.last - outcome.first) + 1):
                self._answer(self._unanswered.popleft())
        if self._unanswered:
            self._tell_progress(self._unanswered[0])

    def _answer(self, published: PublishedBlock) -> None:
        block = published.block
        answer: dict[str, object] = {"rows": published.rows, "taken": int(block.row)}
        refusal = block.refusal
        if refusal is not None:
            answer["cause"] = refusal.cause
            answer["retriable"] = refusal.cause not in NOT_RETRIABLE
            answer["text"] = refusal.describe()
            if block.code:
                answer["code"] = block.code
            if refusal.error is not None:
                audit_refusal(self.connection, PUBLISH_BLOCK, refusal.error)
        self._sinks.control.answer(published.request, answer)

    def _tell_progress(self, published: PublishedBlock) -> None:
        now = self.producer.broker.now
        taken = published.block.row
        if published.progress_s and taken > published.noted and now >= published.noted_at + published.progress_s:
            published.noted_at = now
            published.noted = taken
            note = {"rows": published.rows, "taken": int(taken)}
            self._sinks.control.reply(published.request, PROGRESS_TYPE, json.dumps(note).encode())

    @override
    def on_closed(self, error: BrokerError) -> None:
        """Answer all blocks with the error; the next block gets a producer of its own."""
        unanswered = list(self._unanswered)
        self._sinks.end(self.connection)
        for published in unanswered:
            self._sinks.control.fail(published.request, error)

    @override
    def on_blocked(self, gate: Gate) -> bool:
        return self.connection.count_block(gate, 1)

    @override
    def on_unblocked(self, gate: Gate) -> bool:
        return self.connection.count_block(gate, -1)

    def on_departed(self) -> None:
        """Add the lost rows to the losses of the connection, which are logged together."""
        self.connection.count_departed(self.producer)


class SinkBlocks:
    """Blocks of publishes, and their publishers by connection."""

    def __init__(self, control: Replies, batches: SinkBatches) -> None:
        self.control = control
        self.broker = control.broker
        self._publishers: dict[int, BlockPublisher] = {}
        """Publishers by the number of the connection."""
        self._batches = batches
        self.pool = self.broker.pools.of(BLOCKS)
        """Bytes of all blocks that are not over. Like held publishes they do not count in the node's memory limit,
        because they may wait for its gate.
        """

    def publish_block(
        self, request: ControlRequest, properties: Properties, content: bytes, start: i64, octets: i64
    ) -> None:
        """Publish the rows of a block, and answer when it has ended.

        The block lies in the content from `start` on, and is read in place: a copy of 16 MiB takes longer than a turn
        should. The copy from the frames is counted here.

        Raises PreconditionFailed (406) for a malformed block, ContentTooLarge (311) and ResourceError (506) for too
        many bytes or rows. Then no row was published.
        """
        if properties.content_type != CONTENT_TYPE:
            raise PreconditionFailed(f"a block has the content type {CONTENT_TYPE}, not {properties.content_type}")
        connection = request.connection
        if connection is None:
            raise PreconditionFailed("a block needs a connection of its own")
        self.broker.work.done += octets // COPIED_A_UNIT
        block = IncomingBlock(content, start, octets)
        rows = BlockRows(self.broker, request.vhost, block, request.access)
        rows.query = query_of(connection.peer, connection.access.user)
        if block.stage is not None:
            ids = request.part(block.stage)
            self.control.answer_later(ids, self._batches.stage_steps(ids, rows))
            return
        mark = NO_MARK if block.mark is None else self._batches.marked_block(request.part(block.mark), block.rows)
        self._publisher(connection, octets).publish(request, rows, mark, octets, block.progress_s)

    def _publisher(self, connection: Connection, octets: i64) -> BlockPublisher:
        """Return the publisher of a connection, created at first use. Raises ResourceError (506)."""
        publisher = self._publishers.get(connection.number)
        of_connection: i64 = 0 if publisher is None else publisher.octets
        if of_connection and of_connection + octets > CONNECTION_OCTETS_MAX:
            raise ResourceError(
                f"blocks of this connection that are not published yet hold {int(of_connection):,} bytes of at most "
                f"{CONNECTION_OCTETS_MAX:,}; wait for an answer"
            )
        holder = connection.access.holder()
        if not self.pool.fits(holder, octets):
            raise ResourceError(f"{self.pool.refusal(holder, octets)}. Send the block again later")
        if publisher is None:
            publisher = BlockPublisher(self, connection)
            self._publishers[connection.number] = publisher
        return publisher

    def state_of(self, connection: Connection) -> dict[str, object]:
        """Return the row of a connection that publishes blocks, for the task that waits for its answers.

        The row shows a connection that was lost on the network: no block is under way, no more input arrives, and no
        answer was sent.
        """
        publisher = self._publishers.get(connection.number)
        producers = self._batches.commits_of(connection)
        blocks = len(producers)
        if publisher is not None:
            blocks += publisher.blocks()
            producers = [publisher.producer, *producers]
        waits: list[str] = []
        for producer in producers:
            for gate, stats in producer.stories():
                if stats.since is not None and len(waits) < WAITS_SHOWN:
                    waits.append(because(producer, gate, self.broker.now))
        return {
            "open": True,
            "blocks": blocks,
            "received": int(connection.peer.traffic.received),
            "paused": connection.may_pause() or connection.waits_for_store(),
            "waits": waits,
        }

    def held(self) -> list[tuple[Connection, int]]:
        """Return the connections with blocks that are not over, and the bytes of these blocks."""
        return [(each.connection, int(each.octets)) for each in self._publishers.values() if each.octets > 0]

    def end(self, connection: Connection) -> None:
        """End the publisher of a connection that ends."""
        publisher = self._publishers.pop(connection.number, None)
        if publisher is not None:
            publisher.end()
