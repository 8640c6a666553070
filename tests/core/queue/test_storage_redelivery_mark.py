"""The redelivery mark: which deliveries wait until the store knows of them."""

from __future__ import annotations

import pytest

from penstock.core.consume.outcome import Outcome
from tests.support.paging_broker import house_with, numbered, publish


@pytest.mark.parametrize("persistent", [True, False])
def test_delivery_is_announced_if_the_message_can_come_back_after_a_kill(persistent: bool) -> None:
    house = house_with()
    publish(house, 1, 12, persistent=persistent)
    house.settle()
    assert house.drain("q")[:4] == numbered(1, 4)
    publish(house, 13, 24, persistent=persistent)
    house.settle()
    for _ in range(4):
        assert house.get("q") is not None
    house.settle()
    batch = house.session.get(house.queues["q"], True, house.now)
    assert batch.messages[0] is not None
    assert batch.messages[0].content == b"17"
    assert batch.waits_for_disk is persistent


def test_second_delivery_waits_until_the_store_knows_of_the_first() -> None:
    """The first may never go out, for its client is gone; of the second an acknowledgement may be lost in a kill."""
    house = house_with(messages=1)
    house.write()

    def is_early() -> bool:
        batch = house.session.get(house.queues["q"], False, house.now)
        house.session.unsettled.settle_tag(batch.first, False, Outcome.FAILED, house.now)
        return batch.waits_for_disk

    assert is_early()
    assert is_early()
    house.write()
    assert not is_early()
