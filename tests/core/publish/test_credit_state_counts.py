"""Counts of the credit of one link."""

from __future__ import annotations

from penstock.core.publish.credit_state import CreditCounts


def test_used_credit_is_granted_less_drained_moved_and_left() -> None:
    counts = CreditCounts()
    counts.granted, counts.drained, counts.moved = 10, 3, 2
    assert counts.as_dict(4) == {"granted": 10, "used": 3, "drained": 3, "moved": 2, "idle": 0}
