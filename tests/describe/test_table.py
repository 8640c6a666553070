"""Tables: rows, and the requested columns."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.describe.table import ABSENT, Field, Reading, Row, Table, metric, plain


def test_row_has_values_of_tables_as_json() -> None:
    table = {"a": [1, b"x\xff", None], "b": {"c": True}, "d": datetime(2026, 1, 1, tzinfo=UTC)}
    assert plain(table) == {"a": [1, "x\ufffd", None], "b": {"c": True}, "d": "2026-01-01 00:00:00+00:00"}


def test_row_has_no_number_that_json_has_not() -> None:
    table = {"a": float("nan"), "b": [float("inf"), float("-inf")], "c": 0.5}
    assert plain(table) == {"a": "nan", "b": ["inf", "-inf"], "c": 0.5}


class Counting:
    """A thing whose columns are counted when they are called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def say(self, name: str) -> str:
        self.called.append(name)
        return name


COUNTED: Table[Counting] = Table(
    Field("name", lambda thing, at: thing.say("name")),
    Field("all.*", lambda thing, at: {"a": thing.say("a"), "b": 1}),
    Field("penstock.depth", lambda thing, at: {"messages": thing.say("depth")}),
    Field("penstock.tail", lambda thing, at: thing.say("tail")),
    Field("none", lambda thing, at: ABSENT),
    Field("penstock.depth.messages", lambda thing, at: 7, "messages"),
    metric("things_total", lambda thing, at: thing.say("metric"), "Things"),
)


@pytest.mark.parametrize(
    ("paths", "row", "called"),
    [
        (["name"], {"name": "name"}, ["name"]),
        (["penstock"], {"penstock": {"depth": {"messages": "depth"}, "tail": "tail"}}, ["depth", "tail"]),
        (["penstock.depth.messages"], {"penstock": {"depth": {"messages": "depth"}}}, ["depth"]),
        (["b"], {"a": "a", "b": 1}, ["a"]),
    ],
)
def test_row_has_the_columns_that_are_asked_for_and_calls_no_others(
    paths: list[str], row: Row, called: list[str]
) -> None:
    thing = Counting()
    assert COUNTED.row(thing, Reading(0.0), COUNTED.select(paths)) == row
    assert thing.called == called


def test_row_has_neither_metrics_nor_columns_of_other_kinds() -> None:
    thing = Counting()
    whole = COUNTED.row(thing, Reading(0.0))
    assert whole == {"name": "name", "a": "a", "b": 1, "penstock": {"depth": {"messages": "depth"}, "tail": "tail"}}
    assert COUNTED.own(thing, Reading(0.0)) == whole["penstock"]
    number = COUNTED.number("penstock.depth.messages")
    assert number.value(thing, Reading(0.0)) == 7
    assert [(family.name, family.kind) for family in COUNTED.families] == [("things_total", "counter")]
