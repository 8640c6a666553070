"""Performatives of every message, read and written in place: transfer, disposition and flow (section 2.7)."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from penstock.wire.amqp10.composite import decode_performative, encode
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor, malformed
from penstock.wire.amqp10.spec import ACCEPTED, DISPOSITION, FLOW, RELEASED, TAG_MAX, TRANSFER
from penstock.wire.amqp10.value_walk import BINARY8, FALSE, NULL, SMALL_UINT, TRUE, UINT, UINT0
from penstock.wire.amqp10.value_writer import begin_performative, end_performative, put_boolean, put_uint, unfit

TRANSFER_OVERHEAD: Final = 48
"""Most bytes of a frame that `write_delivery` adds to its payload."""
_USUAL_START: Final = 0x005314C0
"""The first bytes of a transfer: its descriptor, and a list of eight-bit size."""
_ID_AND_TAG: Final = -0xFFFFFFFF000100
"""Bits of eight bytes from the delivery-id on: format code of the id, code and size of the tag."""
_WIDE_ID_AT: Final = 11
"""Position of the delivery-id after a handle of four bytes."""
_DELIVERY_REST: Final = 24
"""Bytes of a frame that `write_delivery_head` adds to its payload and the constant bytes."""
_PAYLOAD_MIN: Final = 16
"""Least bytes of payload for `read_usual`, which may read so far beyond the fields before it detects their end."""


class TransferForm:
    """Form of usual transfers: the constant parts while only delivery-id, tag and payload change."""

    __slots__ = ("start", "id_at", "handle", "tag", "stop", "ends")

    def __init__(self) -> None:
        self.start: i64 = 0
        """The first eight bytes; 0 for no form."""
        self.id_at: i64 = 0
        """Position of the delivery-id, which has four bytes."""
        self.handle: i64 = 0
        """The eight bytes before the delivery-id, unless they are among the first: then the handle has four bytes."""
        self.tag: i64 = 0
        """The eight bytes from there on, except the delivery-id and the first byte of the tag."""
        self.stop: i64 = 0
        """Bytes of the performative."""
        self.ends: i64 = 0
        """The last two bytes: message-format and settled."""

    def note(self, data: bytes, pos: i64, start: i64, id_at: i64, stop: i64) -> None:
        """Record the form of the transfer at `pos`, which begins with `start` and ends at `stop`."""
        self.start = start
        self.id_at = id_at - pos
        if self.id_at == _WIDE_ID_AT:
            self.handle = read_i64_be(data, id_at - 8)
        self.tag = read_i64_be(data, id_at) & _ID_AND_TAG
        self.stop = stop - pos
        self.ends = read_i64_be(data, stop - 8) & 0xFFFF


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
        "_form",
    )

    def __init__(self) -> None:
        self._form = TransferForm()
        """Form of the last transfer, if `read_usual` has read it."""
        self.handle: i64 = ABSENT
        self.delivery_id: i64 = ABSENT
        self.tag_start: i64 = 0
        """Position of the delivery tag in the frame; both values are 0 without a tag."""
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
        self._form.start = 0
        cursor.enter()
        self.handle = cursor.uint()
        self.delivery_id = cursor.uint()
        cursor.binary(TAG_MAX)
        self.tag_start = cursor.start
        self.tag_stop = cursor.stop
        self.message_format = cursor.uint()
        self.settled = cursor.boolean()
        self._clear_rest()
        if cursor.left > 0:
            self._read_rest(cursor)
        if self.handle == ABSENT or not cursor.is_finished():
            raise malformed(data, pos, end)
        self.payload = cursor.pos

    def read_usual(self, data: bytes, pos: i64, end: i64) -> bool:
        """Read the transfer at `pos` if it has the usual form of most clients; return whether it has.

        In this form there is no field after `settled`, and each field is in a usual form. Otherwise the fields are
        undefined.
        """
        if end - pos < _PAYLOAD_MIN:
            return False
        start = read_i64_be(data, pos)
        form = self._form
        stop = pos + form.stop
        if start == form.start and stop + _PAYLOAD_MIN <= end:
            at = pos + form.id_at
            fields = read_i64_be(data, at)
            if (
                fields & _ID_AND_TAG == form.tag
                and read_i64_be(data, stop - 8) & 0xFFFF == form.ends
                and (form.id_at < _WIDE_ID_AT or read_i64_be(data, at - 8) == form.handle)
            ):
                self.delivery_id = (fields >> 24) & 0xFFFFFFFF
                self.tag_start = at + 7
                self.tag_stop = stop - 2
                self.payload = stop
                return True
        return self._read_other(data, pos, end, start)

    def _read_other(self, data: bytes, pos: i64, end: i64, start: i64) -> bool:
        """Read a usual transfer whose form differs from the last form."""
        self._form.start = 0
        stop = pos + 5 + ((start >> 24) & 0xFF)
        if start >> 32 != _USUAL_START or stop + _PAYLOAD_MIN > end:
            return False
        code = (start >> 8) & 0xFF
        at = pos + 7
        if code == UINT0:
            self.handle = 0
        elif code == SMALL_UINT:
            self.handle = start & 0xFF
            at = pos + 8
        elif code == UINT:
            self.handle = (read_i64_be(data, at) >> 32) & 0xFFFFFFFF
            at = pos + 11
        else:
            return False
        fields = read_i64_be(data, at)  # The delivery-id, and the code and size of the tag.
        code = (fields >> 56) & 0xFF
        id_at: i64 = 0
        if code == UINT:
            id_at = at
            self.delivery_id = (fields >> 24) & 0xFFFFFFFF
            at += 7
            fields >>= 8
        elif code == SMALL_UINT:
            self.delivery_id = (fields >> 48) & 0xFF
            at += 4
            fields >>= 32
        elif code == UINT0:
            self.delivery_id = 0
            at += 3
            fields >>= 40
        else:
            return False
        size = fields & 0xFF
        if (fields >> 8) & 0xFF != BINARY8 or size > TAG_MAX or at + size > stop:
            return False
        self.tag_start = at
        at += size
        self.tag_stop = at
        self.payload = stop
        self._clear_rest()
        count = (start >> 16) & 0xFF
        if not self._read_usual_end(data, at, stop, count):
            return False
        if id_at > 0 and count == 5:
            self._form.note(data, pos, start, id_at, stop)
        return True

    def _read_usual_end(self, data: bytes, at: i64, stop: i64, count: i64) -> bool:
        """Read the fields after the tag, up to `stop`; `count` is the number of all fields."""
        if count < 3 or count > 5:
            return False
        self.message_format = ABSENT
        self.settled = ABSENT
        if count > 3:
            code: i64 = data[at]
            at += 1
            if code == UINT0:
                self.message_format = 0
            elif code != NULL:
                return False
        if count > 4:
            code = data[at]
            at += 1
            if code == FALSE:
                self.settled = 0
            elif code == TRUE:
                self.settled = 1
            elif code != NULL:
                return False
        return at == stop

    def _clear_rest(self) -> None:
        """Make the fields after `settled` absent."""
        self.more = False
        self.rcv_settle_mode = ABSENT
        self.state_code = ABSENT
        self.state = None
        self.resume = False
        self.aborted = False
        self.batchable = False

    def _read_rest(self, cursor: FieldCursor) -> None:
        """Read the fields after `settled`, which most transfers lack."""
        self.more = cursor.boolean() == 1
        self.rcv_settle_mode = cursor.ubyte(1)
        cursor.delivery_state()
        self.state_code = cursor.state_code
        self.state = cursor.state
        self.resume = cursor.boolean() == 1
        self.aborted = cursor.boolean() == 1
        self.batchable = cursor.boolean() == 1


def write_delivery(
    out: BytesWriter, channel: i64, handle: i64, delivery_id: i64, tag: i64, settled: bool, more: bool, octets: i64
) -> None:
    """Write the first frame of a delivery up to its payload of `octets` bytes, which the caller writes.

    The delivery tag is a number of eight bytes: it stays unique when a link moves to another session.
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


