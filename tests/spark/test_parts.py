"""Parts of long lists: every name once and in order, and each part fits into a request."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_penstock.parts import PART_NAMES, PART_OCTETS, lists_in_parts, numbers_in_parts, parts_of
from tests.profiles import examples


@given(names=st.lists(st.text(max_size=255), unique=True, max_size=40), copies=st.integers(1, 60))
@settings(max_examples=examples(60))
def test_parts_have_every_name_in_order_and_fit(names: list[str], copies: int) -> None:
    every = [f"{copy}{name}" for copy in range(copies) for name in names]
    parts = parts_of(every)
    assert [name for part in parts for name in part] == every
    for part in parts:
        assert len(part) <= PART_NAMES
        assert len(json.dumps(dict.fromkeys(part, 1 << 61))) <= PART_OCTETS


@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (1, [1]), (2_000, [2_000]), (5_001, [2_000, 2_000, 1_001])])
def test_short_names_are_bounded_by_their_number(count: int, sizes: list[int]) -> None:
    names = [f"device-{number}" for number in range(count)]
    assert [len(part) for part in parts_of(names)] == sizes
    numbers = dict(zip(names, range(count), strict=True))
    parts = numbers_in_parts(numbers)
    assert [len(part) for part in parts] == sizes
    assert {name: number for part in parts for name, number in part.items()} == numbers


def test_long_names_are_bounded_by_their_bytes() -> None:
    parts = numbers_in_parts({f"{number:04d}" + "ü" * 120: number for number in range(200)})
    assert len(parts) > 1
    assert max(len(json.dumps(part)) for part in parts) <= PART_OCTETS


def test_lists_of_numbers_are_bounded_by_their_values_and_not_divided() -> None:
    lists = {f"device-{number}": [number, number + 1] for number in range(5_001)}
    parts = lists_in_parts(lists)
    assert all(1 <= len(part) <= 2_000 and len(json.dumps(part)) <= PART_OCTETS for part in parts)
    assert [name for part in parts for name in part] == list(lists)
    assert {name: numbers for part in parts for name, numbers in part.items()} == lists
    long = {"a": list(range(5_001)), "b": list(range(2_000)), "c": [1, 2]}
    assert [list(part) for part in lists_in_parts(long)] == [["a"], ["b", "c"]], (
        "the largest list has a part of its own"
    )
    assert lists_in_parts({}) == [{}]
    wide = lists_in_parts({f"{number:04d}" + "ü" * 120: [1, 2] for number in range(200)})
    assert max(len(json.dumps(part)) for part in wide) <= PART_OCTETS
