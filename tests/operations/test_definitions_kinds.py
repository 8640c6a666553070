"""Differences between definitions, for people."""

from __future__ import annotations

from penstock.operations.definitions_kinds import CHANGED, CREATED, Made, details_of, shown


def test_details_name_the_keys_that_differ() -> None:
    before: dict[str, object] = {"a": 1, "b": {"c": 1, "d": 2}, "gone": None}
    after: dict[str, object] = {"a": 1, "b": {"c": 1, "d": 3, "e": "x"}, "new": [1]}
    assert details_of(before, after) == [
        ("b.d", "2", "3"),
        ("b.e", "absent", '"x"'),
        ("gone", "null", "absent"),
        ("new", "absent", "[1]"),
    ]
    assert details_of(after, after) == []


def test_values_are_shown_in_bounded_length() -> None:
    assert len(shown("x" * 1000)) == 200


def test_entries_are_counted_by_their_change() -> None:
    made = Made()
    made.add("queues", CREATED)
    made.add("policies", CHANGED)
    made.add("policies", CHANGED)
    assert (made.created, made.changed) == ({"queues": 1}, {"policies": 2})
