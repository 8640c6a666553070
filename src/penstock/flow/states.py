"""State tables: the states of a machine as an `IntEnum`, and the transitions that are allowed between them.

The owner of a state has one attribute of the enumeration's type, and changes it only with `StateTable.move`:

    self.state = CONTENT_STATES.move(self.state, ContentState.HEADER)

Compare states with `is`: compiled, the members of an enumeration are constants, and `is` compares two pointers. On the
path of each message, where even that costs too much, the attribute is an `i64` that `step` changes, and the hot path
compares it with a Final. The diagrams in docs/inside/states.md are generated from the tables.
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
        """Displayed name, such as "channel content"."""
        self.initial = initial
        self.transitions = transitions
        self._allowed: list[int] = []
        """The allowed next states by present state, as a bit set."""
        for before in type(initial):
            allowed = 0
            for after in transitions.get(before, {}):
                allowed |= 1 << int(after)
            self._allowed.append(allowed)

    def move(self, before: S, after: S) -> S:
        """Return the next state. Raises InternalError (541) if the table does not allow the transition."""
        self.step(before, after)
        return after

    def step(self, before: i64, after: i64) -> i64:
        """Return the next state as a number. Raises InternalError (541) if the table does not allow the transition."""
        allowed: i64 = self._allowed[before]
        if allowed >> after & 1 == 0:
            states = type(self.initial)
            raise InternalError(
                f"{self.machine}: no transition from {states(int(before)).name} to {states(int(after)).name}"
            )
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
