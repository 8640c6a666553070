"""Senders of AMQP 1.0 whose queue or exchange is deleted."""

from __future__ import annotations

import pytest

from penstock.core.publish.attached_senders import SendersTeardown
from penstock.core.publish.waiting_publisher import ProducerState
from penstock.core.teardown import NOTIFY_WORK
from penstock.protocols.amqp10.incoming_link import IncomingLink
from penstock.wire.amqp10 import spec
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, condition, data_section, names, performative, sender


def delete_queue(client: Amqp10Dialogue, name: str = "q") -> list[Heard]:
    client.driver.broker.delete_queue(client.vhost.queues[name])
    return client.listen()


@pytest.mark.parametrize("settled", [False, True])
def test_sender_is_detached_when_the_queue_is_deleted(settled: bool) -> None:
    client = Amqp10Dialogue().declare("q", capacity_messages=100)
    client.declare("other")
    client.attach_sender("/queues/q")
    client.attach_sender("/queues/other", 1)
    client.say(client.transfer(data_section(b"x"), settled=settled))
    (detached,) = delete_queue(client)
    assert (detached.name, detached.field("closed"), condition(detached)) == ("detach", True, "amqp:resource-deleted")
    assert "queue 'q' was deleted" in str(detached.field("error"))
    client.grants.clear()
    assert client.say(client.transfer(data_section(b"y"), settled=settled)) == []
    assert client.grants == {}, "it gets no credit"
    assert names(client.say(client.transfer(data_section(b"z"), handle=1))) == ["disposition"]
    assert client.depth("other") == 1


@pytest.mark.parametrize("address", ["/exchanges/e", "/exchanges/e/key", "e"])
def test_sender_is_detached_when_the_exchange_is_deleted(address: str) -> None:
    client = Amqp10Dialogue()
    client.vhost.declare_exchange("e", "topic", {}, False, False, False)
    client.attach_sender(address)
    client.vhost.delete_exchange("e", False)
    (detached,) = client.listen()
    assert (detached.name, condition(detached)) == ("detach", "amqp:resource-deleted")
    assert "exchange 'e' was deleted" in str(detached.field("error"))


def test_deletion_of_a_queue_behind_an_exchange_detaches_no_sender() -> None:
    client = Amqp10Dialogue().declare("q")
    client.vhost.bind("amq.fanout", client.vhost.queues["q"], None, "", {})
    client.attach_sender("/exchanges/amq.fanout")
    client.attach_sender(None, 1)
    assert delete_queue(client) == []


def test_queue_of_the_same_name_has_separate_senders() -> None:
    client = sender()
    client.driver.broker.delete_queue(client.vhost.queues["q"])
    client.declare("q")
    (detached,) = client.listen()
    client.detach(0)
    client.attach_sender("/queues/q")
    assert names(client.say(client.transfer(data_section(b"x")))) == ["disposition"]
    assert condition(delete_queue(client)[0]) == condition(detached) == "amqp:resource-deleted"


def test_outcome_that_was_withheld_comes_before_the_detach() -> None:
    client = sender(stop_messages=2, resume_messages=1)
    client.put(*[b"x"] * 4)
    assert not client.vhost.queues["q"].gate.open
    heard = delete_queue(client)
    assert names(heard) == ["disposition", "detach"]
    assert heard[0].field("last") == 3


@pytest.mark.parametrize("ending", [performative(spec.DETACH, handle=0, closed=True), performative(spec.END)])
def test_sender_that_has_ended_is_forgotten(ending: bytes) -> None:
    client = sender()
    assert client.vhost.senders.count() == 1
    client.say(ending)
    assert client.vhost.senders.count() == 0


def test_senders_of_a_deleted_queue_are_closed_in_slices() -> None:
    client = Amqp10Dialogue().declare("q")
    for handle in range(5):
        client.attach_sender("/queues/q", handle)
    links = client.session().links.by_handle.values()
    producers = [link.producer for link in links if isinstance(link, IncomingLink)]
    ending = SendersTeardown(("queue", "q"), producers)
    assert ending.work(2 * NOTIFY_WORK, 0.0) == 2 * NOTIFY_WORK
    assert [producer.state is ProducerState.OPEN for producer in producers] == [False, False, True, True, True]
    while ending.has_more():
        ending.work(NOTIFY_WORK, 0.0)
    assert names(client.listen()) == ["detach"] * 5


def test_first_senders_of_a_queue_are_counted_and_cut() -> None:
    client = Amqp10Dialogue().declare("q")
    for handle in range(3):
        client.attach_sender("/queues/q", handle)
    senders, count = client.vhost.senders.first_at(("queue", "q"), 2)
    assert (len(senders), count) == (2, 3)
    assert client.vhost.senders.first_at(("queue", "none"), 2) == ([], 0)
