"""Progress of long work: counted, held, cancelled, and alone with the changes for some of its steps."""

from __future__ import annotations

import pytest

from penstock.errors import Cancelled, PreconditionFailed
from penstock.flow.progress import UNKNOWN, WorkProgress, alone
from penstock.flow.work import Steps, finish


def test_units_are_unknown_until_they_are_counted() -> None:
    progress = WorkProgress()
    assert (progress.all, progress.unit) == (UNKNOWN, "")
    progress.done = 3
    progress.count_all(10, "queues")
    assert (progress.done, progress.all, progress.unit) == (0, 10, "queues")


def test_check_raises_when_the_end_was_asked_for() -> None:
    progress = WorkProgress()
    progress.check()
    progress.cancelled_by = "anna"
    with pytest.raises(Cancelled, match="cancelled by user 'anna'"):
        progress.check()


def test_hold_lasts_until_the_work_goes_on() -> None:
    progress = WorkProgress()
    progress.retried = True
    progress.hold("queue 'q' is full")
    assert (progress.held_by, progress.retried) == ("queue 'q' is full", False)
    progress.go_on()
    assert progress.held_by == ""


@pytest.mark.parametrize("fails", [False, True])
def test_steps_alone_are_marked_from_the_pause_before_them_to_their_end(fails: bool) -> None:
    progress = WorkProgress()
    seen: list[bool] = []

    def steps() -> Steps[int]:
        seen.append(progress.alone)
        yield
        if fails:
            raise PreconditionFailed("no")
        return 7

    running = alone(progress, steps())
    next(running)
    assert (progress.alone, seen) == (True, []), "it pauses before the first step, to be moved"
    if fails:
        with pytest.raises(PreconditionFailed):
            finish(running)
    else:
        assert finish(running) == 7
    assert (seen, progress.alone) == ([True], False)
