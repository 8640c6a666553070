"""Properties of AMQP 1.0 messages as neutral properties, and back, as RabbitMQ 4 converts them.

| AMQP 1.0 | neutral |
|---|---|
| header durable; absent | delivery_mode 2 or 1; 2 |
| header priority, ttl | priority, expiration |
| message-id, correlation-id: string to 255 octets, ulong, uuid | the same text, decimal text, `urn:uuid:` text |
| the same: binary, longer strings | headers x-message-id, x-correlation-id |
| user-id, content-type, content-encoding, group-id | user_id, content_type, content_encoding, app_id |
| reply-to `/queues/q` | reply_to `q`, percent-decoded; other addresses as they are |
| creation-time in milliseconds | timestamp in seconds |
| annotation x-basic-type; body of amqp-value or amqp-sequence | type; type `amqp-1.0` |
| application-properties | headers without `x-`; arrays and tables do not cross back |
| annotations x-opt-jms-dest, x-opt-jms-reply-to, x-opt-jms-msg-type: byte | headers of these names: number, and back |
| annotations x-...; x-cc; x-opt-deaths; x-opt-rabbitmq-received-time | headers x-...; CC; x-death; timestamp_in_ms |
| annotations traceparent, tracestate, baggage | headers of these names, unless an application property is there |

The routing key is the envelope's: neither `to` nor `subject` has a neutral property. Other annotations, the footer,
absolute-expiry-time, group-sequence and reply-to-group-id do not cross.
"""

from __future__ import annotations

from typing import Final

from penstock.content.names import is_name
from penstock.content.properties import Properties
from penstock.content.trace_context import TRACE_HEADERS
from penstock.core.death_headers import deaths_in
from penstock.core.message_format import CC
from penstock.core.routing.copies import BCC
from penstock.protocols.amqp10.addresses import to_reply_address, to_reply_queue
from penstock.protocols.amqp10.death_annotations import DEATHS, annotation_of, entries_in
from penstock.protocols.amqp10.neutral_values import neutral_table, to_amqp10, to_neutral, uuid_text
from penstock.wire.amqp10 import spec, values
from penstock.wire.amqp10.composite import Composite, composite, decode_composite, encode_composite
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.malformed import CodecError
from penstock.wire.amqp10.message_rewriter import durable_header, header_octets
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.value_writer import encode_text, encode_value
from penstock.wire.amqp10.values import Described, Symbol, Typed, ulong

AMQP10_TYPE: Final = "amqp-1.0"
"""Type of a neutral message whose body is in AMQP encoding."""
TYPE: Final = "x-basic-type"
COPIES: Final = "x-cc"
_RECEIVED: Final = "x-opt-rabbitmq-received-time"
_URN: Final = "urn:uuid:"
_INTERNAL: Final = frozenset({"x-routing-key", "x-exchange", "x-death"})
_JMS_BYTES: Final = frozenset({"x-opt-jms-dest", "x-opt-jms-reply-to", "x-opt-jms-msg-type"})
"""Annotations of JMS clients, whose values are a byte: Qpid JMS ignores other integers.

They tell queue, topic or temporary one of JMSDestination and JMSReplyTo, and the kind of message.
"""
_UINT_MAX: Final = (1 << 32) - 1
_INT64_MAX: Final = (1 << 63) - 1
_HEX: Final = frozenset("0123456789abcdefABCDEF")


# To neutral properties


def properties_of(content: bytes, sections: Sections) -> Properties:
    """Return the neutral properties of a message whose sections were found. Raises CodecError."""
    found = Properties(delivery_mode=1 if sections.durable == 0 else 2)
    if sections.priority != ABSENT:
        found.priority = int(sections.priority)
    if sections.ttl != ABSENT:
        found.expiration = str(int(sections.ttl))
    headers: dict[str, object] = {}
    if sections.application_properties != ABSENT:
        headers.update(application_headers(content, sections))
    annotations = annotations_of(content, sections)
    _add_annotations(annotations, headers)
    type_ = annotations.get(Symbol(TYPE))
    if isinstance(type_, str) and is_name(type_):
        found.type = type_
    if sections.body_code == spec.AMQP_VALUE or sections.body_code == spec.AMQP_SEQUENCE:
        found.type = AMQP10_TYPE
    if sections.properties != ABSENT:
        _read_properties(_properties_section(content, sections), found, headers)
    found.headers = headers or None
    return found


