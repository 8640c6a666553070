"""The overflow policies that are more than block, reject and drop-head (those are in the stateful test)."""

from __future__ import annotations

import pytest

from penstock.core.publish.commit_delta import QueueDelta
from tests.support.broker_fixture import House, told


def test_ring_strict_refuses_while_a_message_is_with_a_consumer() -> None:
    house = House()
    house.queue("a", capacity_messages=2, overflow="ring-strict")
    producer = house.producer("p")
    for _ in range(3):
        house.publish(producer, "a", 100)
    assert told(producer) == [(1, 3, True)]
    assert int(house.vhost.queues["a"].counters.dropped) == 1
    assert house.session.get(house.vhost.queues["a"], False, 100.0) is not None
    house.publish(producer, "a", 100)
    assert told(producer) == [(4, 4, False)]
    house.session.acknowledge(1, False, 100.0)
    house.publish(producer, "a", 100)
    assert told(producer) == [(5, 5, True)]


def test_drop_new_refuses_the_newest_and_never_confirms_it() -> None:
    house = House()
    house.queue("a", capacity_messages=2, overflow="drop-new")
    producer = house.producer("p")
    for _ in range(3):
        house.publish(producer, "a", 100)
    assert told(producer) == [(3, 3, False), (1, 2, True)]
    assert int(house.vhost.queues["a"].counters.refused) == 1


def test_self_destruct_deletes_the_queue_that_would_be_overrun() -> None:
    house = House()
    house.queue("a", capacity_messages=2, overflow="self-destruct")
    producer = house.producer("p")
    for _ in range(3):
        house.publish(producer, "a", 100)
    assert told(producer) == [(3, 3, False), (1, 2, True)]
    assert "a" not in house.vhost.queues


@pytest.mark.parametrize(("overflow", "settled", "refused"), [
    ("drop-head", 0, True), ("drop-head", 1, False), ("ring-strict", 1, True), ("ring-strict", 2, False),
])  # fmt: skip
def test_a_commit_is_judged_with_its_settlements_done_and_the_question_changes_nothing(
    overflow: str, settled: int, refused: bool
) -> None:
    house = House()
    house.queue("a", capacity_messages=2, overflow=overflow)
    queue = house.vhost.queues["a"]
    for _ in range(2):
        house.publish_now("a", 100)
    for _ in range(2):
        assert house.session.get(queue, False, 100.0) is not None
    delta = QueueDelta(queue)
    for _ in range(settled):
        delta.settle(100, frees=False)  # It is put back, and could be dropped then.
    delta.bring(100, b"")
    before = (int(queue.unacked_messages), int(queue.unacked_bytes), int(queue.messages), queue.available())
    assert delta.refused(100.0) is refused
    assert (int(queue.unacked_messages), int(queue.unacked_bytes), int(queue.messages), queue.available()) == before
