"""The gate for the space that must be left free on the store's disk."""

from __future__ import annotations

import pytest

from penstock.core.gates.disk import FreeSpaceGate
from penstock.core.settings.limits import DISK_FREE_BYTES
from tests.support.durable_broker import Kept


def test_room_that_must_be_left_free_closes_and_opens_with_some_distance() -> None:
    house = Kept(min_disk_free=1_000)
    for free, closed in ((1_000, []), (999, ["room"]), (1_099, ["room"]), (1_100, []), (1_000, []), (0, ["room"])):
        house.disk.measured(1, free, 100_000, house.broker.now)
        assert house.closed() == closed, free
    house.set("broker", "", min_disk_free="none")
    assert house.closed() == []
    assert [closed for _, closed in house.crossings()] == [True, False, True, False]


def test_space_that_the_store_needs_is_not_free_for_messages() -> None:
    house = Kept(min_disk_free=1_000)
    for free, needed, closed in ((1_500, 500, []), (1_500, 501, ["room"]), (1_500, 400, []), (1_000, 0, [])):
        house.disk.measured(1, free, 100_000, house.broker.now, needed)
        assert house.closed() == closed, (free, needed)


def test_store_keeps_the_space_with_min_disk_free_none() -> None:
    house = Kept(min_disk_free="none")
    for free, needed, closed in ((500, 500, []), (499, 500, ["room"]), (500, 500, [])):
        house.disk.measured(1, free, 100_000, house.broker.now, needed)
        assert house.closed() == closed, (free, needed)
    house.disk.measured(1, 499, 100_000, house.broker.now, 500)
    assert house.disk.room.describe_cause(0.0) == (
        "0 bytes free < min-disk-free 0 (opens at 0), besides 500 for the store itself"
    )


def test_cause_of_closed_free_space_gate_names_the_minimum_that_was_passed() -> None:
    house = Kept(min_disk_free=1_000)
    causes: list[str] = []
    for free in (999, 1_050):
        house.disk.measured(1, free, 100_000, house.broker.now)
        assert house.disk.room is not None
        causes.append(house.disk.room.describe_cause(0.0))
    assert causes == [
        "999 bytes free < min-disk-free 1,000 (opens at 1,100)",
        "1,050 bytes free; it was below min-disk-free (1,000) and opens at 1,100",
    ]


@pytest.mark.parametrize(
    ("percent", "total", "mark", "resume"), [(5.0, 1000, 50, 55), (99.0, 1000, 990, 995), (100.0, 1000, 1000, 1000)]
)
def test_share_that_must_be_left_free_can_always_be_reached(percent: float, total: int, mark: int, resume: int) -> None:
    house = Kept(min_disk_free=f"{percent}%")
    house.disk.measured(1, 0, total, house.broker.now)
    room = house.disk.room
    assert isinstance(room, FreeSpaceGate)
    assert (room.recheck_at(), room.resume(), room.full_percent()) == (mark, resume, 100 - int(percent))


def test_file_system_smaller_than_min_disk_free_has_no_negative_share() -> None:
    house = Kept(min_disk_free=50_000)
    house.disk.measured(1, 900, 1000, house.broker.now)
    assert house.closed() == ["room"]
    room = house.disk.room
    assert isinstance(room, FreeSpaceGate)
    assert room.full_percent() == 0


def test_default_min_disk_free_is_that_of_rabbitmq_without_a_quota() -> None:
    house = Kept()
    house.broker.gates.set_disk_limit(house.broker.table.limits("broker", ""))
    assert house.disk.quota is None
    assert house.disk.room.recheck_at() == DISK_FREE_BYTES == 50_000_000
