"""Entries of x-death: malformed ones are dropped."""

from __future__ import annotations

from penstock.content.death_entries import deaths_in


def test_malformed_x_death_entries_are_dropped() -> None:
    assert deaths_in("text") == deaths_in([5, {"queue": 5, "reason": "x"}, {"queue": "q"}]) == []
    odd = {"queue": "q", "reason": "r", "count": True, "time": 5, "routing-keys": [1], "exchange": None, "other": 1}
    assert deaths_in([odd]) == [{"count": 1, "queue": "q", "reason": "r"}]
