"""The overflow policy `page`, and the one of a queue that pages no more."""

from __future__ import annotations

import pytest

from penstock.core.queue.overflow import PAGE, READ_BACK
from penstock.core.queue.overflow.policy import HOLD, REFUSE
from penstock.flow.level import Level
from tests.support.paging_broker import house_with, publish


@pytest.mark.parametrize(("full", "beyond"), [("block", HOLD), ("reject", REFUSE), ("drop-new", REFUSE)])
def test_page_asks_the_policy_for_a_full_disk_only_beyond_the_page_limit(full: str, beyond: int) -> None:
    house = house_with(page_limit_messages=2, page_full_policy=full)
    queue = house.queues["q"]
    publish(house, 1, 5)
    assert (queue.verdict(1, 300, 300), queue.verdict(1, 300, 300, 1, 300)) == (HOLD, HOLD)
    publish(house, 6, 6)
    assert (queue.verdict(1, 300, 300), queue.verdict(1, 300, 300, 1, 300)) == (beyond, beyond)


def test_page_returns_refused_messages_where_the_policy_for_a_full_disk_does() -> None:
    assert {name: policy.returns_refused for name, policy in PAGE.items()} == {
        "block": False, "reject": True, "drop-new": False,
    }  # fmt: skip


def test_page_holds_new_messages_of_a_queue_that_pages_no_more() -> None:
    assert READ_BACK.judge(Level(9, 900), 0, 1, 300) == HOLD
    assert not READ_BACK.pages
