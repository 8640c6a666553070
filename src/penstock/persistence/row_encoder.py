"""Messages as octets in a row of the store.

A row is a format octet and records. Most records set what holds for the messages after them: the address, the queue
and the sequence of the next message in it, the time of arrival. A message then needs no more than how often it came
back, its charge, and its content; a copy of the message before it (a fan-out) not even that. Numbers are big-endian.
Content is as its protocol encoded it: for AMQP 0-9-1 the frames of header and body.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from penstock.core.journal.group import JournalGroup
from penstock.core.message import BccEnvelope, Envelope, StoredMessage
from penstock.flow.timers import NEVER
from penstock.wire.amqp091.field_writer import encode_shortstr

FORMAT: Final = 1
"""Of rows, and of notes (notes.py)."""
ADDRESS: Final = 1
QUEUE: Final = 2
TIME: Final = 3
MESSAGE: Final = 4
COPY: Final = 5
PASSING: Final = 6
"""An address of messages that do not outlive the broker: they are there because they were paged."""
NO_TTL: Final = -1


def encode_row(group: JournalGroup, wall_offset: float) -> bytes:
    """Return a sealed group's messages; `wall_offset` makes seconds since the epoch of the broker's clock."""
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
                write_i64_be(out, run.kept.number)
                write_i64_be(out, message.sequence)
            following = message.sequence + 1
            if message.envelope is not address:
                address = message.envelope
                _write_address(out, address)
            if message.arrived != arrived:
                arrived = message.arrived
                out.append(TIME)
                write_i64_be(out, round((arrived + wall_offset) * 1e6))
            content = _write_message(out, message, content)
    return out.getvalue()


def _write_message(out: BytesWriter, message: StoredMessage, before: bytes) -> bytes:
    content = message.content
    out.append(COPY if content is before else MESSAGE)
    write_i16_be(out, message.redeliveries)
    write_i64_be(out, message.charge)
    if content is not before:
        write_i32_be(out, i32(len(content)))
        out.write(content)
    return content


def _write_address(out: BytesWriter, address: Envelope) -> None:
    out.append(ADDRESS if address.persistent else PASSING)
    out.append(int(address.priority))
    write_i64_be(out, NO_TTL if address.ttl_s == NEVER else round(address.ttl_s * 1000))
    out.write(encode_shortstr(address.exchange))
    out.write(encode_shortstr(address.routing_key))
    blind = address.bcc if isinstance(address, BccEnvelope) else []
    write_i16_be(out, i16(len(blind)))
    for key in blind:
        out.write(encode_shortstr(key))
