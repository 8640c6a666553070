"""Blocks from clients: any bytes are refused with a sentence or read within their bounds."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ContentTooLarge, PreconditionFailed
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.ranges.incoming_block import HEADER_OCTETS_MAX, ROWS_MAX, IncomingBlock
from tests.profiles import examples
from tests.support.block_encoder import encode_published

ROWS: list[dict[str, Any]] = [
    {"value": b"one", "message_id": "a", "priority": 1, "headers": [("k", b"v")], "message_timestamp": 5},
    {"value": b"two", "message_id": None, "priority": None, "headers": None, "message_timestamp": None},
]


def with_header(**fields: object) -> bytes:
    text = json.dumps(fields).encode()
    return b"PSB1" + len(text).to_bytes(4, "little") + text


def read_all(data: bytes) -> None:
    """Read all rows of a block, as the broker does."""
    block = IncomingBlock(data)
    encoder = Amqp091Format().row_encoder(block.columns)
    for row in range(min(int(block.rows), 1000)):
        with suppress(PreconditionFailed):
            encoder.encode(row)


def test_columns_of_a_block_are_found() -> None:
    block = IncomingBlock(encode_published(ROWS, {"routing_key": "q", "delivery_mode": 2}, progress_ms=1500))
    assert (int(block.rows), block.progress_s) == (2, 1.5)
    assert block.columns.body(1) == b"two"
    first, second = block.columns.properties(0), block.columns.properties(1)
    assert (first.message_id, first.priority, first.headers, first.timestamp) == ("a", 1, {"k": "v"}, 5)
    assert (second.message_id, second.priority, second.headers, second.timestamp) == (None, None, None, None)
    assert first.delivery_mode == second.delivery_mode == 2


def test_block_of_contents_has_its_target_and_sequences_beside_them() -> None:
    rows: list[dict[str, Any]] = [{"content": b"a", "sequence": 4}, {"content": b"bc", "sequence": 9}]
    block = IncomingBlock(encode_published(rows, {"routing_key": "q", "exchange": ""}))
    assert block.is_stored
    assert [block.columns.body(row) for row in range(2)] == [b"a", b"bc"]
    assert block.sequences is not None
    assert [block.sequences.number(row) for row in range(2)] == [4, 9]
    plain = IncomingBlock(encode_published(ROWS))
    assert (plain.is_stored, plain.sequences) == (False, None)


value = {"value": {"all": "x"}}
content = {"content": {"all": "x"}}
far = 1 << 39


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"columns": value}, "'rows' must be a whole number from 0, not null"),
        ({"rows": True, "columns": value}, "'rows' must be a whole number"),
        ({"rows": -1, "columns": value}, "'rows' must be a whole number"),
        ({"rows": 1}, "'columns' must be an object with at least the column 'value'"),
        ({"rows": 1, "columns": {}}, "at least the column 'value'"),
        ({"rows": 1, "columns": {"value": []}}, "column value must be an object"),
        ({"rows": 1, "columns": {"value": {"all": 1}}}, "column value: 'all' must be a text or null"),
        ({"rows": 1, "columns": {"value": {"all": "\ud800"}}}, "column value: 'all' cannot be encoded"),
        ({"rows": 1, "columns": {"value": {}}}, "column value: 'offsets' must be a position and a length"),
        ({"rows": 1, "columns": {"value": {"offsets": [0, 7], "data": [0, 0]}}}, "'offsets' is at 0 with 7 bytes; 8"),
        ({"rows": 1, "columns": {"value": {"offsets": [0, 8], "data": [far, far]}}}, "'data' is at 549,755,813,888"),
        ({"rows": 1, "columns": {"value": {"offsets": ["0", 8], "data": [0, 0]}}}, "must be a whole number"),
        ({"rows": 1, "columns": {**value, "priority": {"all": "1"}}}, "column priority: 'all' must be an integer"),
        ({"rows": 1, "columns": {**value, "priority": {"data": [0, 3]}}}, "column priority: 'data' is at 0 with 3"),
        ({"rows": 9, "columns": {**value, "type": {"offsets": [0, 40], "data": [0, 0], "valid": [0, 1]}}}, "2 are"),
        ({"rows": 1, "columns": {**value, "colour": {"all": "red"}}}, "no message has the column 'colour'; known are"),
        ({"rows": 1, "columns": {**value, "headers": {"all": "x"}}}, "column headers: 'all' must be null"),
        ({"rows": 1, "columns": {**value, "headers": {"items": {"rows": 1}}}}, "column headers.items.columns must be"),
        ({"rows": 1, "columns": {**content, "value": {"all": "x"}}}, "with the column content has no column 'value'"),
        ({"rows": 1, "columns": {**content, "priority": {"all": 1}}}, "known are content, exchange, routing_key, seq"),
        ({"rows": 1, "columns": {**value, "sequence": {"all": 1}}}, "no message has the column 'sequence'"),
        ({"rows": 2, "columns": {**content, "sequence": {"data": [0, 8]}}}, "column sequence: 'data' is at 0 with 8"),
        ({"rows": 1, "columns": value, "progress_ms": "1"}, "'progress_ms' must be a whole number"),
        ({"rows": 1, "columns": value, "colour": 1}, "the block's header has a field 'colour'; known are"),
    ],
)
def test_malformed_header_is_refused_with_the_place(fields: dict[str, object], text: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        IncomingBlock(with_header(**fields))
    assert text in str(refusal.value)


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b"[" * 5000, b'{"rows":' + b"9" * 5000 + b"}"])
def test_header_other_than_a_json_object_is_refused(text: bytes) -> None:
    with pytest.raises(PreconditionFailed, match="the header of the block must be a JSON object"):
        IncomingBlock(b"PSB1" + len(text).to_bytes(4, "little") + text)


def test_bounds_of_header_and_rows() -> None:
    with pytest.raises(ContentTooLarge, match="100,001 rows"):
        IncomingBlock(with_header(rows=ROWS_MAX + 1, columns=value))
    with pytest.raises(PreconditionFailed, match="the most is 65,536"):
        IncomingBlock(with_header(rows=1, columns=value, queue="x" * HEADER_OCTETS_MAX))


def test_fields_of_a_block_that_was_read_are_passed_over() -> None:
    assert IncomingBlock(with_header(rows=1, columns=value, queue="q", first=1, last=2)).rows == 1


@settings(max_examples=examples(1500))
@given(st.data())
def test_damaged_block_is_refused_or_read_within_the_bounds(data: st.DataObject) -> None:
    whole = bytearray(encode_published(ROWS * 3, {"routing_key": "q"}))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + 4] = data.draw(st.binary(max_size=4))
    end = data.draw(st.integers(0, len(whole)))
    for octets in (bytes(whole), bytes(whole[:end])):
        with suppress(PreconditionFailed, ContentTooLarge):
            read_all(octets)


def test_block_is_read_in_place_within_a_content() -> None:
    data = encode_published(ROWS, {"routing_key": "q"})
    inside = IncomingBlock(b"header" + data + b"\xce", 6, len(data))
    alone = IncomingBlock(data)
    values, expected = inside.columns.value, alone.columns.value
    assert [values.octets(row) for row in range(len(ROWS))] == [expected.octets(row) for row in range(len(ROWS))]
    with pytest.raises(PreconditionFailed, match=f"the block has {len(data) - 64:,}"):
        IncomingBlock(b"header" + data, 6, len(data) - 64)
    with pytest.raises(PreconditionFailed, match="a block begins with"):
        IncomingBlock(b"header" + data, 6, 3)
