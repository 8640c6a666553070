"""Annotations x-exchange and x-routing-key, which RabbitMQ 4 adds to each message that it delivers.

They tell a consumer of AMQP 1.0 what `basic.deliver` tells one of AMQP 0-9-1. What a sender wrote there is replaced.
"""

from __future__ import annotations

from typing import Final

from penstock.core.message import Envelope
from penstock.protocols.amqp10.message_format import FIRST_OCTET
from penstock.wire.amqp10.message_rewriter import with_annotations
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.spec import MESSAGE_ANNOTATIONS
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol, ulong

EXCHANGE: Final = "x-exchange"
ROUTING_KEY: Final = "x-routing-key"


def annotations_octets(envelope: Envelope) -> bytes:
    """Return the annotations of a message that has no others as a section, cached with its envelope."""
    entry = envelope.encoded.entry(FIRST_OCTET)
    if not entry.encoded:
        annotations: dict[object, object] = {
            Symbol(EXCHANGE): envelope.exchange,
            Symbol(ROUTING_KEY): envelope.routing_key,
        }
        entry.encoded = encode_value(Described(ulong(MESSAGE_ANNOTATIONS), annotations))
    return entry.encoded


def with_address(content: bytes, sections: Sections, envelope: Envelope) -> bytes:
    """Return a message that has annotations, with those of its address among them. Raises CodecError."""
    added: dict[str, object] = {EXCHANGE: envelope.exchange, ROUTING_KEY: envelope.routing_key}
    return with_annotations(content, sections, added)
