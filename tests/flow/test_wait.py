"""Waits of work in steps: subscribers, and waits that are over."""

from __future__ import annotations

from functools import partial

import pytest

from penstock.flow.timers import NEVER
from penstock.flow.wait import Wait, Waits


def test_wait_wakes_all_its_subscribers_once_at_its_end() -> None:
    wait, woken = Wait(), list[str]()
    for name in ("first", "second"):
        wait.subscribe(partial(woken.append, name))
    assert (wait.is_over, woken, wait.timeout_s) == (False, [], NEVER)
    wait.end()
    wait.end()
    assert (wait.is_over, woken) == (True, ["first", "second"])


def test_subscriber_of_a_wait_that_is_over_is_woken_at_once() -> None:
    wait, woken = Wait(5.0), list[str]()
    wait.end()
    wait.subscribe(partial(woken.append, "late"))
    assert (woken, wait.timeout_s) == (["late"], 5.0)


def test_subscriber_that_ends_the_wait_again_is_woken_once() -> None:
    wait, woken = Wait(), list[int]()

    def wake() -> None:
        woken.append(1)
        wait.end()

    wait.subscribe(wake)
    wait.end()
    assert woken == [1]


def test_steps_that_wait_see_whether_the_event_or_the_time_has_ended_the_wait() -> None:
    def steps(wait: Wait) -> Waits[bool]:
        yield wait
        return wait.is_over

    for happens in (True, False):
        wait = Wait(1.0)
        waiting = steps(wait)
        assert next(waiting) is wait
        if happens:
            wait.end()
        with pytest.raises(StopIteration) as end:
            next(waiting)
        assert end.value.value is happens
