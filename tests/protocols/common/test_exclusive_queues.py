"""Exclusive queues of a connection: those that were deleted are forgotten before it ends."""

from __future__ import annotations

from penstock.protocols.common.exclusive_queues import DELETED_KEPT, ExclusiveQueues
from tests.support.driven_connection import Dialogue, make_driver


def test_deleted_queues_are_forgotten_while_others_stay() -> None:
    client = Dialogue(make_driver())
    connection, broker = client.connection, client.driver.broker
    exclusive = ExclusiveQueues()
    for number in range(3 * DELETED_KEPT):
        queue = broker.vhosts["/"].declare_queue(f"own{number}", {}, False, False, connection, connection)
        exclusive.add(queue)
        if number % 3:
            broker.delete_queue(queue)
    assert len(exclusive) <= 3 * DELETED_KEPT - DELETED_KEPT // 2
    left = [queue for queue in iter(exclusive.take, None) if not queue.deleted]
    assert len(left) == DELETED_KEPT
    assert exclusive.take() is None


def test_removed_queue_is_not_taken() -> None:
    client = Dialogue(make_driver())
    connection = client.connection
    exclusive = ExclusiveQueues()
    exclusive.add(client.driver.broker.vhosts["/"].declare_queue("own", {}, False, False, connection, connection))
    exclusive.remove("own")
    exclusive.remove("another")
    assert exclusive.take() is None
