"""Properties of AMQP 1.0 messages as neutral properties, as RabbitMQ 4 converts them.

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

from penstock.content.death_entries import deaths_in
from penstock.content.names import CC, is_name
from penstock.content.properties import Properties
from penstock.content.trace_context import TRACE_HEADERS
from penstock.wire.amqp10 import spec, values
from penstock.wire.amqp10.composite import Composite, decode_composite
from penstock.wire.amqp10.death_annotations import DEATHS, entries_in
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.neutral_values import neutral_table, to_neutral, uuid_text
from penstock.wire.amqp10.node_addresses import QUEUES
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.values import Symbol, Typed

AMQP10_TYPE: Final = "amqp-1.0"
"""Type of a neutral message whose body is in AMQP encoding."""
TYPE: Final = "x-basic-type"
COPIES: Final = "x-cc"
URN: Final = "urn:uuid:"
"""Beginning of a message-id that is a uuid, as text."""
_RECEIVED: Final = "x-opt-rabbitmq-received-time"
_INTERNAL: Final = frozenset({"x-routing-key", "x-exchange", "x-death"})
_HEX: Final = frozenset("0123456789abcdefABCDEF")


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
    found.reply_to = _short(reply_queue(section.text("reply_to")))
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
            return URN + uuid_text(value.value)
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


def reply_queue(reply_to: str) -> str:
    """Return the neutral reply-to of an address: the queue that it names, else the address itself."""
    name = reply_to.removeprefix(QUEUES)
    if name == reply_to or not name or "/" in name:
        return reply_to
    try:
        queue = percent_decoded(name)
    except ValueError:
        return reply_to
    return queue if is_name(queue) else reply_to


def percent_decoded(part: str) -> str:
    """Return a percent-decoded name. Raises ValueError with the second half of a sentence."""
    if "%" not in part:
        return part
    for escaped in part.split("%")[1:]:
        if len(escaped) < 2 or not _HEX.issuperset(escaped[:2]):
            raise ValueError("a '%' that two hexadecimal digits do not follow")
    from urllib.parse import unquote_to_bytes  # Few names have a '%'.

    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise ValueError("octets that are not UTF-8") from None
