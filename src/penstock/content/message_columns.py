"""Messages as columns: the rows of a block that a client publishes, read in place (docs/inside/blocks.md).

The block is untrusted. Its header is checked when the columns are created: every buffer must lie inside the block. The
data of a row is checked when the row is read, so a block costs nothing before its first message.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_le, read_i64_le
from mypy_extensions import i64

from penstock.content.header_values import headers_from_json
from penstock.content.properties import Properties
from penstock.errors import PreconditionFailed
from penstock.settings.lengths import NAME_MAX
from penstock.texts import worded

INT32: Final = 4
INT64: Final = 8
"""Bytes of the numbers in a column."""
NO_BUFFER: Final = -1
UNSIGNED: Final = 1 << 64
HEADERS_KEPT: Final = 256
HEADERS_KEPT_OCTETS: Final = 512
"""Most parsed headers that are cached, and most bytes of each; at the bound all are dropped."""


class Column:
    """A column of any kind: its name, and the rows that are null."""

    def __init__(self, name: str, block: bytes) -> None:
        self.name = name
        self.block = block
        self.valid: i64 = NO_BUFFER
        """Position of the bits of the rows that are not null; `NO_BUFFER` if none is null."""
        self.same: bool = False
        """True if all rows have the same value."""

    def has(self, row: i64) -> bool:
        """Return whether a row is not null, in a column without one value for all."""
        return self.valid == NO_BUFFER or (self.block[self.valid + (row >> 3)] >> (row & 7)) & 1 != 0


class OctetsColumn(Column):
    """A column of texts or bytes."""

    def __init__(self, name: str, block: bytes) -> None:
        super().__init__(name, block)
        self.value: bytes | None = None
        """The value of all rows, if it is the same for all."""
        self.offsets: i64 = 0
        self.data: i64 = 0
        self.size: i64 = 0
        """Positions of the two buffers, and the size of the second in bytes."""

    def octets(self, row: i64) -> bytes | None:
        """Return the value of a row, None for null. Raises PreconditionFailed (406) for offsets out of bounds."""
        if self.same:
            return self.value
        if not self.has(row):
            return None
        at = self.offsets + 4 * row
        first = i64(read_i32_le(self.block, at))
        end = i64(read_i32_le(self.block, at + 4))
        if first < 0 or end < first or end > self.size:
            raise PreconditionFailed(
                f"column {self.name}: row {int(row)} is at {int(first)} to {int(end)}, and there are "
                f"{int(self.size)} bytes"
            )
        return self.block[self.data + first : self.data + end]

    def short(self, row: i64) -> bytes | None:
        """Return a text that fits a short string. Raises PreconditionFailed (406) as `octets`, and if the text is
        longer.
        """
        octets = self.octets(row)
        if octets is not None and len(octets) > NAME_MAX:
            raise PreconditionFailed(
                f"column {self.name}: row {int(row)} has {len(octets)} bytes; the most is {NAME_MAX}"
            )
        return octets

    def text(self, row: i64) -> str | None:
        """Return a short text. Raises PreconditionFailed (406) as `short`, and for a text that is not UTF-8."""
        octets = self.short(row)
        return None if octets is None else text_of(octets, self.name, row)


class NumberColumn(Column):
    """A column of integers."""

    def __init__(self, name: str, block: bytes, width: i64, least: i64, most: i64) -> None:
        super().__init__(name, block)
        self.width: i64 = width
        self.least: i64 = least
        self.most: i64 = most
        self.value: int | None = None
        """The value of all rows, if it is the same for all."""
        self.data: i64 = 0
        """Position of the buffer."""

    def number(self, row: i64) -> int | None:
        """Return the value of a row, None for null. Raises PreconditionFailed (406) outside of `least` to `most`."""
        result: i64 = 0
        if self.same:
            if self.value is None:
                return None
            result = self.value
        elif not self.has(row):
            return None
        elif self.width == INT32:
            result = i64(read_i32_le(self.block, self.data + 4 * row))
        else:
            result = read_i64_le(self.block, self.data + 8 * row)
        if result < self.least or result > self.most:
            raise PreconditionFailed(
                f"column {self.name}: row {int(row)} has {int(result)}; "
                f"it must be {int(self.least)} to {int(self.most)}"
            )
        return int(result)


class HeadersColumn(Column):
    """A column of headers: lists of names and bytes."""

    def __init__(self, name: str, block: bytes, items: i64, keys: OctetsColumn, values: OctetsColumn) -> None:
        super().__init__(name, block)
        self.offsets: i64 = 0
        self.items: i64 = items
        self.keys = keys
        self.values = values

    def headers(self, row: i64) -> dict[str, object] | None:
        """Return the headers of a row, None for null: bytes that are UTF-8 as a text, others as bytes.

        Raises PreconditionFailed (406).
        """
        if self.same or not self.has(row):
            return None
        at = self.offsets + 4 * row
        first = i64(read_i32_le(self.block, at))
        end = i64(read_i32_le(self.block, at + 4))
        if first < 0 or end < first or end > self.items:
            raise PreconditionFailed(
                f"column {self.name}: row {int(row)} has the entries {int(first)} to {int(end)} of {int(self.items)}"
            )
        table: dict[str, object] = {}
        for item in range(first, end):
            key = self.keys.text(item)
            if key is None:
                raise PreconditionFailed(f"column {self.name}: row {int(row)} has a header without a name")
            table[key] = text_or_octets(self.values.octets(item))
        return table


def text_of(octets: bytes, name: str, row: i64) -> str:
    """Return the text of bytes in UTF-8. Raises PreconditionFailed (406)."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise PreconditionFailed(f"column {name}: row {int(row)} is not UTF-8: {worded(octets[:60])}") from None


