"""Every order in which the steps of several threads can happen: a small explorer of schedules.

A thread is a generator that yields before each of its atomic steps; what threads share is one state object made anew
for each schedule. `explore` runs all schedules, depth first, and hands the final states to the judge.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

S = TypeVar("S")
Thread = Generator[str, None, None]
"""Yields the name of its next step before it takes it."""


def explore(make: Callable[[], S], threads: Callable[[S], list[Thread]]) -> Iterator[tuple[S, list[str]]]:
    """Yield the final state and the steps of every schedule."""
    pending: list[list[int]] = [[]]
    while pending:
        prefix = pending.pop()
        state = make()
        running = dict(enumerate(threads(state)))
        waiting = {number: next(thread) for number, thread in running.items()}
        steps: list[str] = []
        taken: list[int] = []
        while waiting:
            choices = sorted(waiting)
            chosen = prefix[len(taken)] if len(taken) < len(prefix) else choices[0]
            if len(taken) >= len(prefix):
                pending += [[*taken, other] for other in choices[1:]]
            taken.append(chosen)
            steps.append(waiting.pop(chosen))
            with contextlib.suppress(StopIteration):
                waiting[chosen] = next(running[chosen])
        yield state, steps
