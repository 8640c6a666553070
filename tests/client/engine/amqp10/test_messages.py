"""Messages of AMQP 1.0 as deliveries; `tests/wire/amqp10/test_neutral_reader.py` has the properties."""

from __future__ import annotations

import pytest

from penstock.client.engine.amqp10.connection import Engine10
from penstock.client.engine.amqp10.receiver import other_body
from penstock.client.engine.receiver import Delivery
from penstock.client.engine.terms import ConnectionTerms, ReceiverTerms
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.sections import Sections, joined_data
from penstock.wire.amqp10.values import CodecError, Symbol
from tests.support.amqp10_strategies import section

FRESH = encode(spec.HEADER, first_acquirer=True)
RECEIVER = Engine10(ConnectionTerms()).new_receiver(ReceiverTerms())


def delivery_of(message: bytes) -> Delivery:
    """Return a message as a receiver hands it over. Raises CodecError unless it is one."""
    sections = Sections()
    sections.walk(message, 0, len(message))
    body = joined_data(message, sections) if sections.body_code == spec.DATA else other_body(message, sections)
    return Delivery(RECEIVER, 1, 0, body, message, b"")


@pytest.mark.parametrize(
    ("sections", "body"),
    [
        (section(spec.DATA, b"one"), b"one"),
        (section(spec.DATA, b"one, ") + section(spec.DATA, b"two"), b"one, two"),
        (section(spec.AMQP_VALUE, "ü"), "ü".encode()),
        (section(spec.AMQP_VALUE, "u" * 300) + section(spec.FOOTER, {}), b"u" * 300),
        (section(spec.AMQP_VALUE, b"\xff\x00"), b"\xff\x00"),
        (section(spec.AMQP_VALUE, b"\xff" * 300), b"\xff" * 300),
        (section(spec.AMQP_VALUE, Symbol("s")), b"s"),
        (section(spec.AMQP_VALUE, 5), section(spec.AMQP_VALUE, 5)),
        (section(spec.AMQP_VALUE, None), section(spec.AMQP_VALUE, None)),
        (2 * section(spec.AMQP_SEQUENCE, [1, "a"]), 2 * section(spec.AMQP_SEQUENCE, [1, "a"])),
        (section(spec.PROPERTIES, []), b""),
    ],
)
def test_body(sections: bytes, body: bytes) -> None:
    delivery = delivery_of(FRESH + sections)
    assert delivery.body == body
    data = sections.startswith((section(spec.DATA, b"one")[:3], section(spec.PROPERTIES, [])[:3]))
    assert delivery.properties.type == (None if data else "amqp-1.0")


def test_routing_is_in_annotations_or_in_the_subject() -> None:
    annotations = section(spec.MESSAGE_ANNOTATIONS, {Symbol("x-exchange"): "e", Symbol("x-routing-key"): "k"})
    properties = encode(spec.PROPERTIES, subject="s", message_id="m")
    body = section(spec.DATA, b"")
    for parts, exchange, key in ((annotations + properties, "e", "k"), (properties, "", "s"), (b"", "", "")):
        delivery = delivery_of(parts + body)
        assert (delivery.exchange, delivery.routing_key) == (exchange, key)
        assert delivery.properties.message_id == ("m" if parts else None)
        assert not delivery.properties.headers


@pytest.mark.parametrize(
    ("header", "redelivered"),
    [
        (FRESH, False),
        (encode(spec.HEADER, first_acquirer=True, delivery_count=1), True),
        (encode(spec.HEADER, durable=True), True),
        (b"", True),
    ],
)
def test_message_that_may_have_been_acquired_counts_as_redelivered(header: bytes, redelivered: bool) -> None:
    assert delivery_of(header + section(spec.DATA, b"x")).redelivered is redelivered


@pytest.mark.parametrize("message", [b"", b"text", section(spec.DATA, b"x") + section(spec.PROPERTIES, [])])
def test_bytes_of_no_message_raise_codec_error(message: bytes) -> None:
    with pytest.raises(CodecError):
        delivery_of(message)
