"""Queues that clients declare, purge and delete, over any protocol."""

from __future__ import annotations

import pytest

from penstock.connections import topology
from penstock.errors import AccessRefused, PreconditionFailed, ResourceLocked
from penstock.settings.without_effect import DISPLACED, OF_CONSUMERS, PAGED_PRIORITIES, SINGLE_ACTIVE
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver, publish
from tests.support.restored_broker import journaled


def test_exclusive_queue_is_not_durable_and_ends_with_the_connection() -> None:
    client = Dialogue(make_driver())
    connection, vhost = client.connection, client.vhost
    asker = topology.asker_of(connection)
    queue = topology.declare_queue(asker, vhost, "q", {}, True, False, True)
    assert (queue.owner, queue.durable, len(connection.exclusive)) == (connection, False, 1)
    other = topology.asker_of(Dialogue(client.driver).connection)
    with pytest.raises(ResourceLocked):
        topology.delete_queue(other, vhost, "q")
    assert topology.delete_queue(asker, vhost, "q") == 0
    assert len(connection.exclusive) == 0


def test_messages_that_are_purged_or_deleted_are_counted() -> None:
    client = Dialogue(make_driver())
    asker, vhost = topology.asker_of(client.connection), client.vhost
    topology.declare_queue(asker, vhost, "q", {}, False, False, False)
    client.say(publish("q", b"x") * 2)
    assert topology.purge_queue(asker, vhost, "q") == 2
    client.say(publish("q", b"x"))
    with pytest.raises(PreconditionFailed):
        topology.delete_queue(asker, vhost, "q", if_empty=True)
    assert topology.delete_queue(asker, vhost, "q") == 1
    assert topology.delete_queue(asker, vhost, "q") is None


def test_reserved_names_are_refused() -> None:
    topology.check_not_reserved("amqp")
    with pytest.raises(AccessRefused):
        topology.check_not_reserved("amq.mine")


DECLARED: dict[str, tuple[dict[str, object], bool]] = {
    "argument x-queue-mode of a queue has no effect: queues are stored in one way": ({"x-queue-mode": "lazy"}, False),
    PAGED_PRIORITIES.format("quorum"): ({"x-queue-type": "quorum", "x-overflow": "page"}, True),
    DISPLACED: ({"x-dead-letter-strategy": "at-least-once", "x-max-length": 5}, False),
}


@pytest.mark.parametrize("sentence", DECLARED)
def test_declaration_with_something_without_effect_is_logged_once(sentence: str) -> None:
    driver = journaled()
    arguments, durable = DECLARED[sentence]
    connection = Dialogue(driver).connection
    driver.log_queue.take()
    for name in ("a", "b"):
        topology.declare_queue(topology.asker_of(connection), driver.broker.vhosts["/"], name, arguments, durable)
    assert [line.text for line in driver.log_queue.take() if "effect" in line.text] == [sentence]


def test_declaration_of_a_quorum_queue_in_memory_is_not_logged() -> None:
    driver = make_driver()
    asker = topology.asker_of(Dialogue(driver).connection)
    topology.declare_queue(asker, driver.broker.vhosts["/"], "q", {"x-queue-type": "quorum"}, True)
    assert [line.text for line in driver.log_queue.take() if "effect" in line.text] == []


def test_consumer_argument_without_effect_is_logged_once() -> None:
    driver = make_driver()
    peer = Dialogue(driver).declare("q", **{"x-single-active-consumer": True})
    driver.log_queue.take()
    for tag in ("a", "b"):
        arguments = {"x-priority": 5, "x-stream-offset": "first"}
        peer.names(method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag=tag, arguments=arguments))
    lines = [line.text for line in driver.log_queue.take() if "effect" in line.text]
    named = f"argument x-stream-offset of a consumer has no effect: {OF_CONSUMERS['x-stream-offset']}"
    assert lines == [named, SINGLE_ACTIVE.format("classic")]
