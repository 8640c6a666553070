"""Line of waiting calls: a released place goes to the next waiting call."""

from __future__ import annotations

import pytest

import penstock
from penstock.client.engine.waits import Line, Wait, Wakes

pytestmark = pytest.mark.skipif(penstock.compiled(), reason="a compiled class has no interpreted subclasses")


class Places(Line):
    """A line before so many places."""

    def __init__(self, places: int) -> None:
        super().__init__(Wakes())
        self.places = places
        self.went: list[int] = []
        """Sizes of the calls that have used a place, as their names."""

    def fits(self, size: int) -> bool:
        return self.granted < self.places

    def wait(self, name: int) -> Wait:
        """Stand in the line."""
        wait = Wait(size=name)
        self.stand(wait)
        return wait

    def run(self, *waits: Wait) -> None:
        """Let calls run in this order, if they are woken, as a shell does."""
        for wait in waits:
            while wait.done and wait.size not in self.went:
                if self.take(wait):
                    self.places -= 1
                    self.went.append(wait.size)

    def open(self, places: int) -> None:
        """Have so many places, and hand them over."""
        self.places = places
        self.grant()


@pytest.mark.parametrize("left", [0, 1, 2])
def test_calls_whose_places_are_gone_wait_again_in_order(left: int) -> None:
    line = Places(0)
    waits = [line.wait(number) for number in range(1, 5)]
    line.open(3)
    line.places = left
    line.run(*waits[:3])
    line.open(4)
    line.run(*waits)
    assert line.went == [1, 2, 3, 4]
    assert (line.granted, line.granted_octets, len(line.handed), len(line.line)) == (0, 0, 0, 0)


@pytest.mark.parametrize("places", [1, 2])
def test_call_that_runs_after_places_have_come_back_does_not_overtake(places: int) -> None:
    line = Places(0)
    first, second = line.wait(1), line.wait(2)
    line.open(2)
    line.places = 0
    line.run(first)
    line.open(places)
    line.run(second, first, second)
    line.open(2)
    line.run(second)
    assert line.went == [1, 2]
    assert (line.granted, line.granted_octets, len(line.handed), len(line.line)) == (0, 0, 0, 0)


def test_call_that_leaves_before_running_wakes_the_next_call() -> None:
    line = Places(0)
    first, second = line.wait(1), line.wait(2)
    line.open(2)
    line.run(second)
    assert line.went == []
    line.leave(first)
    line.run(second)
    assert line.went == [2]


def test_call_that_leaves_passes_the_place_to_the_next() -> None:
    line = Places(0)
    first, second, third = line.wait(1), line.wait(2), line.wait(3)
    line.open(1)
    line.leave(first)
    line.leave(third)
    line.run(second)
    assert line.went == [2]
    assert (line.granted, len(line.handed), len(line.line)) == (0, 0, 0)
