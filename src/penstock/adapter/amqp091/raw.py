"""The header of a message as octets, property by property: for those who change one and leave the rest as it came."""

from __future__ import annotations

from typing import Final

from penstock.adapter.amqp091.content import header_end
from penstock.adapter.amqp091.header import FIXED_OCTETS, SHORTSTR, SIZES, TABLE
from penstock.wire.amqp091.fields import FieldReader

HEADERS: Final = 2
EXPIRATION: Final = 7
"""Places of two properties in the order of their flags (AMQP 0-9-1 section 1.8.1)."""


def properties_in(payload: bytes) -> list[bytes]:
    """Return the octets of each property in the order of their flags, empty where it is not there.

    The header was found to be well formed when it came in (`property_flags`).
    """
    flags = int.from_bytes(payload[FIXED_OCTETS : FIXED_OCTETS + 2], "big")
    found: list[bytes] = []
    pos = FIXED_OCTETS + 2
    for place in range(len(SIZES)):
        size = 0
        if flags & (0x8000 >> place):
            size = int(SIZES[place])
            if size == SHORTSTR:
                size = 1 + payload[pos]
            elif size == TABLE:
                size = 4 + int.from_bytes(payload[pos : pos + 4], "big")
        found.append(payload[pos : pos + size])
        pos += size
    return found


def payload_of(payload: bytes, properties: list[bytes]) -> bytes:
    """Return the payload of a header with these properties in place of its own; the inverse of `properties_in`."""
    flags = 0
    for place, octets in enumerate(properties):
        if octets:
            flags |= 0x8000 >> place
    return payload[:FIXED_OCTETS] + flags.to_bytes(2, "big") + b"".join(properties)


def entries_of(table: bytes) -> dict[str, bytes]:
    """Return the octets of each entry of a headers table (its size first) by its name. Raises CodecError."""
    reader = FieldReader(table, min(4, len(table)))
    found: dict[str, bytes] = {}
    while reader.remaining():
        start = reader.pos
        name = reader.shortstr()
        reader.value(1)
        found[name] = table[start : reader.pos]
    return found


def with_payload(content: bytes, payload: bytes) -> bytes:
    """Return a message with another payload in its header frame."""
    return content[:3] + len(payload).to_bytes(4, "big") + payload + content[header_end(content) - 1 :]
