"""A message as a line of JSON: what is written is read unchanged, and a wrong line is refused with its fault."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.content.message_rows import NUMBERS, SHOWN, message_row, read_message
from penstock.content.properties import PROPERTY_NAMES, Properties
from tests.content.test_header_values import NAMES, VALUES

HEADERS = st.dictionaries(NAMES, VALUES, max_size=3)
GIVEN = st.fixed_dictionaries(
    {},
    optional={
        name: HEADERS
        if name == "headers"
        else st.integers(0, NUMBERS[name])
        if name in NUMBERS
        else st.text(max_size=5)
        for name in PROPERTY_NAMES
    },
)


@given(GIVEN, st.binary(max_size=20) | st.text(max_size=9).map(str.encode), st.text(max_size=4), st.text(max_size=4))
def test_message_that_is_written_is_read_unchanged(given: dict[str, Any], body: bytes, exchange: str, key: str) -> None:
    properties = Properties(**given)
    line = json.dumps(message_row(properties, body, exchange, key, True)).encode()
    found = read_message(line)
    assert (found.properties, found.body, found.exchange, found.routing_key) == (properties, body, exchange, key)


def test_header_of_each_type_keeps_its_type() -> None:
    headers: dict[str, object] = {
        "raw": b"\xff",
        "text": "t",
        "whole": 1,
        "real": 1.0,
        "yes": True,
        "nothing": None,
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "price": Decimal("1.50"),
        "list": [b"a", {"x": [1]}],
        "table": {"$binary": "no bytes"},
        "x-death": [{"count": 1, "time": datetime(2026, 1, 2, tzinfo=UTC)}],
    }
    line = json.dumps(message_row(Properties(headers=headers), b"", "", "", False)).encode()
    found = read_message(line).properties.headers
    assert found == headers
    assert [type(value) for value in found.values()] == [type(value) for value in headers.values()]


def test_fields_about_the_former_queue_are_ignored_and_absent_ones_are_empty() -> None:
    found = read_message(json.dumps({"payload": "x", **dict.fromkeys(SHOWN, 1), "properties": []}).encode())
    assert (found.body, found.exchange, found.routing_key) == (b"x", "", "")
    assert found.properties.as_dict() == {}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'{"payload": "x', "the line is not JSON: Unterminated string starting at \\(character 13\\)"),
        (b"\xff", "the line is not UTF-8"),
        (b"[1]", r"the line must be a JSON object, not \[1\]"),
        (b"[" * 100_000, "the line nests too deeply"),
        (b"{}", "the message has no payload"),
        (b'{"payload": 1}', "payload must be a text, not 1"),
        (b'{"payload": "\\ud800"}', "the payload has half of a surrogate pair"),
        (b'{"payload": "x", "payload_encoding": "hex"}', "payload_encoding must be string or base64, not 'hex'"),
        (b'{"payload": "x", "payload_encoding": "base64"}', "the payload is not base64"),
        (b'{"payload": "", "truncated": true}', "the payload is truncated: `penstock messages browse --json --whole`"),
        (b'{"payload": "", "routing-key": "k"}', r"a message has no field 'routing-key'; did you mean routing_key\?"),
        (b'{"payload": "", "xyz": 1}', "a message has no field 'xyz'; known are payload, payload_encoding"),
        (b'{"payload": "", "properties": 1}', "properties must be an object, not 1"),
        (b'{"payload": "", "properties": {"x": 1}}', "a message has no property 'x'; known are content_type"),
        (
            b'{"payload": "", "properties": {"priority": 256}}',
            "the property priority must be a whole number from 0 to 255",
        ),
        (b'{"payload": "", "properties": {"priority": true}}', "the property priority must be a whole number"),
        (b'{"payload": "", "properties": {"type": 1}}', "the property type must be a text, not 1"),
        (b'{"payload": "", "properties": {"headers": 1}}', "headers must be an object, not 1"),
        (b'{"payload": "", "properties": {"headers": {"a": {"$binary": 1}}}}', "a value of headers has a \\$binary"),
        (b'{"payload": "", "properties": {"headers": {"a": NaN}}}', 'NaN is written {"\\$double": "NaN"}'),
    ],
)
def test_wrong_line_is_refused_with_its_fault(line: bytes, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^{fault}"):
        read_message(line)
