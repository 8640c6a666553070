"""Columns of messages read in place: their values, and offsets that never leave the buffer."""

from __future__ import annotations

import struct

import pytest

from penstock.content.message_columns import (
    INT32,
    INT64,
    HeadersColumn,
    MessageColumns,
    NumberColumn,
    OctetsColumn,
    text_or_octets,
)
from penstock.errors import PreconditionFailed


def octets_column(values: list[bytes], offsets: list[int] | None = None, valid: bytes = b"") -> OctetsColumn:
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value))
    places = offsets or ends
    block = valid + struct.pack(f"<{len(places)}i", *places) + b"".join(values)
    column = OctetsColumn("c", block)
    column.offsets = len(valid)
    column.data = len(valid) + 4 * len(places)
    column.size = ends[-1]
    if valid:
        column.valid = 0
    return column


def number_column(width: int, numbers: list[int], least: int, most: int) -> NumberColumn:
    kind = "i" if width == INT32 else "q"
    column = NumberColumn("n", struct.pack(f"<{len(numbers)}{kind}", *numbers), width, least, most)
    return column


def test_column_bytes_are_those_between_their_offsets() -> None:
    column = octets_column([b"ab", b"", "é".encode()])
    assert [column.octets(row) for row in range(3)] == [b"ab", b"", "é".encode()]
    assert column.text(2) == "é"


def test_column_bytes_of_an_invalid_row_are_null() -> None:
    column = octets_column([b"a", b"b", b"c"], valid=bytes([0b101]))
    assert [column.octets(row) for row in range(3)] == [b"a", None, b"c"]


@pytest.mark.parametrize("offsets", [[-1, 2], [2, 1], [0, 3], [3, 3], [0, 2**31 - 1], [-(2**31), 2**31 - 1]])
def test_column_bytes_with_offsets_out_of_bounds_are_refused(offsets: list[int]) -> None:
    column = octets_column([b"ab"], offsets)
    with pytest.raises(PreconditionFailed, match="column c: row 0 is at"):
        column.octets(0)


def test_column_bytes_that_are_no_short_text_are_refused() -> None:
    with pytest.raises(PreconditionFailed, match="column c: row 0 has 256 bytes"):
        octets_column([b"x" * 256]).short(0)
    with pytest.raises(PreconditionFailed, match="column c: row 0 is not UTF-8"):
        octets_column([b"\xff"]).text(0)


def test_numbers_of_both_widths_and_their_bounds() -> None:
    assert number_column(INT32, [-5, 7], -10, 10).number(1) == 7
    assert number_column(INT64, [1 << 40], 0, 1 << 41).number(0) == 1 << 40
    with pytest.raises(PreconditionFailed, match="column n: row 1 has 256; it must be 0 to 255"):
        number_column(INT32, [0, 256], 0, 255).number(1)


def test_column_with_one_value_serves_all_rows() -> None:
    column = OctetsColumn("c", b"")
    column.same = True
    assert column.octets(5) is None
    column.value = b"x"
    assert column.octets(5) == b"x"
    number = NumberColumn("n", b"", INT32, 0, 255)
    number.same = True
    assert number.number(5) is None
    number.value = 256
    with pytest.raises(PreconditionFailed):
        number.number(5)


def test_headers_out_of_bounds_are_refused() -> None:
    keys, values = octets_column([b"k"]), octets_column([b"v"])
    for first, end in ((-1, 1), (0, 2), (1, 0)):
        column = HeadersColumn("headers", struct.pack("<2i", first, end), 1, keys, values)
        with pytest.raises(PreconditionFailed, match="column headers: row 0 has the entries"):
            column.headers(0)
    assert HeadersColumn("headers", struct.pack("<2i", 0, 1), 1, keys, values).headers(0) == {"k": "v"}


def test_headers_in_json_come_before_others() -> None:
    columns = MessageColumns(octets_column([b"", b""]))
    keys, values = octets_column([b"k"]), octets_column([b"v"])
    columns.headers_column = HeadersColumn("headers", struct.pack("<3i", 0, 1, 1), 1, keys, values)
    columns.headers_json = octets_column([b'{"n":1}', b"null"], valid=bytes([0b01]))
    assert columns.headers(0) == {"n": 1}
    assert columns.headers(1) == {}
    assert columns.headers(0) is columns.headers(0), "the same text is parsed once"


def test_values_of_headers_are_texts_where_they_are_utf8() -> None:
    assert [text_or_octets(value) for value in (b"a", b"\xff", None)] == ["a", b"\xff", None]
