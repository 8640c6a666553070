"""The overflow policy `page`, and the one of a queue that pages no more."""

from __future__ import annotations

import pytest

from penstock.core.queue.overflow import PAGE, READ_BACK
from penstock.core.queue.overflow.policy import HOLD, REFUSE
from penstock.flow.level import Level
from tests.support.paging_broker import house_with, publish


@pytest.mark.parametrize(("full", "beyond"), [("block", HOLD), ("reject", REFUSE), ("drop-new", REFUSE)])
def test_page_asks_the_policy_for_a_full_disk_only_beyond_the_page_limit(full: str, beyond: int) -> None:
    house = house_with(page_limit_messages=2)
    queue = house.queues["q"]
    publish(house, 1, 5)
    assert PAGE[full].verdict(queue, 300) == HOLD
    assert PAGE[full].judge(queue, 1, 300, 300, Level(0, 0)) == HOLD
    publish(house, 6, 6)
    assert PAGE[full].verdict(queue, 300) == beyond
    assert PAGE[full].judge(queue, 1, 300, 300, Level(0, 0)) == beyond


def test_page_returns_refused_messages_where_the_policy_for_a_full_disk_does() -> None:
    assert {name: policy.returns_refused for name, policy in PAGE.items()} == {
        "block": False, "reject": True, "drop-new": False,
    }  # fmt: skip


def test_page_holds_new_messages_of_a_queue_that_pages_no_more() -> None:
    assert READ_BACK.verdict(house_with().queues["q"], 300) == HOLD
    assert not READ_BACK.pages
