"""The flow performative in place (section 2.7.4)."""

from __future__ import annotations

from librt.strings import BytesWriter
from mypy_extensions import i64

from penstock.wire.amqp10.composite import decode_performative
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor, malformed
from penstock.wire.amqp10.octets_out import begin_performative, end_performative, put_boolean, put_uint
from penstock.wire.amqp10.spec import FLOW


class Flow:
    """The last flow that was read. Absent numbers are `ABSENT`: without a handle, it is about the session alone."""

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
