"""Totals of flow control by kind: they never fall, whatever ends."""

from __future__ import annotations

from penstock.flow.gate_stats import FlowTotals, TimeIntegral


def test_seconds_of_all_that_lasts_add_up() -> None:
    found = TimeIntegral()
    found.change(1, 10.0)
    found.change(2, 12.0)
    assert (found.present, found.seconds(13.0)) == (3, 5.0)
    found.change(-3, 14.0)
    assert (found.present, found.seconds(100.0)) == (0, 8.0)


def test_transitions_and_blocks_are_counted_by_kind() -> None:
    totals = FlowTotals()
    totals.count_transition("queue", True, 1.0)
    totals.count_block("queue", True, 1.0)
    totals.count_block("queue", True, 2.0)
    totals.count_transition("queue", False, 4.0)
    totals.count_block("queue", False, 4.0)
    found = totals.of("queue")
    assert (found.crossings, found.closed.present, found.closed.seconds(9.0)) == (1, 0, 3.0)
    assert (found.blocks, found.blocked.present, found.blocked.seconds(4.0)) == (2, 1, 5.0)
    assert totals.of("disk").crossings == 0
