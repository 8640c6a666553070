"""Reading of the neutral properties and headers of an AMQP 1.0 message, as in RabbitMQ 4."""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from penstock.content.death_entries import deaths_in
from penstock.content.properties import CC, PROPERTY_NAMES, TRACE_HEADERS, Properties, is_name
from penstock.wire.amqp10 import sections as at
from penstock.wire.amqp10 import spec, values
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor
from penstock.wire.amqp10.neutral_addresses import reply_queue
from penstock.wire.amqp10.neutral_deaths import DEATHS, entries_in
from penstock.wire.amqp10.neutral_values import AMQP10_TYPE, COPIES, TYPE, URN, neutral_table, to_neutral, uuid_text
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.value_walk import NULL, STRING8, SYMBOL8, TIMESTAMP, text_at, value_end
from penstock.wire.amqp10.values import Symbol, Typed

_RECEIVED: Final = "x-opt-rabbitmq-received-time"
_INTERNAL: Final = frozenset({"x-routing-key", "x-exchange", "x-death"})


def properties_of(content: bytes, sections: Sections) -> Properties:
    """Return the neutral properties of a message whose sections were found. Raises CodecError."""
    properties = Properties(delivery_mode=1 if sections.durable == 0 else 2)
    if sections.priority != ABSENT:
        properties.priority = int(sections.priority)
    if sections.ttl != ABSENT:
        properties.expiration = str(int(sections.ttl))
    headers: dict[str, object] = {}
    if sections.application_properties != ABSENT:
        headers.update(application_headers(content, sections))
    if sections.message_annotations != ABSENT:
        annotations = annotations_of(content, sections)
        _add_annotations(annotations, headers)
        type_ = annotations.get(Symbol(TYPE))
        if isinstance(type_, str) and is_name(type_):
            properties.type = type_
    if sections.body_code == spec.AMQP_VALUE or sections.body_code == spec.AMQP_SEQUENCE:
        properties.type = AMQP10_TYPE
    if sections.properties != ABSENT:
        _read_properties(content, sections, properties, headers)
    properties.headers = headers or None
    return properties


def application_headers(content: bytes, sections: Sections) -> dict[str, object]:
    """Return the application properties of a message as headers; the message must have such a section."""
    entries = decode_value(content, int(sections.application_properties))[0]
    return neutral_table(entries) if isinstance(entries, dict) else {}


def annotations_of(content: bytes, sections: Sections) -> dict[object, object]:
    """Return the message annotations."""
    if sections.message_annotations == ABSENT:
        return {}
    annotations = decode_value(content, int(sections.message_annotations))[0]
    return annotations if isinstance(annotations, dict) else {}


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
            headers.setdefault(name, value)  # OpenTelemetry permits both places.
        elif name.startswith("x-") and not name.startswith("x-basic-") and name not in _INTERNAL and is_name(name):
            headers[name] = to_neutral(value)


def _read_properties(content: bytes, sections: Sections, properties: Properties, headers: dict[str, object]) -> None:
    """Read the properties section of a message that has one, in place; it must be well formed."""
    cursor = FieldCursor()
    cursor.enter_at(content, sections.properties, sections.end)
    pos = cursor.pos
    index: i64 = 0
    while index < cursor.left:
        if content[pos] != NULL:
            _read_property(content, pos, index, properties, headers)
        pos = value_end(content, pos, cursor.end, 3)
        index += 1


_PLACES: Final[list[int]] = [8, -1, -1, -1, -1, 5, 0, 1, -1, 9, 12, -1, -1]
"""Indexes in `PROPERTY_NAMES` of the fields of the properties section; -1 for fields without a neutral property."""


def property_octets(content: bytes, sections: Sections) -> list[bytes] | None:
    """Return the properties of a message with an id, if they have the same bytes as neutral properties; None otherwise.

    A text follows its size in one byte; a number is big-endian, in as many bytes as in AMQP 0-9-1.
    """
    if sections.properties == ABSENT or sections.application_properties != ABSENT:
        return None
    if sections.message_annotations != ABSENT or sections.priority != ABSENT or sections.ttl != ABSENT:
        return None
    found = [b""] * len(PROPERTY_NAMES)
    found[3] = b"\x01" if sections.durable == 0 else b"\x02"
    cursor = FieldCursor()
    cursor.enter_at(content, sections.properties, sections.end)
    pos = cursor.pos
    index: i64 = 0
    while index < cursor.left:
        end = value_end(content, pos, cursor.end, 3)
        code: i64 = content[pos]
        if index == at.USER_ID or index == at.REPLY_TO:
            if code != NULL:
                return None
        elif code == TIMESTAMP and content[pos + 1] < 0x80:
            if index == at.CREATION_TIME:
                found[9] = int(read_i64_be(content, pos + 1) // 1000).to_bytes(8, "big")
        elif _PLACES[index] >= 0 and code != NULL:
            if (code != STRING8 and code != SYMBOL8) or content[pos + 1] == 0:
                return None
            found[_PLACES[index]] = content[pos + 1 : end]
        pos = end
        index += 1
    return found if found[8] else None


def _read_property(content: bytes, pos: i64, index: i64, properties: Properties, headers: dict[str, object]) -> None:
    if index == at.MESSAGE_ID:
        properties.message_id = _id_text(content, pos, "x-message-id", headers)
    elif index == at.CORRELATION_ID:
        properties.correlation_id = _id_text(content, pos, "x-correlation-id", headers)
    elif index == at.USER_ID:
        properties.user_id = _user(decode_value(content, int(pos))[0])
    elif index == at.CREATION_TIME:
        created = read_i64_be(content, pos + 1)
        if created >= 0:
            properties.timestamp = int(created // 1000)
    elif index == at.REPLY_TO:
        properties.reply_to = _short(reply_queue(text_at(content, pos) or ""))
    elif index == at.CONTENT_TYPE:
        properties.content_type = _short(text_at(content, pos) or "")
    elif index == at.CONTENT_ENCODING:
        properties.content_encoding = _short(text_at(content, pos) or "")
    elif index == at.GROUP_ID:
        properties.app_id = _short(text_at(content, pos) or "")


def _short(text: str) -> str | None:
    return text if text and is_name(text) else None


def _id_text(content: bytes, pos: i64, header: str, headers: dict[str, object]) -> str | None:
    """Return a message-id as text; an id that does not fit into a text of 255 bytes becomes a header."""
    value: object = text_at(content, pos)
    if value is None:
        value = decode_value(content, int(pos))[0]
    if isinstance(value, Typed):
        if value.kind == values.UUID and isinstance(value.value, bytes):
            return URN + uuid_text(value.value)
        return str(value.value)
    if isinstance(value, str) and is_name(value):
        return value
    headers[header] = value
    return None


def _user(octets: object) -> str | None:
    try:
        text = octets.decode() if isinstance(octets, bytes) else ""
    except UnicodeDecodeError:
        return None
    return _short(text) if "\0" not in text else None
