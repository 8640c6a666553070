"""Values of field tables: which are alike, and what RabbitMQ calls their types."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from penstock.core.routing.header_match import alike, comparable, text_of, type_name


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1 << 40, False),
        (1, True, False),
        (1, 1.0, False),
        (1, "1", False),
        ("a", b"a", True),
        (b"\xff", "\xff", False),
        (float("nan"), float("nan"), True),
        (datetime(2026, 1, 1, tzinfo=UTC), int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()), True),
        ([1, "a"], [1, "a"], True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (Decimal("1.0"), 1, False),
    ],
)
def test_field_values_are_alike_by_class_and_content(one: object, other: object, same: bool) -> None:
    assert (alike(one) == alike(other)) is same


def test_field_values_are_comparable_only_within_their_type() -> None:
    assert comparable("a") != comparable(b"a")
    assert comparable(1) == comparable(1)
    assert hash(comparable({"a": [1, {"b": None}]})) == hash(comparable({"a": [1, {"b": None}]}))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "void"), ("a", "longstr"), (b"a", "binary"), (True, "bool"), (1, "signedint"), (1 << 31, "long"),
        (1.0, "double"), (Decimal(1), "decimal"), ([], "array"), ({}, "table"),
        (datetime(2026, 1, 1, tzinfo=UTC), "timestamp"),
    ],
)  # fmt: skip
def test_field_values_have_rabbitmqs_names_for_their_types(value: object, name: str) -> None:
    assert type_name(value) == name


def test_field_values_in_messages_are_as_people_write_them() -> None:
    assert [text_of(value) for value in (True, False, b"a\xff", 5)] == ["true", "false", "a\ufffd", "5"]
