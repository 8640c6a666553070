"""Texts of `penstock top` and `penstock watch`."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli import top_view
from penstock.cli.cells import width


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
        *("a\\x1b[31m", "████▌       45 %", "closed", "2", "1,200", "-", "-", "3.0 s", "1", "12.0 s", "3", "2.0 KiB"),
    )
    stats = {"publish": 9, "publish_details": {"rate": 1.5}, "deliver_get_details": {"rate": 2000.0}}
    row = top_view.cells_of(item(message_stats=stats), True)
    assert (row[0], row[5], row[6]) == ("/: a\\x1b[31m", "1.5", "2,000.0")
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


def test_lines_of_gates_fit_into_a_terminal_but_for_the_first() -> None:
    gate = {"kind": "queue", "name": "注文" * 20, "blocked": 2, "blocked_for_s": 12.0, "advice": "add consumers"}
    first, second = top_view.blocked_lines({"gates": [gate, gate], "more_gates": 0}, 40)
    assert first.endswith("; add consumers")
    assert second.endswith("…")
    assert 39 <= width(second) <= 40


TOP = {
    "version": "0.1.0",
    "vhost": "shop",
    "connections": 5,
    "turns": {"recent": {"ms": 1.25}},
    "sums": {
        "queues": 60,
        "gates_closed": 4,
        "messages": 2200,
        "messages_unacknowledged": 7,
        "bytes": 2048,
        "rates": {"publish": 110.0, "deliver_get": 9.0},
    },
}


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (0, "vhost shop: 60 queues (4 closed), 2,200 messages, in 110.0/s, out 9.0/s, 5 connections, "
            "7 unacknowledged, 2.0 KiB, longest turn 1.2 ms, penstock 0.1.0"),
        (80, "vhost shop: 60 queues (4 closed), 2,200 messages, in 110.0/s, out 9.0/s"),
        (60, "vhost shop: 60 queues (4 closed), 2,200 messages"),
        (20, "vhost shop: 60 queu…"),
    ],
)  # fmt: skip
def test_headline_has_the_parts_that_fit(columns: int, line: str) -> None:
    assert top_view.headline(TOP, False, columns) == line
    assert top_view.headline(TOP, True).startswith("all virtual hosts: 60 queues")


def with_history(messages: list[int], closed: list[float], fill: list[float] | None = None) -> dict[str, Any]:
    return item(name="q", history={"seconds": 5, "messages": messages, "fill": fill, "closed": closed})


def cells(picture: top_view.Picture) -> int:
    """Return the cells of the widest row, with gaps."""
    return sum(max(map(width, column)) + 2 for column in zip(picture.heads, *picture.rows, strict=True))


@pytest.mark.parametrize(
    ("columns", "heads", "samples"),
    [
        (40, ["queue", "fill", "gate", "blocked"], 12),
        (60, ["queue", "fill", "gate", "blocked", "depth 1 min", "messages"], 12),
        (78, ["queue", "fill", "gate", "blocked", "depth 1 min", "messages", "in/s", "out/s"], 12),
        (160, [*top_view.HEADS[:4], "depth 1 min", *top_view.HEADS[4:], "closed 1 min"], 24),
        (400, [*top_view.HEADS[:4], "depth 5 min", *top_view.HEADS[4:], "closed 5 min"], 60),
    ],
)
def test_narrow_picture_has_gate_and_blocked_behind_fill_and_then_a_sparkline(
    columns: int, heads: list[str], samples: int
) -> None:
    known = with_history([0] * 60, [0.0] * 60, [0.0] * 60)
    picture = top_view.picture_of([known], False, columns)
    assert list(picture.heads) == heads
    assert picture.left_out == tuple(each for each in top_view.HEADS if each not in heads)
    assert {len(row) for row in picture.rows} == {len(heads)}
    assert cells(picture) <= columns
    assert top_view.samples_wanted(columns) == samples
    assert samples >= 12 * max((int(head.split()[1]) for head in heads if head.endswith(" min")), default=0)
    unknown = top_view.picture_of([item()], False, columns)
    assert not any(head.startswith(("depth", "closed ")) and head != "closed for" for head in unknown.heads), (
        "a broker that reports no history"
    )


@pytest.mark.parametrize("columns", range(40, 240, 9))
def test_picture_of_long_names_and_held_queues_is_no_wider_than_its_terminal(columns: int) -> None:
    held = with_history([1] * 60, [1.0] * 60, [50.0] * 60)
    held["penstock"] = {**held["penstock"], "road": {**held["penstock"]["road"], "held_by": "operator"}}
    items = [{**held, "name": name} for name in ("n" * 255, "注文" * 30, "e\u0301" * 60)]
    for everywhere in (False, True):
        picture = top_view.picture_of(items, everywhere, columns)
        assert cells(picture) <= columns
        assert picture.heads[:3] == ("queue", "fill", "gate")
    assert top_view.picture_of(items, False, 0).rows[0][0] == "n" * 255, "whole for programs"
    at_80 = top_view.picture_of(items, False, 78)  # The table of the screen has two cells less than 80.
    assert at_80.heads == ("queue", "fill", "gate", "blocked", "depth 1 min")
    assert at_80.rows[0][2] == "held by the operator"


def test_sparklines_end_with_the_newest_sample_and_begin_where_the_broker_did() -> None:
    known = with_history([1, 2, 4], [0.0, 0.5, 1.0])
    assert top_view.history_cells(known, 1) == (" " * 9 + "▃▅█", " " * 9 + "▁▅█")
    filled = with_history([1, 2, 4], [0.0, 0.5, 1.0], [12.5, 25.0, 50.0])
    assert top_view.history_cells(filled, 1)[0] == " " * 9 + "▂▃▅", "in percent of the capacity"
    overfull = with_history([1], [0.0], [180.0])
    assert top_view.history_cells(overfull, 1)[0] == " " * 11 + "█"
    assert top_view.history_cells(with_history([*range(100)], [0.0] * 100), 1)[0][-1] == "█"
    assert top_view.history_cells(item(), 2) == (" " * 24, " " * 24), "a queue that has come since"
