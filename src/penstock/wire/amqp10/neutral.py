"""Conversion of neutral properties, headers and deaths to those of AMQP 1.0 messages and back, as in RabbitMQ 4.

Values, addresses, and the properties of messages: read by `properties_of`, written by `encode_head`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from librt.strings import BytesWriter, read_i64_be
from mypy_extensions import i64

from penstock.content.death_entries import Entry, deaths_in
from penstock.content.field_table import NESTING_MAX
from penstock.content.properties import BCC, CC, PROPERTY_NAMES, TRACE_HEADERS, Properties, is_name
from penstock.wire.amqp10 import sections as at
from penstock.wire.amqp10 import spec, values
from penstock.wire.amqp10.composite import write_list
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor
from penstock.wire.amqp10.sections import Sections, durable_header, header_octets
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.value_walk import NULL, STRING8, SYMBOL8, TIMESTAMP, text_at, value_end
from penstock.wire.amqp10.value_writer import encode_text, encode_value, write_value
from penstock.wire.amqp10.values import Array, CodecError, Described, Symbol, Typed, tagged, timestamp, uint, ulong

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_SECOND: Final = 253_402_300_799
"""9999-12-31T23:59:59Z, the last second of a datetime."""
_INT64: Final = 1 << 63


def to_neutral(value: object, depth: int = 1) -> object:
    """Return a value of AMQP 1.0 as a neutral value at nesting depth `depth`; values that lie too deep are None."""
    if isinstance(value, (list, dict, Array)) and depth >= NESTING_MAX:
        return None
    if isinstance(value, Symbol):
        return value.text
    if isinstance(value, Typed):
        return _typed(value)
    if isinstance(value, list):
        return [to_neutral(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return neutral_table(value, depth + 1)
    if isinstance(value, Array):
        return [to_neutral(tagged(value.kind, item), depth + 1) for item in value.values]
    if isinstance(value, Described):
        return to_neutral(value.value, depth)
    return value


def neutral_table(entries: dict[object, object], depth: int = 1) -> dict[str, object]:
    """Return a map as a table, without the entries whose key is too long for a table (255 bytes)."""
    table: dict[str, object] = {}
    for key, value in entries.items():
        name = key.decode(errors="replace") if isinstance(key, bytes) else str(to_neutral(key))
        if is_name(name):
            table[name] = to_neutral(value, depth)
    return table


def _typed(value: Typed) -> object:
    inner = value.value
    if value.kind == values.TIMESTAMP and isinstance(inner, int):
        return moment_of(inner)
    if value.kind == values.UUID and isinstance(inner, bytes):
        return uuid_text(inner)
    if isinstance(inner, bytes):  # a decimal
        return inner.hex()
    if isinstance(inner, int) and inner >= _INT64:
        return str(inner)
    return inner


def moment_of(milliseconds: int) -> object:
    """Return a timestamp in whole seconds as a datetime; a timestamp out of the range of datetime stays a number."""
    seconds = milliseconds // 1000
    if not 0 <= seconds <= _LAST_SECOND:
        return seconds
    return _EPOCH + timedelta(seconds=seconds)


def uuid_text(octets: bytes) -> str:
    """Return a uuid as text in its usual form (RFC 9562)."""
    text = octets.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def to_amqp10(value: object) -> object:
    """Return a neutral value as one of AMQP 1.0."""
    if isinstance(value, bool) or value is None or isinstance(value, (str, bytes, float)):
        return value
    if isinstance(value, int):
        return value if -_INT64 <= value < _INT64 else str(value)
    if isinstance(value, datetime):
        return timestamp(milliseconds_of(value))
    if isinstance(value, (list, tuple)):
        return [to_amqp10(item) for item in value]
    if isinstance(value, dict):
        return {symbol_or_text(str(key)): to_amqp10(item) for key, item in value.items()}
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return str(value)


def milliseconds_of(moment: datetime) -> int:
    """Return milliseconds since the epoch; a moment without a zone is in UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    passed = moment - _EPOCH
    return (passed.days * 86400 + passed.seconds) * 1000 + passed.microseconds // 1000


def symbol_or_text(key: str) -> object:
    """Return the key of a map as a symbol, as RabbitMQ does; a key that is not ASCII as a string."""
    return Symbol(key) if key.isascii() else key


DEATHS: Final = "x-opt-deaths"
_TTL_MAX: Final = (1 << 32) - 1


def entries_in(annotation: object) -> list[Entry]:
    """Return the deaths of an annotation with the names of x-death; empty if Penstock did not write it."""
    if not isinstance(annotation, Array) or annotation.kind != values.MAP:
        return []
    entries: list[Entry] = []
    for item in annotation.values:
        if isinstance(item, dict):
            entries.append(_entry(item))
    return entries


