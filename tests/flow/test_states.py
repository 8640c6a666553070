"""State tables: transitions that are allowed, and those that are internal errors."""

from __future__ import annotations

from enum import IntEnum

import pytest

from penstock.errors import InternalError
from penstock.flow.states import StateTable


class Door(IntEnum):
    """States of a door."""

    OPEN = 0
    CLOSED = 1
    LOCKED = 2
    REMOVED = 3


DOOR = StateTable(
    "door",
    Door.OPEN,
    {
        Door.OPEN: {Door.CLOSED: "pushed", Door.REMOVED: "lifted out"},
        Door.CLOSED: {Door.OPEN: "pulled", Door.LOCKED: "key turned", Door.CLOSED: "pushed again"},
        Door.LOCKED: {Door.CLOSED: "key turned"},
    },
)


@pytest.mark.parametrize("before", list(Door))
@pytest.mark.parametrize("after", list(Door))
def test_state_table_allows_only_the_listed_transitions(before: Door, after: Door) -> None:
    if after in DOOR.transitions.get(before, {}):
        assert DOOR.move(before, after) is after
        return
    with pytest.raises(InternalError, match=f"^door: no transition from {before.name} to {after.name}$"):
        DOOR.move(before, after)


def test_diagram_of_a_state_table_has_the_first_and_last_states_and_the_events() -> None:
    assert list(DOOR.diagram()) == [
        "stateDiagram-v2",
        "    [*] --> OPEN",
        "    OPEN --> CLOSED: pushed",
        "    OPEN --> REMOVED: lifted out",
        "    CLOSED --> OPEN: pulled",
        "    CLOSED --> LOCKED: key turned",
        "    CLOSED --> CLOSED: pushed again",
        "    LOCKED --> CLOSED: key turned",
        "    REMOVED --> [*]",
    ]