def delivery_head(handle: i64) -> bytes:
    """Return the constant bytes of the transfers of a link, for `write_delivery_head`."""
    fields = BytesWriter()
    put_uint(fields, handle)
    fields.append(UINT)
    field_octets: i64 = len(fields)
    out = BytesWriter()
    write_i32_be(out, i32(_USUAL_START))
    out.append(int(field_octets + 17))  # Count, delivery-id, delivery-tag, message-format and settled.
    out.append(5)
    out.write(fields.getvalue())
    return out.getvalue()


def write_delivery_head(
    out: BytesWriter, head: bytes, channel: i64, delivery_id: i64, tag: i64, settled: bool, octets: i64
) -> None:
    """As `write_delivery` for a delivery in one frame, with the `delivery_head` of its link.

    The delivery-id may exceed 2^32, where it wraps around. The tag is below 2^47.
    """
    size: i64 = len(head) + _DELIVERY_REST + octets
    write_i64_be(out, size << 32 | 0x02000000 | channel)
    out.write(head)
    number = delivery_id & 0xFFFFFFFF
    if number > 0x7FFFFFFF:
        number -= 0x100000000
    write_i64_be(out, number << 32 | 0xA0080000)  # Delivery-id, and a binary of eight bytes, of which two are 0.
    write_i64_be(out, tag << 16 | (0x4341 if settled else 0x4342))


def write_continuation(out: BytesWriter, channel: i64, handle: i64, more: bool, octets: i64) -> None:
    """Write a further frame of a delivery up to its payload of `octets` bytes, which the caller writes."""
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


ACCEPTED_STATE: Final = encode(ACCEPTED)
RELEASED_STATE: Final = encode(RELEASED)
NO_STATE: Final = bytes((NULL,))
"""Delivery states as bytes."""

STATE_OCTETS_MAX: Final = 200
"""Most bytes of a state for `write_disposition`; `composite` encodes larger states, such as with an error map."""


