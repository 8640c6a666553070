"""The transfer performative in place (section 2.7.5)."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor, malformed
from penstock.wire.amqp10.format_codes import BINARY8, FALSE, TRUE, UINT, UINT0
from penstock.wire.amqp10.octets_out import begin_performative, end_performative, put_boolean, put_uint
from penstock.wire.amqp10.spec import TAG_MAX, TRANSFER
from penstock.wire.amqp10.value_writer import unfit

TRANSFER_OVERHEAD: Final = 48
"""Most octets of a frame that `write_delivery` adds to its payload."""


class Transfer:
    """The last transfer that was read. Absent numbers and booleans are `ABSENT`."""

    __slots__ = (
        "handle",
        "delivery_id",
        "tag_start",
        "tag_stop",
        "message_format",
        "settled",
        "more",
        "rcv_settle_mode",
        "state_code",
        "state",
        "resume",
        "aborted",
        "batchable",
        "payload",
    )

    def __init__(self) -> None:
        self.handle: i64 = ABSENT
        self.delivery_id: i64 = ABSENT
        self.tag_start: i64 = 0
        """The octets of the delivery tag in the frame; both are 0 if it is absent."""
        self.tag_stop: i64 = 0
        self.message_format: i64 = ABSENT
        self.settled: i64 = ABSENT
        self.more: bool = False
        self.rcv_settle_mode: i64 = ABSENT
        self.state_code: i64 = ABSENT
        """Descriptor and value of the delivery state, as in `FieldCursor`."""
        self.state: object = None
        self.resume: bool = False
        self.aborted: bool = False
        self.batchable: bool = False
        self.payload: i64 = 0
        """Position of the payload."""

    def read(self, cursor: FieldCursor, data: bytes, pos: i64, end: i64) -> None:
        """Read the transfer at `pos`, whose descriptor the cursor has read. Raises CodecError."""
        cursor.enter()
        self.handle = cursor.uint()
        self.delivery_id = cursor.uint()
        cursor.binary(TAG_MAX)
        self.tag_start = cursor.start
        self.tag_stop = cursor.stop
        self.message_format = cursor.uint()
        self.settled = cursor.boolean()
        self.more = False
        self.rcv_settle_mode = ABSENT
        self.state_code = ABSENT
        self.state = None
        self.resume = False
        self.aborted = False
        self.batchable = False
        if cursor.left > 0:
            self._read_rest(cursor)
        if self.handle == ABSENT or not cursor.is_finished():
            raise malformed(data, pos, end)
        self.payload = cursor.pos

    def _read_rest(self, cursor: FieldCursor) -> None:
        """Read the fields after `settled`, which most transfers do not have."""
        self.more = cursor.boolean() == 1
        self.rcv_settle_mode = cursor.ubyte(1)
        cursor.delivery_state()
        self.state_code = cursor.state_code
        self.state = cursor.state
        self.resume = cursor.boolean() == 1
        self.aborted = cursor.boolean() == 1
        self.batchable = cursor.boolean() == 1


def write_transfer(
    out: BytesWriter,
    channel: i64,
    handle: i64,
    delivery_id: i64,
    tag: bytes | None,
    message_format: i64,
    settled: i64,
    more: bool,
    payload: bytes,
) -> None:
    """Write a frame with a transfer of any tag; a number or boolean that is `ABSENT` is null.

    `composite` has the words for a transfer with a state, or one that resumes or aborts.
    """
    if tag is not None and len(tag) > TAG_MAX:
        raise unfit(tag, "delivery-tag")
    start = begin_performative(out, channel, TRANSFER)
    put_uint(out, handle)
    put_uint(out, delivery_id)
    if tag is None:
        put_uint(out, ABSENT)
    else:
        out.append(BINARY8)
        out.append(len(tag))
        out.write(tag)
    put_uint(out, message_format)
    put_boolean(out, settled)
    put_boolean(out, 1 if more else ABSENT)
    end_performative(out, start, 6, len(payload))
    out.write(payload)


def write_delivery(
    out: BytesWriter, channel: i64, handle: i64, delivery_id: i64, tag: i64, settled: bool, more: bool, octets: i64
) -> None:
    """Write the first frame of a delivery up to its payload, which has `octets` and which the caller writes.

    The delivery tag is a number of eight octets: it stays unique when a link moves to another session.
    """
    start = begin_performative(out, channel, TRANSFER)
    put_uint(out, handle)
    out.append(UINT)
    write_i32_be(out, i32(delivery_id - 0x100000000) if delivery_id > 0x7FFFFFFF else i32(delivery_id))
    out.append(BINARY8)
    out.append(8)
    write_i64_be(out, tag)
    out.append(UINT0)
    out.append(TRUE if settled else FALSE)
    if more:
        out.append(TRUE)
        end_performative(out, start, 6, octets)
    else:
        end_performative(out, start, 5, octets)


def write_continuation(out: BytesWriter, channel: i64, handle: i64, more: bool, octets: i64) -> None:
    """Write a further frame of a delivery up to its payload, which has `octets` and which the caller writes."""
    start = begin_performative(out, channel, TRANSFER)
    put_uint(out, handle)
    if more:
        put_uint(out, ABSENT)
        put_uint(out, ABSENT)
        put_uint(out, ABSENT)
        put_uint(out, ABSENT)
        out.append(TRUE)
        end_performative(out, start, 6, octets)
    else:
        end_performative(out, start, 1, octets)
