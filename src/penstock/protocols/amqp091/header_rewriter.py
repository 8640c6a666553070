"""Content header rewriter: changes some properties or headers and copies the others octet by octet."""

from __future__ import annotations

from datetime import datetime

from mypy_extensions import i64

from penstock.protocols.amqp091.content_frames import FRAME_PAYLOAD_MAX, header_end, header_payload
from penstock.wire.amqp091.content_header import FIXED_OCTETS, HEADERS, SIZES, skip_properties
from penstock.wire.amqp091.field_reader import FieldReader
from penstock.wire.amqp091.field_writer import write_longstr, write_shortstr, write_unsigned, write_value
from penstock.wire.amqp091.spec import FRAME_OVERHEAD


class HeaderRewriter:
    """Content header of one message, split into properties. Raises CodecError if its headers cannot be read."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self._payload = header_payload(content)
        self.properties = properties_in(self._payload)
        """Octets of each property in the order of their flags; empty if absent."""
        self.headers = entries_of(self.properties[HEADERS])
        """Octets of each headers entry by name. Removed entries are omitted."""

    def with_headers(self, added: dict[str, object]) -> bytes | None:
        """Return the message with additional headers; None if its content header would not fit into a frame."""
        content = self.written(added)
        return content if header_end(content) - FRAME_OVERHEAD <= FRAME_PAYLOAD_MAX else None

    def written(self, added: dict[str, object]) -> bytes:
        """Return the message with all changes and additional headers."""
        table = b"".join([octets for name, octets in self.headers.items() if name not in added]) + _encoded(added)
        self.properties[HEADERS] = len(table).to_bytes(4, "big") + table
        payload = payload_of(self._payload, self.properties)
        return (
            self.content[:3] + len(payload).to_bytes(4, "big") + payload + self.content[header_end(self.content) - 1 :]
        )


def properties_in(payload: bytes) -> list[bytes]:
    """Return the octets of each property in the order of their flags; empty if absent.

    The header was checked when the message was received (`property_flags`).
    """
    flags: i64 = int.from_bytes(payload[FIXED_OCTETS : FIXED_OCTETS + 2], "big")
    found: list[bytes] = []
    pos: i64 = FIXED_OCTETS + 2
    for index in range(len(SIZES)):
        start = pos
        pos = skip_properties(payload, pos, flags, index, index + 1)
        found.append(payload[start:pos])
    return found


def payload_of(payload: bytes, properties: list[bytes]) -> bytes:
    """Return the payload of a header with its properties replaced; the inverse of `properties_in`."""
    flags = 0
    for place, octets in enumerate(properties):
        if octets:
            flags |= 0x8000 >> place
    return payload[:FIXED_OCTETS] + flags.to_bytes(2, "big") + b"".join(properties)


def entries_of(table: bytes) -> dict[str, bytes]:
    """Return the octets of each entry of a headers table by name, its size first. Raises CodecError."""
    reader = FieldReader(table, min(4, len(table)))
    found: dict[str, bytes] = {}
    while reader.remaining():
        start = reader.pos
        name = reader.shortstr()
        reader.value(1)
        found[name] = table[start : reader.pos]
    return found


def _encoded(entries: dict[str, object]) -> bytes:
    out = bytearray()
    for name, value in entries.items():
        write_shortstr(out, name)
        _write(out, value, 1)
    return bytes(out)


def _write(out: bytearray, value: object, depth: int) -> None:
    """Write a value with RabbitMQ's types: integers have 64 bits here."""
    if isinstance(value, int) and not isinstance(value, bool):
        out += b"l" + value.to_bytes(8, "big", signed=True)
    elif isinstance(value, str):
        out += b"S"
        write_longstr(out, value)
    elif isinstance(value, datetime):
        out += b"T"
        write_unsigned(out, int(value.timestamp()), 8)
    elif isinstance(value, list):
        octets = bytearray()
        for each in value:
            _write(octets, each, depth + 1)
        out += b"A"
        write_longstr(out, octets)
    elif isinstance(value, dict):
        out += b"F"
        write_longstr(out, _encoded(value))
    else:
        write_value(out, value, depth)
