"""Reserved room of one amount: its sum, its holders, and their parts."""

from __future__ import annotations

from penstock.flow.level import Level
from penstock.flow.reserved_room import ReservedRoom, RoomHolder


class Holder(RoomHolder):
    """A holder of messages of one byte each."""

    def __init__(self, room: ReservedRoom, messages: int, size: int) -> None:
        self.room = room
        self.party = None
        self.messages = 0
        self.size = size
        self.change(messages)

    def change(self, messages: int) -> None:
        self.messages += messages
        self.room.count(self, messages, messages * self.size, self.messages > 0)

    def keep_part(self, room: int, reserved: int, now: float) -> None:
        self.change(self.messages * room // reserved - self.messages)


def test_sum_counts_all_holders_and_lists_holders_with_room() -> None:
    room = ReservedRoom()
    first, second = Holder(room, 3, 10), Holder(room, 5, 1)
    assert (int(room.messages), int(room.bytes), len(room.holders())) == (8, 35, 2)
    first.change(-3)
    assert room.holders() == [second]


def test_holders_keep_equal_parts_of_the_room() -> None:
    room = ReservedRoom()
    holders = [Holder(room, 10, 1), Holder(room, 30, 1)]
    room.fit(Level(40, 40), 0.0)
    assert [each.messages for each in holders] == [10, 30]
    room.fit(Level(20, 1_000), 0.0)
    assert [each.messages for each in holders] == [5, 15]
    room.fit(Level(1_000, 9), 0.0)
    assert [each.messages for each in holders] == [2, 6], "rounded down"


def test_room_that_counts_a_part_of_each_charge_is_fitted_by_that_part() -> None:
    room = ReservedRoom()
    holders = [Holder(room, 10, 250), Holder(room, 30, 250)]
    room.fit(Level(1_000, 400, uncounted=240), 0.0)
    assert [each.messages for each in holders] == [10, 30]
    room.fit(Level(1_000, 200, uncounted=240), 0.0)
    assert [each.messages for each in holders] == [5, 15]


def test_reserved_room_is_0_if_the_depth_is_above_the_capacity() -> None:
    room = ReservedRoom()
    holders = [Holder(room, 10, 1), Holder(room, 1, 1)]
    room.fit(Level(-5, -5), 0.0)
    assert [each.messages for each in holders] == [0, 0]
    assert (int(room.messages), int(room.bytes), room.holders()) == (0, 0, [])