def text_or_octets(octets: bytes | None) -> object:
    """Return bytes as a text if they are UTF-8."""
    if octets is None:
        return None
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return octets


class MessageColumns:
    """The columns of a block of messages; None for a property that all rows lack."""

    def __init__(self, value: OctetsColumn) -> None:
        self.value = value
        self.texts: dict[str, OctetsColumn] = {}
        """Properties that are short texts, and `exchange` and `routing_key`."""
        self.delivery_mode: NumberColumn | None = None
        self.priority: NumberColumn | None = None
        self.timestamp: NumberColumn | None = None
        self.headers_column: HeadersColumn | None = None
        self.headers_json: OctetsColumn | None = None
        """Headers as JSON; where not null, these take precedence over `headers_column`."""
        self._parsed: dict[bytes, dict[str, object]] = {}
        """Headers by their JSON: most messages share a few."""

    def body(self, row: i64) -> bytes:
        """Return the body of a row. Raises PreconditionFailed (406) for null."""
        octets = self.value.octets(row)
        if octets is None:
            raise PreconditionFailed(f"column {self.value.name}: row {int(row)} is null; a message has a body")
        return octets

    def has_headers(self) -> bool:
        """Return whether rows may have headers."""
        return self.headers_column is not None or self.headers_json is not None

    def headers(self, row: i64) -> dict[str, object] | None:
        """Return the headers of a row; None without any. Raises PreconditionFailed (406)."""
        text = None if self.headers_json is None else self.headers_json.octets(row)
        if text is None:
            return None if self.headers_column is None else self.headers_column.headers(row)
        table = self._parsed.get(text)
        if table is None:
            try:
                table = headers_from_json(text_of(text, "headers_json", row))
            except ValueError as error:
                raise PreconditionFailed(f"column headers_json: row {int(row)} {error}") from None
            if len(self._parsed) >= HEADERS_KEPT:
                self._parsed.clear()
            if len(text) <= HEADERS_KEPT_OCTETS:
                self._parsed[text] = table
        return table

    def properties(self, row: i64) -> Properties:
        """Return the properties of a row. Raises PreconditionFailed (406)."""
        return Properties(
            content_type=self._text("content_type", row),
            content_encoding=self._text("content_encoding", row),
            headers=self.headers(row),
            delivery_mode=None if self.delivery_mode is None else self.delivery_mode.number(row),
            priority=None if self.priority is None else self.priority.number(row),
            correlation_id=self._text("correlation_id", row),
            reply_to=self._text("reply_to", row),
            expiration=self._text("expiration", row),
            message_id=self._text("message_id", row),
            timestamp=self._seconds(row),
            type=self._text("type", row),
            user_id=self._text("user_id", row),
            app_id=self._text("app_id", row),
        )

    def _text(self, name: str, row: i64) -> str | None:
        column = self.texts.get(name)
        return None if column is None else column.text(row)

    def _seconds(self, row: i64) -> int | None:
        seconds = None if self.timestamp is None else self.timestamp.number(row)
        return seconds + UNSIGNED if seconds is not None and seconds < 0 else seconds
