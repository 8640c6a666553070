"""Outgoing links: credit, drain, and what is left unsettled at the end."""

from __future__ import annotations

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, data_section, performative


def receiver(messages: int, credit: int, **fields: object) -> tuple[Amqp10Dialogue, list[Heard]]:
    client = Amqp10Dialogue()
    client.declare("q")
    client.attach_sender("/queues/q")
    client.say(*(client.transfer(data_section(bytes([n]))) for n in range(messages)))
    heard = client.attach_receiver("/queues/q", credit=credit, **fields)
    return client, [each for each in heard if each.name == "transfer"]


def test_nothing_is_sent_beyond_the_credit() -> None:
    client, sent = receiver(10, 4)
    assert len(sent) == 4
    assert len(client.flow(1, 2, delivery_count=4)) == 2
    assert client.flow(1, 2, delivery_count=4) == []


def test_drain_uses_the_credit_or_gives_it_up() -> None:
    client, _sent = receiver(3, 0)
    *transfers, flow = client.flow(1, 10, drain=True)
    assert flow.field("drain"), "rhea and go-amqp wait for a flow that says drain"
    assert len(transfers) == 3
    assert (flow.name, flow.field("delivery_count"), flow.field("link_credit")) == ("flow", 10, 0)


def test_settled_mode_takes_messages_at_once() -> None:
    client, sent = receiver(5, 5, snd_settle_mode=1)
    assert [each.field("settled") for each in sent] == [True] * 5
    assert client.depth("q") == 0


def test_unsettled_messages_of_a_closed_link_get_the_default_outcome() -> None:
    source = composite(spec.SOURCE, address="/queues/q", default_outcome=composite(spec.ACCEPTED))
    client, _sent = receiver(5, 5, source=source)
    client.settle(1, 1, composite(spec.RELEASED))
    client.say(performative(spec.DETACH, handle=1, closed=True))
    assert client.depth("q") == 1
