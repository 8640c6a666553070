"""The disposition performative in place (section 2.7.6)."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor, malformed
from penstock.wire.amqp10.format_codes import FALSE, NULL, TRUE
from penstock.wire.amqp10.octets_out import begin_performative, end_performative, put_boolean, put_uint
from penstock.wire.amqp10.spec import ACCEPTED, DISPOSITION, RELEASED
from penstock.wire.amqp10.value_writer import unfit

ACCEPTED_STATE: Final = encode(ACCEPTED)
RELEASED_STATE: Final = encode(RELEASED)
NO_STATE: Final = bytes((NULL,))
"""Delivery states as octets."""

STATE_OCTETS_MAX: Final = 200
"""Most octets of a state that `write_disposition` takes; `composite` encodes larger ones, such as with an error map."""


class Disposition:
    """The last disposition that was read. Absent numbers are `ABSENT`."""

    __slots__ = ("receiver", "first", "last", "settled", "state_code", "state", "batchable")

    def __init__(self) -> None:
        self.receiver: bool = False
        """True if it comes from the receiver of the deliveries."""
        self.first: i64 = ABSENT
        self.last: i64 = ABSENT
        """The last delivery of the range; equal to `first` if it was absent."""
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
