"""Queues that cannot page: refused with the reason. That a queue pages is reported once."""

from __future__ import annotations

from typing import cast

import pytest

from penstock.core.effects import Paging
from penstock.errors import PreconditionFailed
from penstock.settings.read import read_settings
from tests.support import at_once
from tests.support.memory_store import Shelf
from tests.support.paging_broker import PAGE, PagedHouse, house_with, publish


def test_queue_with_priorities_cannot_page() -> None:
    with pytest.raises(
        PreconditionFailed, match="reads messages back in the order they came, and x-max-priority=3 asks"
    ):
        house_with(x_max_priority=3)
    house = PagedHouse(Shelf(), {"q": ({"x-max-priority": 3}, True)})
    with pytest.raises(PreconditionFailed, match="x-max-priority=3 asks for another"):
        at_once.set_settings(house.broker, "queue", "#", read_settings("queue", "#", {"overflow": "page"}))
    assert house.queues["q"].overflow.name == "block"


def test_without_a_store_nothing_can_page() -> None:
    house = PagedHouse(Shelf(), {})
    house.broker.journal = None
    with pytest.raises(PreconditionFailed, match="queue 'q': the overflow policy page needs a data directory"):
        house.vhost.declare_queue("q", dict(PAGE), True, False, None, None)
    assert "q" not in house.vhost.queues


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({**PAGE, "stop-messages": 5}, "stop-messages=5 would block producers before the overflow policy page"),
        ({**PAGE, "resume-percent": 5}, "resume-percent=5 would block producers"),
        ({"page-limit-bytes": 5}, "page-limit-bytes=5 needs the overflow policy page, not block"),
        ({"x-page-full-policy": "drop-new", "x-max-length": 5}, "needs the overflow policy page, not drop-head"),
    ],
)
def test_what_does_not_go_with_paging_is_refused(arguments: dict[str, object], part: str) -> None:
    house = PagedHouse(Shelf(), {})
    with pytest.raises(PreconditionFailed) as caught:
        house.vhost.declare_queue("q", arguments, True, False, None, None)
    assert part in str(caught.value)


def test_paging_is_told_once_when_it_starts_and_once_when_it_has_stopped() -> None:
    house = house_with(capacity_messages=10)
    for _ in range(5):  # The memory is full, and a page comes and goes.
        publish(house, 1, 12)
        house.settle()
        for _ in range(12):
            house.get("q")
            house.settle()
        if house.queues["q"].depth_messages():
            house.drain("q")
    events = [effect for effect in house.broker.effects() if isinstance(effect, Paging)]
    assert [effect.started for effect in events] == [True, False] * 5
    publish(house, 1, 12)
    house.settle()
    for number in range(13, 60):
        house.get("q")
        house.settle()
        house.publish("q", b"%d" % number)
    effects = [cast(Paging, effect) for effect in house.broker.effects() if isinstance(effect, Paging)]
    assert [effect.started for effect in effects] == [True]
