"""Wait: a pause of work in steps until an event, or for a time at most.

Work that waits yields `Wait` where other work in steps yields None. The runner of the steps subscribes to the wait, and
runs the next step after the end of the wait, or after its time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from penstock.flow.timers import NEVER

Result = TypeVar("Result")


class Wait:
    """A wait for one event. All subscribers are called once, at the end of the wait."""

    def __init__(self, timeout_s: float = NEVER) -> None:
        self.timeout_s: float = timeout_s
        """Seconds after which the waiting work goes on without the event."""
        self.is_over: bool = False
        """True from the event on; False if only the time is up."""
        self._wakers: list[Callable[[], None]] = []

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake` at the end of the wait; at once if the wait is over. `wake` must not call the core."""
        if self.is_over:
            wake()
        else:
            self._wakers.append(wake)

    def end(self) -> None:
        """End the wait: the event has happened. Later calls have no effect."""
        if not self.is_over:
            self.is_over = True
            wakers = self._wakers
            self._wakers = []
            for wake in wakers:
                wake()


Waits = Generator[Wait | None, None, Result]
"""Work in steps that may wait: None means that the share of a turn is used up."""
