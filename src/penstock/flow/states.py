"""State tables: the states of a machine as an `IntEnum`, and the transitions that are allowed between them.

The owner of a state has one attribute of the enumeration's type, and changes it only with `StateTable.move`:

    self.state = CONTENT_STATES.move(self.state, ContentState.HEADER)

Compare states with `is`: compiled, the members of an enumeration are constants, and `is` compares two pointers. `move`
costs about 20 ns compiled. The diagrams in docs/states.md are generated from the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Generic, TypeVar

from mypy_extensions import i64

from penstock.errors import InternalError

S = TypeVar("S", bound=IntEnum)


class StateTable(Generic[S]):
    """The allowed transitions of one machine, each with the event that causes it."""

    def __init__(self, machine: str, initial: S, transitions: dict[S, dict[S, str]]) -> None:
        """Store a table of present state, next state and event; the members are numbered from 0."""
        self.machine = machine
        """Name for people, such as "channel content"."""
        self.initial = initial
        self.transitions = transitions
        self._allowed: list[int] = []
        """The allowed next states by present state, as a set of bits."""
        for before in type(initial):
            allowed = 0
            for after in transitions.get(before, {}):
                allowed |= 1 << int(after)
            self._allowed.append(allowed)

    def move(self, before: S, after: S) -> S:
        """Return the next state. Raises InternalError (541) if the table does not allow the transition."""
        at: i64 = before
        to: i64 = after
        allowed: i64 = self._allowed[at]
        if allowed >> to & 1 == 0:
            raise InternalError(f"{self.machine}: no transition from {before.name} to {after.name}")
        return after

    def diagram(self) -> Iterator[str]:
        """Yield the lines of a Mermaid state diagram; a state without a next one is final."""
        yield "stateDiagram-v2"
        yield f"    [*] --> {self.initial.name}"
        for before in type(self.initial):
            following = self.transitions.get(before, {})
            for after, event in following.items():
                yield f"    {before.name} --> {after.name}: {event}"
            if not following:
                yield f"    {before.name} --> [*]"
