"""Which queues reserve room, and how much of it is free."""

from __future__ import annotations

import pytest

from penstock.core.publish.reservation import Reservation
from tests.support.broker_fixture import House


@pytest.mark.parametrize(
    ("policy", "reserves"), [("block", True), ("reject", False), ("drop-head", False), ("drop-new", False)]
)
def test_queue_reserves_room_only_if_the_policy_holds_publishes(policy: str, reserves: bool) -> None:
    house = House("a", capacity_messages=3, overflow=policy)
    assert house.vhost.queues["a"].reserved.reserves() == reserves


def test_queue_that_holds_reserves_room_beside_a_length() -> None:
    house = House("a", capacity_messages=3, x_max_length=2)
    room = house.vhost.queues["a"].reserved
    reservation = Reservation([house.vhost.queues["a"]], 50, [])
    granted = int(reservation.grant(10, 100.0))
    assert (room.reserves(), granted > 0) == (True, True)
    house.set("queue", "#", overflow="reject")
    assert (room.reserves(), int(room.messages)) == (True, granted), "the overflow is of the length"


def test_free_room_is_neither_filled_nor_reserved() -> None:
    house = House("a", capacity_messages=10, capacity_bytes=1_000)
    room = house.vhost.queues["a"].reserved
    house.publish_now("a", 100)
    reservation = Reservation([house.vhost.queues["a"]], 50, [])
    reservation.grant(2, 100.0)
    assert room.free().as_dict() == {"messages": 7, "bytes": 800}
    house.broker.delete_queue(house.vhost.queues["a"])
    assert (int(room.messages), room.reserves()) == (0, False)
