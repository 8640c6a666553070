"""Work in steps, done a share a turn, with the units that each turn took."""

from __future__ import annotations

from typing import TypeVar

from penstock.flow.work import SHARE, Steps, WorkMeter

Result = TypeVar("Result")


def turn_costs(work: WorkMeter, steps: Steps[Result], share: int = SHARE) -> tuple[list[int], Result]:
    """Do steps a share a turn; return the units of each turn, and their result."""
    found: list[int] = []
    while True:
        before = int(work.done)
        work.limit = before + share
        try:
            next(steps)
        except StopIteration as end:
            found.append(int(work.done) - before)
            return found, end.value
        found.append(int(work.done) - before)
