"""Names of other brokers' tools, and the commands of the same purpose here."""

from __future__ import annotations

import pytest

from penstock.cli.grammar import command_at
from penstock.cli.habits import HABITS, habit_of


@pytest.mark.parametrize("name", HABITS)
def test_habit_leads_to_a_command_that_there_is(name: str) -> None:
    words = [word for word in HABITS[name].split() if not word.startswith("-") and word == word.lower()]
    assert command_at(" ".join(words[:2])) is not None or command_at(words[0]) is not None
    assert command_at(name) is None, "a present or former name needs no hint"


def test_habit_may_be_written_with_hyphens() -> None:
    assert habit_of("list-queues") == habit_of("list_queues") == "queues list"
    assert habit_of("no_such_command") == ""