def application_headers(content: bytes, sections: Sections) -> dict[str, object]:
    """Return the application properties of a message that has some as headers."""
    entries = decode_value(content, int(sections.application_properties))[0]
    return neutral_table(entries) if isinstance(entries, dict) else {}


def annotations_of(content: bytes, sections: Sections) -> dict[object, object]:
    """Return the message annotations."""
    if sections.message_annotations == ABSENT:
        return {}
    found = decode_value(content, int(sections.message_annotations))[0]
    return found if isinstance(found, dict) else {}


def _add_annotations(annotations: dict[object, object], headers: dict[str, object]) -> None:
    for key, value in annotations.items():
        if not isinstance(key, Symbol):
            continue
        name = key.text
        if name == COPIES:
            headers[CC] = to_neutral(value)
        elif name == DEATHS:
            headers["x-death"] = list(deaths_in(entries_in(value)))
        elif name == _RECEIVED and isinstance(value, Typed):
            headers["timestamp_in_ms"] = value.value
        elif name in TRACE_HEADERS and isinstance(value, str):
            headers.setdefault(name, value)  # OpenTelemetry permits it here and among the application properties.
        elif name.startswith("x-") and not name.startswith("x-basic-") and name not in _INTERNAL and is_name(name):
            headers[name] = to_neutral(value)


def _properties_section(content: bytes, sections: Sections) -> Composite:
    """Return the properties of a message that has some: their descriptor is added anew, whatever its form was."""
    return decode_composite(b"\x00\x53\x73" + content[sections.properties :])[0]


def _read_properties(section: Composite, found: Properties, headers: dict[str, object]) -> None:
    found.message_id = _id_text(section.fields["message_id"], "x-message-id", headers)
    found.correlation_id = _id_text(section.fields["correlation_id"], "x-correlation-id", headers)
    found.user_id = _user(section.octets("user_id"))
    found.reply_to = _short(to_reply_queue(section.text("reply_to")))
    found.content_type = _short(section.text("content_type"))
    found.content_encoding = _short(section.text("content_encoding"))
    created = section.number("creation_time")
    if created >= 0:
        found.timestamp = created // 1000
    found.app_id = _short(section.text("group_id"))


def _short(text: str) -> str | None:
    return text if text and is_name(text) else None


def _id_text(value: object, header: str, headers: dict[str, object]) -> str | None:
    """Return a message-id as text; one that no text of 255 octets can be becomes a header."""
    if isinstance(value, Typed):
        if value.kind == values.UUID and isinstance(value.value, bytes):
            return _URN + uuid_text(value.value)
        return str(value.value)
    if isinstance(value, str) and is_name(value):
        return value
    if value is not None:
        headers[header] = value
    return None


def _user(octets: bytes) -> str | None:
    try:
        text = octets.decode()
    except UnicodeDecodeError:
        return None
    return _short(text) if "\0" not in text else None


# From neutral properties


def encode_message(properties: Properties, body: bytes) -> bytes:
    """Return a message with neutral properties. Raises CodecError."""
    own = properties.type == AMQP10_TYPE and is_body(body)
    return encode_head(properties) + (body if own else data_section(body))


def encode_head(properties: Properties) -> bytes:
    """Return the sections before the body of a message with neutral properties. Raises CodecError."""
    headers = properties.headers or {}
    parts = [_header_of(properties)]
    annotations = _annotations_from(properties, headers)
    if annotations:
        parts.append(_section(spec.MESSAGE_ANNOTATIONS, annotations))
    section = _properties_from(properties)
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
    if text is None or not text.startswith(_URN) or len(text) != len(_URN) + 36:
        return text
    digits = text[len(_URN) :]
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
