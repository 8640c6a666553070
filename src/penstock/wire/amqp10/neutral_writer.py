"""Writing of AMQP 1.0 messages with neutral properties, headers and deaths, as in RabbitMQ 4."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter

from penstock.content.death_entries import deaths_in
from penstock.content.properties import BCC, CC, Properties
from penstock.wire.amqp10 import spec, values
from penstock.wire.amqp10.composite import write_list
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.neutral_addresses import HEX_DIGITS, to_reply_address
from penstock.wire.amqp10.neutral_deaths import DEATHS, annotation_of
from penstock.wire.amqp10.neutral_values import AMQP10_TYPE, COPIES, TYPE, URN, to_amqp10
from penstock.wire.amqp10.sections import Sections, durable_header, header_octets
from penstock.wire.amqp10.value_walk import NULL
from penstock.wire.amqp10.value_writer import encode_text, encode_value, write_value
from penstock.wire.amqp10.values import CodecError, Symbol, Typed, timestamp

_JMS_BYTES: Final = frozenset({"x-opt-jms-dest", "x-opt-jms-reply-to", "x-opt-jms-msg-type"})
"""Annotations of JMS clients, whose values are a byte: Qpid JMS ignores other integers.

The values distinguish queues, topics and temporary ones in JMSDestination and JMSReplyTo, and the kind of message.
"""
_UINT_MAX: Final = (1 << 32) - 1
_INT64_MAX: Final = (1 << 63) - 1


ANNOTATIONS_START: Final = bytes((0x00, 0x53, spec.MESSAGE_ANNOTATIONS))
PROPERTIES_START: Final = bytes((0x00, 0x53, spec.PROPERTIES))
APPLICATION_START: Final = bytes((0x00, 0x53, spec.APPLICATION_PROPERTIES))
DATA_START: Final = bytes((0x00, 0x53, spec.DATA))
"""Beginnings of sections, before their values."""


def encode_message(properties: Properties, body: bytes) -> bytes:
    """Return a message with neutral properties. Raises CodecError."""
    own = properties.type == AMQP10_TYPE and is_body(body)
    return encode_head(properties) + (body if own else data_section(body))


def encode_head(properties: Properties, place: dict[str, object] | None = None) -> bytes:
    """Return the sections before the body of a message with neutral properties. Raises CodecError.

    `place` has fields of the properties section without a neutral property (`to` and `subject`), and `reply_to`.
    """
    out = BytesWriter()
    out.write(_header_of(properties))
    headers = properties.headers
    annotations = _annotations_from(properties, headers)
    if annotations:
        out.write(ANNOTATIONS_START)
        write_value(out, annotations)
    _write_properties(out, properties, place or {})
    if headers is not None:
        application: dict[object, object] = {
            name: to_amqp10(value)
            for name, value in headers.items()
            if not name.startswith("x-") and name != BCC and not isinstance(value, (list, dict))
        }
        if application:
            out.write(APPLICATION_START)
            write_value(out, application)
    return out.getvalue()


def _write_properties(out: BytesWriter, properties: Properties, place: dict[str, object]) -> None:
    """Append the properties section without its absent last fields; nothing if all are absent."""
    created = properties.timestamp
    reply_to = None if properties.reply_to is None else to_reply_address(properties.reply_to)
    fields: list[object] = [
        _id_from(properties.message_id),
        None if properties.user_id is None else encode_text(properties.user_id),
        place.get("to"),
        place.get("subject"),
        place.get("reply_to", reply_to),
        _id_from(properties.correlation_id),
        _symbol(properties.content_type),
        _symbol(properties.content_encoding),
        None,
        timestamp(created * 1000) if created is not None and created * 1000 <= _INT64_MAX else None,
        properties.app_id,
    ]
    content = BytesWriter()
    count = end = 0
    for place_in_list, value in enumerate(fields):
        if value is None:
            content.append(NULL)
        else:
            write_value(content, value)
            count, end = place_in_list + 1, len(content)
    if count:
        out.write(PROPERTIES_START)
        write_list(out, count, content.getvalue()[:end])


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


def _annotations_from(properties: Properties, headers: dict[str, object] | None) -> dict[object, object]:
    annotations: dict[object, object] = {}
    for name, value in (headers or {}).items():
        if name == CC and isinstance(value, list):
            annotations[Symbol(COPIES)] = to_amqp10(value)
        elif not name.startswith("x-"):
            continue
        elif name == "x-death":
            deaths = deaths_in(value)
            if deaths:
                annotations[Symbol(DEATHS)] = annotation_of(deaths, {})
        elif name in _JMS_BYTES and isinstance(value, int) and -128 <= value < 128:
            annotations[Symbol(name)] = Typed(values.BYTE, value)
        elif name.isascii():
            annotations[Symbol(name)] = to_amqp10(value)
    if properties.type is not None:
        annotations[Symbol(TYPE)] = properties.type
    return annotations


def _id_from(text: str | None) -> object:
    """Return a message-id: a uuid from its URN, otherwise a string."""
    if text is None or not text.startswith(URN) or len(text) != len(URN) + 36:
        return text
    parts = text[len(URN) :].split("-")
    digits = "".join(parts)
    if [len(part) for part in parts] != [8, 4, 4, 4, 12] or not HEX_DIGITS.issuperset(digits):
        return text
    return Typed(values.UUID, bytes.fromhex(digits))


def _symbol(text: str | None) -> Symbol | None:
    return Symbol(text) if text is not None and text.isascii() else None


def data_section(body: bytes) -> bytes:
    """Return a body as one data section."""
    return DATA_START + encode_value(body)


def is_body(octets: bytes) -> bool:
    """Return whether bytes are exactly the body sections of a message."""
    sections = Sections()
    try:
        sections.walk(octets, 0, len(octets))
    except CodecError:
        return False
    return sections.body_code != ABSENT and sections.body_at == 0 and sections.body_end == len(octets)
