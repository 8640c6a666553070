"""Entries of an outbox: refusals at a deadline, and the ends that a refusal causes."""

from __future__ import annotations

from collections import deque

from penstock.core.publish.outbox import Held, due_at


def test_held_publish_without_a_confirm_closes_the_session_when_refused() -> None:
    assert Held([], 250, 1, None, 0.0).closes_session()


def test_entries_are_due_at_the_deadline() -> None:
    early, late = Held([], 250, 1, None, 5.0), Held([], 250, 1, None, 9.0)
    assert due_at(deque([early, late]), 4.0) == []
    assert due_at(deque([early, late]), 5.0) == [early]
    assert due_at(deque([late, early]), 9.0) == [late, early]
    assert due_at(deque([late, early]), 9.0, 1) == [late]
