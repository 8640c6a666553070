"""Pages are read back by the clock that they were written by, wherever the wall clock has been set since."""

from __future__ import annotations

import pytest

from penstock.persistence.restore import JUMP_S, MOST, WallTimes
from tests.support import at_once
from tests.support.memory_store import WALL
from tests.support.paging_broker import house_with, publish

HOURS_S = 3 * 3600.0


def test_row_has_the_clock_that_it_was_written_by() -> None:
    times = WallTimes(100.0)
    times.write(5, 100.0 + JUMP_S / 2)
    times.write(7, 100.0 + HOURS_S)
    times.write(9, 100.0 + HOURS_S)
    times.write(11, 50.0)
    assert [times.of(number) for number in (1, 5, 6, 7, 10, 11, 99)] == [
        100.0, 100.0, 100.0, 100.0 + HOURS_S, 100.0 + HOURS_S, 50.0, 50.0
    ]  # fmt: skip


def test_no_more_clocks_are_remembered_than_so_many() -> None:
    times = WallTimes(0.0)
    for number in range(1, 2 * MOST):
        times.write(number, float(number))
    assert (times.of(2 * MOST - 1), times.of(MOST + 1)) == (2 * MOST - 1, MOST + 1)
    assert times.of(2) == 0.0


@pytest.mark.parametrize("jump", [HOURS_S, -HOURS_S])
def test_what_is_paged_is_as_old_as_it_is_though_the_clock_was_set(jump: float) -> None:
    house = house_with(message_ttl=600_000, messages=20)
    house.write()
    house.times.write(house.journal.open.number, WALL + jump)
    publish(house, 21, 30)
    house.shelf.commit(at_once.encode(house.journal, house.journal.take(), WALL + jump))
    house.journal.written()
    house.settle()
    arrived = []
    while (message := house.get("q")) is not None:
        arrived.append(message.arrived)
        house.settle()
    assert arrived == pytest.approx([100.0] * 30)
