"""Links: detach from both sides."""

from __future__ import annotations

from penstock.wire.amqp10 import spec
from tests.support.amqp10_dialogue import Amqp10Dialogue, condition, performative


def test_detach_is_answered_and_the_handle_is_free_again() -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    for _ in range(2):
        client.attach_receiver("/queues/q", 5)
        (detached,) = client.say(performative(spec.DETACH, handle=5, closed=True))
        assert (detached.name, detached.field("closed"), detached.field("error")) == ("detach", True, None)


def test_handle_of_a_link_is_refused_to_another() -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    client.attach_receiver("/queues/q", 5)
    (ended,) = client.attach_receiver("/queues/q", 5, name="another")
    assert (ended.name, condition(ended)) == ("end", "amqp:session:handle-in-use")


def test_deletion_of_the_queue_detaches_its_receivers() -> None:
    client = Amqp10Dialogue()
    client.declare("q")
    client.attach_receiver("/queues/q", 5)
    client.driver.broker.delete_queue(client.driver.broker.vhosts["/"].queues["q"])
    (detached,) = client.listen()
    assert (detached.name, condition(detached)) == ("detach", "amqp:resource-deleted")
    assert client.say(performative(spec.DETACH, handle=5, closed=True)) == []