class Disposition:
    """The last disposition that was read. Absent numbers are `ABSENT`."""

    __slots__ = ("receiver", "first", "last", "settled", "state_code", "state", "batchable")

    def __init__(self) -> None:
        self.receiver: bool = False
        """True if the receiver of the deliveries sent it."""
        self.first: i64 = ABSENT
        self.last: i64 = ABSENT
        """The last delivery of the range; equal to `first` if absent."""
        self.settled: bool = False
        self.state_code: i64 = ABSENT
        """Descriptor and value of the delivery state, as in `FieldCursor`."""
        self.state: object = None
        self.batchable: bool = False

    def read(self, cursor: FieldCursor, data: bytes, pos: i64, end: i64) -> None:
        """Read the disposition at `pos`, whose descriptor the cursor has read. Raises CodecError."""
        cursor.enter()
        receiver = cursor.boolean()
        self.receiver = receiver == 1
        self.first = cursor.uint()
        self.last = cursor.uint()
        self.settled = cursor.boolean() == 1
        cursor.delivery_state()
        self.state_code = cursor.state_code
        self.state = cursor.state
        self.batchable = cursor.boolean() == 1
        if receiver == ABSENT or self.first == ABSENT or not cursor.is_finished() or cursor.pos != end:
            raise malformed(data, pos, end)
        if self.last == ABSENT:
            self.last = self.first


def write_disposition(
    out: BytesWriter, channel: i64, receiver: bool, first: i64, last: i64, settled: bool, state: bytes
) -> None:
    """Write a frame with a disposition of the deliveries from `first` to `last`; `state` is encoded."""
    if len(state) > STATE_OCTETS_MAX:
        raise unfit(state, "disposition")
    start = begin_performative(out, channel, DISPOSITION)
    out.append(TRUE if receiver else FALSE)
    put_uint(out, first)
    put_uint(out, ABSENT if last == first else last)
    put_boolean(out, 1 if settled else ABSENT)
    out.write(state)
    end_performative(out, start, 5)


class Flow:
    """The last flow that was read. Absent numbers are `ABSENT`: without a handle, the flow concerns only the
    session.
    """

    __slots__ = (
        "next_incoming_id",
        "incoming_window",
        "next_outgoing_id",
        "outgoing_window",
        "handle",
        "delivery_count",
        "link_credit",
        "available",
        "drain",
        "echo",
        "properties",
    )

    def __init__(self) -> None:
        self.next_incoming_id: i64 = ABSENT
        self.incoming_window: i64 = ABSENT
        self.next_outgoing_id: i64 = ABSENT
        self.outgoing_window: i64 = ABSENT
        self.handle: i64 = ABSENT
        self.delivery_count: i64 = ABSENT
        self.link_credit: i64 = ABSENT
        self.available: i64 = ABSENT
        self.drain: bool = False
        self.echo: bool = False
        self.properties: dict[object, object] | None = None

    def read(self, cursor: FieldCursor, data: bytes, pos: i64, end: i64) -> None:
        """Read the flow at `pos`, whose descriptor the cursor has read. Raises CodecError."""
        cursor.enter()
        self.next_incoming_id = cursor.uint()
        self.incoming_window = cursor.uint()
        self.next_outgoing_id = cursor.uint()
        self.outgoing_window = cursor.uint()
        self.handle = cursor.uint()
        self.delivery_count = cursor.uint()
        self.link_credit = cursor.uint()
        self.available = cursor.uint()
        self.drain = cursor.boolean() == 1
        self.echo = cursor.boolean() == 1
        self.properties = None
        cursor.any()
        if cursor.start != 0 and not cursor.malformed:
            self.properties = decode_performative(data, int(pos), int(end))[0].mapping("properties")
        if (
            self.incoming_window == ABSENT
            or self.next_outgoing_id == ABSENT
            or self.outgoing_window == ABSENT
            or not cursor.is_finished()
            or cursor.pos != end
        ):
            raise malformed(data, pos, end)


def write_flow(
    out: BytesWriter,
    channel: i64,
    next_incoming_id: i64,
    incoming_window: i64,
    next_outgoing_id: i64,
    outgoing_window: i64,
    handle: i64 = ABSENT,
    delivery_count: i64 = ABSENT,
    link_credit: i64 = ABSENT,
    available: i64 = ABSENT,
    drain: bool = False,
    echo: bool = False,
) -> None:
    """Write a frame with a flow; a number that is `ABSENT` is null. `composite` encodes a flow with properties."""
    start = begin_performative(out, channel, FLOW)
    put_uint(out, next_incoming_id)
    put_uint(out, incoming_window)
    put_uint(out, next_outgoing_id)
    put_uint(out, outgoing_window)
    if handle == ABSENT and not echo:
        end_performative(out, start, 4)
        return
    put_uint(out, handle)
    put_uint(out, delivery_count)
    put_uint(out, link_credit)
    put_uint(out, available)
    put_boolean(out, 1 if drain else ABSENT)
    put_boolean(out, 1 if echo else ABSENT)
    end_performative(out, start, 10)
