"""Incoming blocks: the header and the columns of a block that a client publishes, checked (docs/inside/blocks.md)."""

from __future__ import annotations

import json
from typing import Final

from mypy_extensions import i64

from penstock.content.message_columns import (
    INT32,
    INT64,
    Column,
    HeadersColumn,
    MessageColumns,
    NumberColumn,
    OctetsColumn,
)
from penstock.content.properties import TEXT_PROPERTIES
from penstock.errors import ContentTooLarge, PreconditionFailed
from penstock.ranges.blocks import MAGIC
from penstock.ranges.columns import CONTENT
from penstock.settings.kind import COUNT
from penstock.texts import worded

ROWS_MAX: Final = 100_000
HEADER_OCTETS_MAX: Final = 64 * 1024
"""Most rows of a block, and most bytes of its header."""
ITEMS_MAX: Final = 1_000_000
"""Most headers of all rows of a block."""
FIELDS: Final = ("rows", "columns", "progress_ms", "mark", "stage")
"""Fields of the header that have a meaning here; fields about the source of a read block are ignored."""
ORIGIN_FIELDS: Final = ("queue", "first", "last", "unreadable")
TARGET: Final = ("exchange", "routing_key")
TEXTS: Final = (*TARGET, *TEXT_PROPERTIES)
_INT64_MAX: Final = (1 << 63) - 1
_PREFIX: Final = 8
"""Bytes before the header: the magic, and the length of the header."""


class IncomingBlock:
    """A block whose header was checked. Every error raises PreconditionFailed (406) and names the fault."""

    def __init__(self, data: bytes, start: i64 = 0, octets: i64 = -1) -> None:
        """The block is `octets` bytes of `data` from `start` on, which are not copied; -1 means all following bytes."""
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
        self.is_stored: bool = False
        """True if the rows are contents as a broker stores them (column `content`), not columns of properties."""
        self.sequences: NumberColumn | None = None
        """Numbers of the rows at their source; None without the column."""
        columns = self.fields.get("columns")
        if isinstance(columns, dict) and CONTENT in columns:
            self.is_stored = True
            self.columns = self._stored_columns(columns)
        elif isinstance(columns, dict) and "value" in columns:
            self.columns = self._columns(columns)
        else:
            raise PreconditionFailed(
                "the block's 'columns' must be an object with at least the column 'value', or 'content'"
            )

    def _stored_columns(self, given: dict[str, object]) -> MessageColumns:
        """Return the columns of contents, which have all properties themselves, beside their target."""
        columns = MessageColumns(self._octets(CONTENT, _table(given[CONTENT], CONTENT), self.rows))
        for name, value in given.items():
            if name == "sequence":
                self.sequences = self._numbers(name, _table(value, name), INT64, 0, _INT64_MAX)
            elif name in TARGET:
                columns.texts[name] = self._octets(name, _table(value, name), self.rows)
            elif name != CONTENT:
                known = ", ".join((CONTENT, *TARGET, "sequence"))
                raise PreconditionFailed(f"a block with the column content has no column '{name}'; known are {known}")
        return columns

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
        """Return the position of a buffer of at least `least` bytes that lies in the block."""
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
    found: object = COUNT.parse(value, True)
    if not isinstance(found, int):
        raise PreconditionFailed(COUNT.fault(name, value))
    return found


def _length(name: str, table: dict[str, object], kind: str) -> i64:
    place = table[kind]
    assert isinstance(place, list)
    return _number(place[1], f"column {name}: '{kind}'")


def _encoded(value: str, name: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise PreconditionFailed(f"column {name}: 'all' cannot be encoded as UTF-8") from None
