"""Entries of an outbox: what is refused at a deadline, and what a refusal ends."""

from __future__ import annotations

from collections import deque

from typing_extensions import override

from penstock.core.publish.outbox import Held, due_at


class Follower(Held):
    """An entry that is refused with the one before it."""

    @override
    def follows(self, refused: Held) -> bool:
        return True


def test_held_publish_without_a_confirm_closes_its_session_when_it_is_refused() -> None:
    assert Held([], 250, 1, None, 0.0).closes_session()


def test_entries_are_due_at_their_deadline_with_those_that_follow_one() -> None:
    early, late = Held([], 250, 1, None, 5.0), Held([], 250, 1, None, 9.0)
    follower = Follower([], 250, 1, None, 9.0)
    assert due_at(deque([early, late]), 4.0) == []
    assert due_at(deque([early, late]), 5.0) == [early]
    assert due_at(deque([early, follower, late]), 5.0) == [early, follower]
    assert due_at(deque([follower, early]), 5.0) == [early]
