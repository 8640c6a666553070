"""Header values as bytes and as JSON: both come back unchanged."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.content.header_values import header_octets, headers_from_json, headers_to_json
from penstock.wire.amqp091.codec import decode_table, encode_table

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | st.integers(0, 253_402_300_799).map(lambda seconds: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds))
    | st.decimals(-(1 << 31), (1 << 31) - 1, places=0).map(lambda number: number.scaleb(-2))
)
NAMES = st.text(max_size=6) | st.sampled_from(["$binary", "$table", "$x", "a"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_field_table_values_come_back_from_json(headers: dict[str, object]) -> None:
    text = headers_to_json(headers)
    assert headers_from_json(text) == headers
    assert [type(value) for value in headers_from_json(text).values()] == [type(value) for value in headers.values()]


def test_json_of_decoded_headers_is_exact() -> None:
    octets = encode_table({"n": 1 << 62, "d": Decimal("1.50"), "t": datetime(2026, 1, 1, tzinfo=UTC), "b": b"\0\xff"})
    text = headers_to_json(decode_table(octets, 0)[0])
    assert json.loads(text) == {
        "n": 1 << 62,
        "d": {"$decimal": "1.50"},
        "t": {"$timestamp": 1767225600},
        "b": {"$binary": "AP8="},
    }
    assert encode_table(headers_from_json(text)) == octets


def test_numbers_that_are_not_finite_have_names() -> None:
    text = headers_to_json({"a": math.inf, "b": -math.inf, "c": math.nan})
    assert text == '{"a":{"$double":"Infinity"},"b":{"$double":"-Infinity"},"c":{"$double":"NaN"}}'
    found = headers_from_json(text)
    assert (found["a"], found["b"], str(found["c"])) == (math.inf, -math.inf, "nan")


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (None, None),
        ("ü", "ü".encode()),
        (b"\0\xff", b"\0\xff"),
        (True, b"true"),
        (-5, b"-5"),
        (2.5, b"2.5"),
        (math.nan, b"NaN"),
        (datetime(2026, 1, 1, tzinfo=UTC), b"2026-01-01T00:00:00Z"),
        (Decimal("1.50"), b"1.50"),
        ([1, "a"], b'[1,"a"]'),
        ({"a": b"\0"}, b'{"a":{"$binary":"AA=="}}'),
    ],
)
def test_header_bytes_of_a_value_are_exact(value: object, octets: bytes | None) -> None:
    assert header_octets(value) == octets


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ('{"a": NaN}', "NaN is written"),
        ('{"a": {"$binary": "?"}}', "not base64"),
        ('{"a": {"$decimal": "x"}}', "no number"),
        ('{"a": {"$timestamp": -1}}', "wrong value"),
        ('{"a": {"$other": 1}}', "'$other'"),
        ('{"a":' + "[" * 40 + "]" * 40 + "}", "more than 32 deep"),
        ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "more than 32 deep"),
    ],
)
def test_text_that_is_no_headers_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"is|has|nests|written") as refusal:
        headers_from_json(text)
    assert sentence in str(refusal.value)
