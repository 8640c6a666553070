"""Neutral properties as those of AMQP 1.0 messages, as RabbitMQ 4 converts them.

The table in `wire.amqp10.neutral_properties`, read from the right to the left.
"""

from __future__ import annotations

from typing import Final

from penstock.content.death_entries import deaths_in
from penstock.content.names import BCC, CC
from penstock.content.properties import Properties
from penstock.wire.amqp10 import spec, values
from penstock.wire.amqp10.composite import Composite, composite, encode_composite
from penstock.wire.amqp10.death_annotations import DEATHS, annotation_of
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.malformed import CodecError
from penstock.wire.amqp10.message_rewriter import durable_header, header_octets
from penstock.wire.amqp10.neutral_properties import AMQP10_TYPE, COPIES, TYPE, URN
from penstock.wire.amqp10.neutral_values import to_amqp10
from penstock.wire.amqp10.node_addresses import to_reply_address
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.value_writer import encode_text, encode_value
from penstock.wire.amqp10.values import Described, Symbol, Typed, ulong

_JMS_BYTES: Final = frozenset({"x-opt-jms-dest", "x-opt-jms-reply-to", "x-opt-jms-msg-type"})
"""Annotations of JMS clients, whose values are a byte: Qpid JMS ignores other integers.

They tell queue, topic or temporary one of JMSDestination and JMSReplyTo, and the kind of message.
"""
_UINT_MAX: Final = (1 << 32) - 1
_INT64_MAX: Final = (1 << 63) - 1
_HEX: Final = frozenset("0123456789abcdefABCDEF")


def encode_message(properties: Properties, body: bytes) -> bytes:
    """Return a message with neutral properties. Raises CodecError."""
    own = properties.type == AMQP10_TYPE and is_body(body)
    return encode_head(properties) + (body if own else data_section(body))


def encode_head(properties: Properties, place: dict[str, object] | None = None) -> bytes:
    """Return the sections before the body of a message with neutral properties. Raises CodecError.

    `place` has fields of the properties section that no neutral property has: `to` and `subject`.
    """
    headers = properties.headers or {}
    parts = [_header_of(properties)]
    annotations = _annotations_from(properties, headers)
    if annotations:
        parts.append(_section(spec.MESSAGE_ANNOTATIONS, annotations))
    section = _properties_from(properties)
    if place:
        section.fields.update(place)
    if any(value is not None for value in section.fields.values()):
        parts.append(encode_composite(section))
    application: dict[object, object] = {
        name: to_amqp10(value)
        for name, value in headers.items()
        if not name.startswith("x-") and name != BCC and not isinstance(value, (list, dict))
    }
    if application:
        parts.append(_section(spec.APPLICATION_PROPERTIES, application))
    return b"".join(parts)


def _header_of(properties: Properties) -> bytes:
    if properties.priority is None and properties.expiration is None:
        return durable_header(properties.delivery_mode == 2)
    expiration = properties.expiration or ""
    ttl = int(expiration) if expiration.isascii() and expiration.isdecimal() and len(expiration) <= 10 else ABSENT
    return header_octets(
        properties.delivery_mode == 2,
        ABSENT if properties.priority is None else properties.priority,
        ttl if ttl <= _UINT_MAX else ABSENT,
    )


def _annotations_from(properties: Properties, headers: dict[str, object]) -> dict[object, object]:
    found: dict[object, object] = {}
    for name, value in headers.items():
        if name == "x-death":
            deaths = deaths_in(value)
            if deaths:
                found[Symbol(DEATHS)] = annotation_of(deaths, {})
        elif name == CC and isinstance(value, list):
            found[Symbol(COPIES)] = to_amqp10(value)
        elif name in _JMS_BYTES and isinstance(value, int) and -128 <= value < 128:
            found[Symbol(name)] = Typed(values.BYTE, value)
        elif name.startswith("x-") and name.isascii():
            found[Symbol(name)] = to_amqp10(value)
    if properties.type is not None:
        found[Symbol(TYPE)] = properties.type
    return found


def _properties_from(properties: Properties) -> Composite:
    created = properties.timestamp
    return composite(
        spec.PROPERTIES,
        message_id=_id_from(properties.message_id),
        user_id=None if properties.user_id is None else encode_text(properties.user_id),
        reply_to=None if properties.reply_to is None else to_reply_address(properties.reply_to),
        correlation_id=_id_from(properties.correlation_id),
        content_type=_ascii(properties.content_type),
        content_encoding=_ascii(properties.content_encoding),
        creation_time=created * 1000 if created is not None and created * 1000 <= _INT64_MAX else None,
        group_id=properties.app_id,
    )


def _id_from(text: str | None) -> object:
    """Return a message-id: a uuid from its URN, else a string."""
    if text is None or not text.startswith(URN) or len(text) != len(URN) + 36:
        return text
    digits = text[len(URN) :]
    if [len(part) for part in digits.split("-")] != [8, 4, 4, 4, 12] or not _HEX.issuperset(digits.replace("-", "")):
        return text
    return Typed(values.UUID, bytes.fromhex(digits.replace("-", "")))


def _ascii(text: str | None) -> str | None:
    return text if text is not None and text.isascii() else None


def _section(code: int, value: object) -> bytes:
    return encode_value(Described(ulong(code), value))


def data_section(body: bytes) -> bytes:
    """Return a body as one data section."""
    return _section(spec.DATA, body)


def is_body(octets: bytes) -> bool:
    """Tell whether octets are the body sections of a message and nothing else."""
    sections = Sections()
    try:
        sections.walk(octets, 0, len(octets))
    except CodecError:
        return False
    return sections.body_code != ABSENT and sections.body_at == 0 and sections.body_end == len(octets)
