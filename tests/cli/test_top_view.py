"""Texts of `penstock top` and `penstock watch`."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli import top_view


@pytest.mark.parametrize(
    ("percent", "shown"),
    [(None, ""), (0.0, "    "), (0.1, "▏   "), (50.0, "██  "), (62.5, "██▌ "), (100.0, "████"), (240.0, "████")],
)
def test_bar_is_as_long_as_the_fill(percent: float | None, shown: str) -> None:
    assert top_view.bar(percent, 4) == shown


def test_spark_is_from_nothing_to_the_most_and_has_gaps() -> None:
    assert top_view.spark([0, 5, None, 10]) == "▁▅ █"
    assert top_view.spark([0, 5, 10], 20) == "▁▃▅"
    assert top_view.spark([0, None]) == "▁ ", "nothing happens"
    assert top_view.spark([30.0], 20) == "█", "more than the capacity is not more than the line"
    assert top_view.spark([5, 5, 5]) == "▁▁▁", "an idle queue without a capacity is no alarm"
    assert top_view.spark([5, 5, 5], 10) == "▅▅▅"
    assert top_view.spark([]) == ""


def item(**changed: Any) -> dict[str, Any]:
    own = {
        "depth": {"messages": 1200, "bytes": 2048},
        "capacity": {"messages": None, "bytes": 4096},
        "fill_percent": 45.0,
        "oldest_s": 12.0,
        "road": {"open": False, "held_by": "own", "blocked": 2, "closed_for_s": 3.0},
    }
    return {"name": "a\x1b[31m", "vhost": "/", "messages_unacknowledged": 3, "consumers": 1, "penstock": own, **changed}


def test_queue_row_escapes_control_characters_and_shows_missing_rates_as_dashes() -> None:
    assert top_view.cells_of(item(), False) == (
        *("a\\x1b[31m", "████▌      45 %", "closed", "2", "3.0 s", "1,200", "12.0 s", "3", "2.0 KiB", "-", "-", "1"),
    )
    stats = {"publish": 9, "publish_details": {"rate": 1.5}, "deliver_get_details": {"rate": 2000.0}}
    row = top_view.cells_of(item(message_stats=stats), True)
    assert (row[0], row[9], row[10]) == ("/: a\\x1b[31m", "1.5", "2,000.0")
    assert top_view.rates(item(message_stats={"publish": 9, "publish_details": None})) == (None, None)


def test_first_blocking_gates_are_lines_with_advice_and_the_rest_counted() -> None:
    gate = {"kind": "queue", "name": "orders", "blocked": 2, "blocked_for_s": 12.0, "advice": "add consumers"}
    memory = {"kind": "memory", "name": "", "blocked": 1, "blocked_for_s": 1.0, "advice": ""}
    assert top_view.blocked_lines({"gates": [gate, memory], "more_gates": 0}) == [
        "12.0 s  queue orders blocks 2 producers; add consumers",
        "1.0 s  memory blocks 1 producer",
    ]
    assert top_view.blocked_lines({"gates": [gate] * 6, "more_gates": 3})[-1] == (
        "and 5 more gates; `penstock why` has all"
    )
    assert top_view.blocked_lines({}) == []


def with_history(messages: list[int], closed: list[float]) -> dict[str, Any]:
    return item(name="q", history={"seconds": 5, "messages": messages, "closed": closed})


@pytest.mark.parametrize(
    ("width", "heads", "samples"),
    [
        (80, [], 0),
        (126, [], 24),
        (127, ["depth 1 min"], 24),
        (141, ["depth 1 min", "closed 1 min"], 36),
        (165, ["depth 2 min", "closed 2 min"], 60),
        (400, ["depth 5 min", "closed 5 min"], 60),
    ],
)
def test_sparklines_are_shown_where_there_is_room_for_a_minute(width: int, heads: list[str], samples: int) -> None:
    known = with_history([0] * 60, [0.0] * 60)
    found, rows = top_view.rows_of([known], False, width)
    assert [list(found[len(top_view.HEADS) :]), len(rows[0])] == [heads, len(top_view.HEADS) + len(heads)]
    assert top_view.samples_wanted(width) == samples
    assert sum(max(map(len, column)) + 2 for column in zip(found, *rows, strict=True)) <= max(width, 113)
    assert top_view.rows_of([item()], False, width)[0] == top_view.HEADS, "a broker that tells no history"


def test_sparklines_end_with_the_newest_sample_and_begin_where_the_broker_did() -> None:
    known = with_history([1, 2, 4], [0.0, 0.5, 1.0])
    assert top_view.history_cells(known, 1) == (" " * 9 + "▃▅█", " " * 9 + "▁▅█")
    known["penstock"] = {**known["penstock"], "capacity": {"messages": 8, "bytes": None}}
    assert top_view.history_cells(known, 1)[0] == " " * 9 + "▂▃▅", "against the capacity"
    assert top_view.history_cells(with_history([*range(100)], [0.0] * 100), 1)[0][-1] == "█"
    assert top_view.history_cells(item(), 2) == (" " * 24, " " * 24), "a queue that has come since"


def test_long_names_are_cut_to_leave_room_for_sparklines() -> None:
    known = {**with_history([1], [0.0]), "name": "n" * 255}
    assert top_view.rows_of([known], False, 158)[0] == top_view.HEADS
    assert len(top_view.rows_of([known], False, 158, 36)[0]) == len(top_view.HEADS) + 1
    assert top_view.rows_of([], False, 0)[0] == top_view.HEADS
