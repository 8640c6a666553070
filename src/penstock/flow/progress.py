"""Progress of long work in steps: units done of all, and the requests to cancel, hold or isolate the work.

Work and its runner share a `WorkProgress`. The work counts units, reports the reason of a hold, and requests to run in
the line of changes. The runner requests cancellation, and runs no steps of held work. The `WorkProgress` of work
without a runner is not read.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.errors import Cancelled, PenstockError
from penstock.flow.work import Result, Steps

UNKNOWN: Final = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class WorkProgress:
    """Progress of one piece of long work."""

    def __init__(self) -> None:
        self.done: i64 = 0
        self.all: i64 = UNKNOWN
        """Units of the whole work; `UNKNOWN` until they are counted."""
        self.unit: str = ""
        """Name of the units, in the plural."""
        self.phase: str = ""
        """Name of the present part of the work, such as reading or undoing; "" for the work itself."""
        self.cancelled_by: str = ""
        """User who asked for the end of the work; "" without one."""
        self.held_by: str = ""
        """Reason why no step is done; "" if the work is not held."""
        self.retried: bool = False
        """True if held work is to find out whether it is still held."""
        self.alone: bool = False
        """True while the work must run in the line of changes, with no change beside it."""

    def count_all(self, units: i64, unit: str) -> None:
        """Set the number of all units, and their name."""
        self.all = units
        self.unit = unit
        self.done = 0

    def check(self) -> None:
        """Raise Cancelled (406) if the end of the work was requested."""
        if self.cancelled_by:
            raise Cancelled(f"cancelled by user '{self.cancelled_by}'")

    def hold(self, reason: str) -> None:
        """Hold the work from the next step on. The runner tries a step each second, or after `go_on`."""
        self.held_by = reason
        self.retried = False

    def go_on(self) -> None:
        """Continue held work."""
        self.held_by = ""


def alone(progress: WorkProgress, steps: Steps[Result]) -> Steps[Result]:
    """Run steps of a job in the line of changes, so that no change of settings is in progress meanwhile."""
    progress.alone = True
    yield  # The runner resumes it at the head of the line.
    try:
        result = yield from steps
    except PenstockError:
        progress.alone = False
        raise
    progress.alone = False
    return result
