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
    assert top_view.spark([]) == ""


@pytest.mark.parametrize(
    ("octets", "shown"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3.0 TiB")]
)
def test_size_has_a_unit(octets: int, shown: str) -> None:
    assert top_view.size(octets) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (0.05, "0.1 s"), (59.9, "59.9 s"), (61, "1 min 1 s"), (7_300, "2 h 1 min")]
)
def test_time_has_units(value: float | None, shown: str) -> None:
    assert top_view.seconds(value) == shown


def item(**changed: Any) -> dict[str, Any]:
    own = {
        "depth": {"messages": 1200, "bytes": 2048},
        "fill_percent": 45.0,
        "gate": {"open": False, "blocked": 2, "closed_for_s": 3.0},
    }
    return {"name": "a\x1b[31m", "vhost": "/", "messages_unacknowledged": 3, "consumers": 1, "penstock": own, **changed}


def test_queue_is_a_row_whose_name_controls_no_terminal_and_whose_rates_may_be_missing() -> None:
    assert top_view.cells_of(item(), False) == (
        *("a\\x1b[31m", "████▌      45 %", "1,200", "3", "2.0 KiB", "-", "-", "1", "closed", "2", "3.0 s"),
    )
    stats = {"publish": 9, "publish_details": {"rate": 1.5}, "deliver_get_details": {"rate": 2000.0}}
    row = top_view.cells_of(item(message_stats=stats), True)
    assert (row[0], row[5], row[6]) == ("/: a\\x1b[31m", "1.5", "2,000.0")
    assert top_view.rates(item(message_stats={"publish": 9, "publish_details": None})) == (None, None)


def test_gates_that_block_are_lines_with_advice_and_the_others_are_counted() -> None:
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
