"""The turns of urgent messages and the others: two for one, and older ones always."""

from __future__ import annotations

import pytest

from penstock.core.queue.urgency import URGENT_IN_A_ROW, UrgencyTurns
from tests.support.ready_messages import message

URGENT, OLDER, YOUNGER = message(5, 9), message(4), message(6)
CHOICES = {
    "nothing waits": (None, None, 0, False),
    "an urgent one alone": (URGENT, None, URGENT_IN_A_ROW, True),
    "another one alone": (None, OLDER, 0, False),
    "the first in a row passes an older one": (URGENT, OLDER, 0, True),
    "the last in a row passes an older one": (URGENT, OLDER, URGENT_IN_A_ROW - 1, True),
    "one after the row waits for an older one": (URGENT, OLDER, URGENT_IN_A_ROW, False),
    "one after the row comes before a younger one": (URGENT, YOUNGER, URGENT_IN_A_ROW, True),
}


@pytest.mark.parametrize("name", CHOICES)
def test_urgency_turns_choose_the_class_of_the_next_message(name: str) -> None:
    urgent, other, taken, expected = CHOICES[name]
    turns = UrgencyTurns()
    turns.count(taken)
    assert turns.is_urgent(urgent, other) is expected


def test_urgency_turns_count_a_row_up_to_the_end() -> None:
    turns = UrgencyTurns()
    rows = []
    for urgent in (1, 1, 1, 0, 5, 0):
        turns.count(urgent)
        rows.append(int(turns.taken))
    assert rows == [1, 2, 2, 0, 2, 0]
