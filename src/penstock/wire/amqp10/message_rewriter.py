"""Messages with a section built anew: all others are copied octet by octet.

The header belongs to the hop: a broker writes it for each delivery. Message annotations are added to. The bare message
stays as its sender wrote it (section 3.2).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.wire.amqp10.composite import write_list
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.map_walk import entries_of, map_octets
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.spec import HEADER, MESSAGE_ANNOTATIONS
from penstock.wire.amqp10.value_writer import encode_value, write_plain
from penstock.wire.amqp10.values import BOOLEAN, UBYTE, UINT, Symbol

_FIRST_HEADERS: Final = (
    b"\x00\x53\x70\xc0\x05\x04\x42\x40\x40\x41",
    b"\x00\x53\x70\xc0\x05\x04\x41\x40\x40\x41",
)
"""Headers of the first delivery of a transient and of a durable message with neither priority nor ttl."""

_DURABLE_HEADERS: Final = (b"\x00\x53\x70\xc0\x02\x01\x42", b"\x00\x53\x70\xc0\x02\x01\x41")


def header_octets(
    durable: bool, priority: i64 = ABSENT, ttl: i64 = ABSENT, first_acquirer: bool = True, delivery_count: i64 = 0
) -> bytes:
    """Return a header section; priority and ttl (milliseconds) may be `ABSENT`."""
    if priority == ABSENT and ttl == ABSENT and first_acquirer and delivery_count == 0:
        return _FIRST_HEADERS[1 if durable else 0]
    fields = bytearray()
    write_plain(fields, BOOLEAN, durable)
    count = 1
    if priority == ABSENT:
        fields.append(0x40)
    else:
        write_plain(fields, UBYTE, int(priority))
    if ttl == ABSENT:
        fields.append(0x40)
    else:
        write_plain(fields, UINT, int(ttl))
    write_plain(fields, BOOLEAN, first_acquirer)
    count = 4
    if delivery_count > 0:
        write_plain(fields, UINT, int(delivery_count))
        count = 5
    out = bytearray((0x00, 0x53, HEADER))
    write_list(out, count, bytes(fields))
    return bytes(out)


def durable_header(durable: bool) -> bytes:
    """Return the shortest header that says whether a message is durable."""
    return _DURABLE_HEADERS[1 if durable else 0]


def with_annotations(
    content: bytes, sections: Sections, added: dict[str, object], removed: tuple[str, ...] = ()
) -> bytes:
    """Return a message with additional message annotations; one of the same key is replaced. Raises CodecError.

    `removed` are the keys of annotations to leave out.
    """
    fresh = [(encode_value(Symbol(key)), encode_value(value)) for key, value in added.items()]
    before: list[tuple[bytes, bytes]] = []
    if sections.message_annotations != ABSENT:
        replaced = {symbol_text(key) for key, _ in fresh} | {key.encode() for key in removed}
        before = [
            entry
            for entry in entries_of(content, sections.message_annotations, sections.end)
            if symbol_text(entry[0]) not in replaced
        ]
    section = bytes((0x00, 0x53, MESSAGE_ANNOTATIONS)) + map_octets(before + fresh)
    return content[: sections.annotated_at] + section + content[sections.annotations_end :]


def symbol_text(key: bytes) -> bytes:
    """Return the text of an encoded symbol, whatever its form; of another key, a text that no symbol has."""
    if key[0] == 0xA3:
        return key[2:]
    if key[0] == 0xB3:
        return key[5:]
    return b"\xff" + key
