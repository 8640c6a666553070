"""Answers as JSON in parts: rows, long texts, and lists that are read while they are written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.describe.table import Row
from penstock.management.operation import Streamed
from penstock.server.http.answers import ROWS_AT_ONCE, TEXT_AT_ONCE, rows_parts, streamed_parts

values = st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"))
rows_of = st.lists(
    st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), values, max_size=3), max_size=3 * ROWS_AT_ONCE
)


def parts_of(rows: list[Row]) -> list[bytes]:
    slices, parts = rows_parts(rows), list[bytes]()
    while True:
        try:
            parts.append(next(slices))
        except StopIteration as end:
            return [*parts, end.value]


@given(rows_of)
def test_rows_in_parts_are_the_json_of_the_list(rows: list[Row]) -> None:
    parts = parts_of(rows)
    assert json.loads(b"".join(parts)) == rows
    assert len(parts) == len(rows) // ROWS_AT_ONCE + 1


def test_short_answer_is_one_part() -> None:
    assert parts_of([]) == [b"[]"]
    assert parts_of([{"a": 1, "b": [None, "é"]}]) == ['[{"a":1,"b":[null,"é"]}]'.encode()]


@pytest.mark.parametrize("text", ["", "x", 'é€\U0001f600\n"\\', "\x00\x1f"])
@pytest.mark.parametrize("length", [1, TEXT_AT_ONCE - 1, TEXT_AT_ONCE + 1])
def test_value_of_bytes_is_a_text_of_any_length(text: str, length: int) -> None:
    whole = (text * (length // max(len(text.encode()), 1) + 1))[:length]
    row: Row = {"before": 1, "payload": whole.encode(), "after": [2]}
    parts = parts_of([row, {"last": True}])
    assert json.loads(b"".join(parts)) == [{**row, "payload": whole}, {"last": True}]
    assert max(map(len, parts)) <= 7 * TEXT_AT_ONCE, "a control character has six characters in JSON"


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"a": b"x"}, '{"a":"x"}'),
        ({"a": b"x", "b": b"y"}, '{"a":"x","b":"y"}'),
        ({"a": 1, "b": b"y", "c": 2, "d": b"", "e": None}, '{"a":1,"b":"y","c":2,"d":"","e":null}'),
        ({}, "{}"),
    ],
)
def test_texts_keep_their_place_among_the_fields_of_a_row(row: Row, text: str) -> None:
    assert b"".join(parts_of([row])).decode() == f"[{text}]"


def test_text_of_many_bytes_is_several_parts() -> None:
    assert len(parts_of([{"payload": b"x" * (5 * TEXT_AT_ONCE)}])) >= 5


@pytest.mark.parametrize(
    "lists",
    [
        {},
        {"a": []},
        {"a": [[]], "b": [[]]},
        {"a": [[{"x": 1}]], "b": [[], [{"x": 2}, {"x": 3}], []], "c": [[]]},
        {"a": [[{"x": 1}], [], [{"x": 2}]], "b": [[{"y": "ü"}]]},
    ],
)
def test_streamed_answer_is_the_json_of_head_and_lists(lists: dict[str, list[list[Row]]]) -> None:
    streamed = Streamed({"head": "h"}, [(name, iter(parts)) for name, parts in lists.items()])
    whole: dict[str, Any] = {name: [row for rows in parts for row in rows] for name, parts in lists.items()}
    found = json.loads(b"".join(streamed_parts(streamed)))
    assert (found, list(found)) == ({"head": "h", **whole}, ["head", *lists])


def test_rows_of_a_streamed_answer_are_read_during_the_write() -> None:
    read: list[int] = []

    def rows() -> Iterator[list[Row]]:
        for number in range(3):
            read.append(number)
            yield [{"number": number}]

    parts = streamed_parts(Streamed({"head": 1}, [("numbers", rows())]))
    for number in range(3):
        next(parts)
        assert read == list(range(number + 1))
