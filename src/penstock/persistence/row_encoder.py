"""Encoder of messages into a row of the store.

A row is a format octet and records. Most records set values for the messages that follow: the address, the queue, the
next sequence number, the time of arrival. A message then needs only its earlier deliveries, its charge and its
content. A copy of the previous message (a fan-out) omits even the content. Numbers are big-endian. A name is an octet
with its size, then its UTF-8; the core refuses longer names (content/names.py). Content is encoded by the message
format of its protocol (core/message_format.py), and its first octet tells the format. That of a large message refers
to its body, which is in the store in pieces (core/large_content.py).
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from penstock.core.journal.group import JournalGroup
from penstock.core.large_content import is_large, number_of
from penstock.core.message import BccEnvelope, Envelope, StoredMessage
from penstock.flow.timers import NEVER
from penstock.limits import NAME_MAX

FORMAT: Final = 1
"""Format of rows, and of notes (settlement_codec.py)."""
ADDRESS: Final = 1
QUEUE: Final = 2
TIME: Final = 3
MESSAGE: Final = 4
COPY: Final = 5
PASSING: Final = 6
"""Kind of address of transient messages, which are in the store only because they were paged out."""
NO_TTL: Final = -1


def encode_row(group: JournalGroup, wall_offset: float, bodies: list[int]) -> bytes:
    """Encode the messages of a closed group. `wall_offset` converts the broker's clock into seconds since the epoch.

    The numbers of the bodies of large messages are appended to `bodies`.
    """
    out = BytesWriter()
    out.append(FORMAT)
    address: Envelope | None = None
    arrived = NEVER
    content = b""
    for run in group.runs:
        following: i64 = -1
        for message in run.messages:
            if message.sequence != following:
                out.append(QUEUE)
                write_i64_be(out, run.storage.number)
                write_i64_be(out, message.sequence)
            following = message.sequence + 1
            if message.envelope is not address:
                address = message.envelope
                _write_address(out, address)
            if message.arrived != arrived:
                arrived = message.arrived
                out.append(TIME)
                write_i64_be(out, round((arrived + wall_offset) * 1e6))
            if message.content is not content and is_large(message.content):
                bodies.append(int(number_of(message.content)))
            content = _write_message(out, message, content)
    return out.getvalue()


def _write_message(out: BytesWriter, message: StoredMessage, before: bytes) -> bytes:
    content = message.content
    out.append(COPY if content is before else MESSAGE)
    write_i16_be(out, message.past)
    write_i64_be(out, message.charge)
    if content is not before:
        write_i32_be(out, i32(len(content)))
        out.write(content)
    return content


def _write_address(out: BytesWriter, address: Envelope) -> None:
    out.append(ADDRESS if address.persistent else PASSING)
    out.append(int(address.priority))
    write_i64_be(out, NO_TTL if address.ttl_s == NEVER else round(address.ttl_s * 1000))
    _write_name(out, address.exchange)
    _write_name(out, address.routing_key)
    blind = address.bcc if isinstance(address, BccEnvelope) else []
    write_i16_be(out, i16(len(blind)))
    for key in blind:
        _write_name(out, key)


def _write_name(out: BytesWriter, name: str) -> None:
    octets = name.encode()
    if len(octets) > NAME_MAX:
        raise ValueError(f"name '{name}' has {len(octets)} octets; a row has room for {NAME_MAX}")
    out.append(len(octets))
    out.write(octets)
