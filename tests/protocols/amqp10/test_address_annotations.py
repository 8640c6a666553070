"""Annotations that tell a consumer of AMQP 1.0 the exchange and routing key of a message."""

from __future__ import annotations

import pytest

from penstock.core.message import Envelope
from penstock.protocols.amqp10.address_annotations import annotations_octets
from penstock.wire.amqp091 import spec as spec091
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.values import Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, data_section
from tests.support.amqp10_messages import decode_message, delivered
from tests.support.amqp10_strategies import section
from tests.support.driven_connection import Dialogue, methods, publish

BODY = data_section(b"hello")
ADDRESS = {"x-exchange": "amq.direct", "x-routing-key": "k"}


def sent(*messages: bytes) -> list[bytes]:
    """Return what a receiver gets of messages that were sent to amq.direct with the key k."""
    client = Amqp10Dialogue()
    client.declare("q")
    vhost = client.driver.broker.vhosts["/"]
    vhost.bind("amq.direct", vhost.queues["q"], None, "k", {})
    client.attach_sender("/exchanges/amq.direct/k")
    client.say(*[client.transfer(message) for message in messages])
    return delivered(client.attach_receiver("/queues/q", credit=len(messages)))


def test_constant_octets_follow_the_header_where_a_message_has_no_annotations() -> None:
    for message in sent(BODY, BODY):
        assert message.endswith(annotations_octets(Envelope("amq.direct", "k")) + BODY)
        assert decode_message(message).annotations == ADDRESS


def test_octets_of_an_envelope_are_cached() -> None:
    envelope = Envelope("", "q")
    assert annotations_octets(envelope) is annotations_octets(envelope.variant(1, 5.0, True))


@pytest.mark.parametrize(
    "before", [b"", encode(spec.HEADER, priority=3), section(spec.DELIVERY_ANNOTATIONS, {Symbol("x-hop"): 1})]
)
def test_annotations_of_a_message_are_merged(before: bytes) -> None:
    own = {Symbol("x-mine"): "a", Symbol("x-exchange"): "another"}
    (message,) = sent(before + section(spec.MESSAGE_ANNOTATIONS, own) + BODY)
    assert decode_message(message).annotations == {"x-mine": "a", **ADDRESS}
    assert message.endswith(BODY)


def test_message_of_amqp_0_9_1_has_them_too() -> None:
    client = Amqp10Dialogue()
    other = Dialogue(client.driver)
    other.declare("q")
    other.say(publish("q", b"hello"))
    (message,) = delivered(client.attach_receiver("/queues/q", credit=1))
    assert decode_message(message).annotations == {"x-exchange": "", "x-routing-key": "q"}


def test_envelope_that_both_protocols_deliver_has_octets_of_each() -> None:
    client = Amqp10Dialogue()
    other = Dialogue(client.driver)
    other.declare("a")
    vhost = client.driver.broker.vhosts["/"]
    vhost.declare_queue("b", {}, False, False, None, None)
    for queue in ("a", "b"):
        vhost.bind("amq.fanout", vhost.queues[queue], None, "", {})
    other.say(publish("", b"hello", exchange="amq.fanout"))
    (got,) = methods(other.say(method_frame(1, spec091.BASIC_GET, queue="a", no_ack=True)))
    assert got.args["exchange"] == "amq.fanout"
    (message,) = delivered(client.attach_receiver("/queues/b", credit=1))
    assert decode_message(message).annotations == {"x-exchange": "amq.fanout", "x-routing-key": ""}
