"""Commits that an overflow policy judges: with their settlements done, and without a change."""

from __future__ import annotations

import pytest

from penstock.core.publish.commit_delta import QueueDelta
from tests.support.broker_fixture import House


@pytest.mark.parametrize(("overflow", "settled", "refused"), [
    ("drop-head", 0, True), ("drop-head", 1, False), ("ring-strict", 1, True), ("ring-strict", 2, False),
])  # fmt: skip
def test_commit_is_judged_after_the_settlements_and_the_judgement_changes_nothing(
    overflow: str, settled: int, refused: bool
) -> None:
    house = House("a", capacity_messages=2, overflow=overflow)
    queue = house.vhost.queues["a"]
    house.publish_now("a", 100, count=2)
    for _ in range(2):
        assert house.session.get(queue, False, 100.0) is not None
    delta = QueueDelta(queue)
    for _ in range(settled):
        delta.settle(100, frees=False)  # It is put back, and could be dropped then.
    delta.bring(100, b"")
    before = (int(queue.unacked_messages), int(queue.unacked_bytes), int(queue.messages), queue.available())
    assert (delta.refusing(100.0) is not None) is refused
    assert (int(queue.unacked_messages), int(queue.unacked_bytes), int(queue.messages), queue.available()) == before
