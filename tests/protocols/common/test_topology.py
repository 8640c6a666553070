"""Queues that clients declare, purge and delete, whatever their protocol."""

from __future__ import annotations

import pytest

from penstock.errors import AccessRefused, PreconditionFailed, ResourceLocked
from penstock.protocols.common import topology
from tests.support.driven_connection import Dialogue, make_driver, publish


def test_exclusive_queue_is_not_durable_and_ends_with_its_connection() -> None:
    client = Dialogue(make_driver())
    connection, vhost = client.connection, client.vhost
    queue = topology.declare_queue(connection, vhost, "q", {}, True, False, True)
    assert (queue.owner, queue.durable, len(connection.exclusive)) == (connection, False, 1)
    other = Dialogue(client.driver).connection
    with pytest.raises(ResourceLocked):
        topology.delete_queue(other, vhost, "q")
    assert topology.delete_queue(connection, vhost, "q") == 0
    assert len(connection.exclusive) == 0


def test_messages_that_are_purged_or_deleted_are_counted() -> None:
    client = Dialogue(make_driver())
    connection, vhost = client.connection, client.vhost
    queue = topology.declare_queue(connection, vhost, "q", {}, False, False, False)
    client.say(publish("q", b"x") * 2)
    assert topology.purge_queue(connection, vhost, queue) == 2
    client.say(publish("q", b"x"))
    with pytest.raises(PreconditionFailed):
        topology.delete_queue(connection, vhost, "q", if_empty=True)
    assert topology.delete_queue(connection, vhost, "q") == 1
    assert topology.delete_queue(connection, vhost, "q") == 0


def test_reserved_names_are_refused() -> None:
    topology.check_not_reserved("amqp")
    with pytest.raises(AccessRefused):
        topology.check_not_reserved("amq.mine")
