"""Limits of field tables that are sent to clients."""

from __future__ import annotations

import pytest

from penstock.content.field_table import NESTING_MAX, InvalidTable, check_table
from penstock.wire.amqp091.codec import CodecError, encode_table


def nested(depth: int) -> dict[str, object]:
    table: dict[str, object] = {}
    for _ in range(depth - 1):
        table = {"t": table}
    return table


def arrays(depth: int) -> dict[str, object]:
    value: list[object] = []
    for _ in range(depth - 2):
        value = [value]
    return {"a": value}


FITTING: list[dict[str, object]] = [
    {},
    {"n": 1, "t": True, "s": "é", "v": None, "d": 0.5, "b": b"\xff", "a": [1, ["x"], {}]},
    {"n": (1 << 63) - 1},
    {"n": -(1 << 63)},
    {"a" * 255: 1},
    nested(NESTING_MAX),
    arrays(NESTING_MAX),
]
UNFIT: list[dict[str, object]] = [
    {"n": 1 << 63},
    {"n": -(1 << 63) - 1},
    {"a" * 256: 1},
    {"é" * 128: 1},
    {"a": [{"s": "\ud800"}]},
    {"\ud800": 1},
    nested(NESTING_MAX + 1),
    arrays(NESTING_MAX + 1),
]


@pytest.mark.parametrize("table", FITTING)
def test_table_that_fits_is_encoded(table: dict[str, object]) -> None:
    check_table(table)
    encode_table(table)


@pytest.mark.parametrize("table", UNFIT)
def test_table_that_does_not_fit_is_refused_with_the_words_of_the_encoder(table: dict[str, object]) -> None:
    with pytest.raises(CodecError) as expected:
        encode_table(table)
    with pytest.raises(InvalidTable) as refused:
        check_table(table)
    assert str(refused.value) == expected.value.reason