def _entry(item: dict[object, object]) -> Entry:
    entry: Entry = {}
    for name in ("queue", "reason", "exchange"):
        value = item.get(Symbol(name))
        entry[name] = value.text if isinstance(value, Symbol) else value
    entry["count"] = _number(item.get(Symbol("count")))
    first = item.get(Symbol("first-time"))
    entry["time"] = moment_of(_number(first)) if isinstance(first, Typed) else None
    keys = item.get(Symbol("routing-keys"))
    entry["routing-keys"] = list(keys.values) if isinstance(keys, Array) else keys
    ttl = item.get(Symbol("ttl"))
    if ttl is not None:
        entry["original-expiration"] = str(_number(ttl))
    return entry


def _number(value: object) -> int:
    if isinstance(value, Typed):
        value = value.value
    return value if isinstance(value, int) else 0


def last_times(annotation: object) -> dict[tuple[object, object], object]:
    """Return the time of the last death of each queue and reason, which x-death lacks."""
    times: dict[tuple[object, object], object] = {}
    if isinstance(annotation, Array):
        for item in annotation.values:
            if isinstance(item, dict):
                reason = item.get(Symbol("reason"))
                key = (item.get(Symbol("queue")), reason.text if isinstance(reason, Symbol) else reason)
                times[key] = item.get(Symbol("last-time"))
    return times


def annotation_of(deaths: list[Entry], times: dict[tuple[object, object], object], now: float = -1.0) -> Array:
    """Return the annotation of deaths. `now` is the time of the first death, in seconds since the epoch, if given.

    `times` are the times of the last deaths; a missing time is replaced by the time of the first death.
    """
    items: list[object] = []
    for index, entry in enumerate(deaths):
        first = entry.get("time")
        first_time = timestamp(milliseconds_of(first) if isinstance(first, datetime) else 0)
        last_time: object = times.get((entry["queue"], entry["reason"]))
        if index == 0 and now >= 0.0:
            last_time = timestamp(int(now * 1000))
        item: dict[object, object] = {}
        expiration = entry.get("original-expiration")
        if isinstance(expiration, str) and expiration.isdecimal() and int(expiration) <= _TTL_MAX:
            item[Symbol("ttl")] = uint(int(expiration))
        item[Symbol("queue")] = entry["queue"]
        item[Symbol("reason")] = Symbol(str(entry["reason"]))
        item[Symbol("count")] = ulong(_number(entry["count"]))
        item[Symbol("first-time")] = first_time
        item[Symbol("last-time")] = last_time if isinstance(last_time, Typed) else first_time
        item[Symbol("exchange")] = entry.get("exchange", "")
        keys = entry.get("routing-keys")
        item[Symbol("routing-keys")] = Array(values.STRING, list(keys) if isinstance(keys, list) else [])
        items.append(item)
    return Array(values.MAP, items)


QUEUES: Final = "/queues/"
EXCHANGES: Final = "/exchanges/"
"""Beginnings of the addresses of queues and exchanges."""


_UNRESERVED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
"""Bytes that are not escaped (RFC 3986, section 2.3)."""


def quoted(name: str) -> str:
    """Return a name percent-encoded; parts that are not UTF-8 are replaced. Importing urllib for it takes 3 ms."""
    octets = name.encode(errors="replace")
    if not octets.rstrip(_UNRESERVED):
        return name
    return "".join(chr(octet) if octet in _UNRESERVED else f"%{octet:02X}" for octet in octets)


def queue_address(queue: str) -> str:
    """Return the address of a queue, such as that of a dynamic node."""
    return QUEUES + quoted(queue)


def exchange_address(exchange: str, key: str | None = None) -> str:
    """Return the address of an exchange; without a key, the subject is the key."""
    address = EXCHANGES + quoted(exchange)
    return address if key is None else f"{address}/{quoted(key)}"


def to_reply_address(reply_to: str) -> str:
    """Return the address of a neutral reply-to, which names a queue; an address is unchanged."""
    if reply_to.startswith((QUEUES, EXCHANGES)):
        return reply_to
    return queue_address(reply_to)


AMQP10_TYPE: Final = "amqp-1.0"
"""Type of a neutral message whose body is in AMQP encoding."""
TYPE: Final = "x-basic-type"
COPIES: Final = "x-cc"
URN: Final = "urn:uuid:"
"""Prefix of a message-id that is a uuid, as text."""
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


def reply_queue(reply_to: str) -> str:
    """Return the neutral reply-to of an address: the named queue, otherwise the address itself."""
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
        raise ValueError("bytes that are not UTF-8") from None


_JMS_BYTES: Final = frozenset({"x-opt-jms-dest", "x-opt-jms-reply-to", "x-opt-jms-msg-type"})
"""Annotations of JMS clients, whose values are a byte: Qpid JMS ignores other integers.

The values distinguish queues, topics and temporary ones in JMSDestination and JMSReplyTo, and the kind of message.
"""
_UINT_MAX: Final = (1 << 32) - 1
_INT64_MAX: Final = (1 << 63) - 1
_HEX: Final = frozenset("0123456789abcdefABCDEF")


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
    digits = text[len(URN) :]
    if [len(part) for part in digits.split("-")] != [8, 4, 4, 4, 12] or not _HEX.issuperset(digits.replace("-", "")):
        return text
    return Typed(values.UUID, bytes.fromhex(digits.replace("-", "")))


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
