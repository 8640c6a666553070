"""Readers of fields: each returns its values, and refuses others."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

import pytest

from penstock.server.record_fields import (
    flag_field,
    permission_field,
    text_field,
    texts_field,
    texts_or_none_field,
    time_field,
)


@pytest.mark.parametrize(
    ("reader", "value", "found"),
    [
        (text_field, "a", "a"),
        (flag_field, True, True),
        (time_field, None, None),
        (time_field, 3, 3.0),
        (texts_field, ["a", "b"], ("a", "b")),
        (texts_or_none_field, None, None),
        (texts_or_none_field, [], ()),
        (permission_field, ["a", "b", "c"], ("a", "b", "c")),
    ],
)
def test_reader_returns_its_value(reader: Callable[[object], object], value: object, found: object) -> None:
    assert reader(value) == found


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        (text_field, 1), (text_field, None), (flag_field, 1), (time_field, True), (time_field, "1"), (time_field, nan),
        (time_field, inf), (texts_field, "ab"), (texts_field, [1]), (texts_or_none_field, {}),
        (permission_field, ["a", "b"]),
    ],
)  # fmt: skip
def test_reader_refuses_values_of_other_types(reader: Callable[[object], object], value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        reader(value)
