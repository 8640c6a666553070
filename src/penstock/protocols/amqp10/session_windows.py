"""Windows of a session in transfer frames, in both directions (section 2.5.6)."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from penstock.errors import WindowViolation
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.spec import BEGIN, FLOW
from penstock.wire.amqp10.transfer import write_flow
from penstock.wire.amqp10.values import serial_add, serial_distance

INCOMING_WINDOW: Final = 4096
"""Transfer frames that a peer may send before the broker's next flow.

Link credit limits the room: all input is read, so the window is renewed as soon as half of it is used.
"""
RENEW_AT: Final = 2048
OUTGOING_WINDOW: Final = 0x7FFFFFFF
"""Transfer frames that the broker announces to send: link credit and the peer's window bound them."""


class SessionWindows:
    """Windows of one session."""

    __slots__ = ("next_incoming_id", "incoming_window", "next_outgoing_id", "remote_incoming_window")

    def __init__(self, begin: Composite) -> None:
        self.next_incoming_id: i64 = begin.number("next_outgoing_id")
        """Transfer-id of the next transfer frame of the peer."""
        self.incoming_window: i64 = INCOMING_WINDOW
        """Transfer frames that the peer may still send."""
        self.next_outgoing_id: i64 = 0
        """Transfer-id of the broker's next transfer frame."""
        self.remote_incoming_window: i64 = begin.number("incoming_window")
        """Transfer frames that the broker may still send."""

    def begin(self, remote_channel: int, handle_max: int) -> Composite:
        """Return the answer to the peer's begin."""
        return composite(
            BEGIN,
            remote_channel=remote_channel,
            next_outgoing_id=int(self.next_outgoing_id),
            incoming_window=INCOMING_WINDOW,
            outgoing_window=OUTGOING_WINDOW,
            handle_max=handle_max,
        )

    def take(self, next_incoming_id: i64, incoming_window: i64, next_outgoing_id: i64) -> None:
        """Take the peer's windows. Raises BrokerError if the peer has counted frames that were not sent."""
        seen = next_incoming_id if next_incoming_id != ABSENT else 0
        under_way = serial_distance(seen, self.next_outgoing_id)
        if under_way < 0:
            raise WindowViolation(
                f"flow with next-incoming-id {seen}, but the next frame is {self.next_outgoing_id}",
            )
        self.next_incoming_id = next_outgoing_id
        self.remote_incoming_window = incoming_window - under_way
        if self.remote_incoming_window < 0:
            self.remote_incoming_window = 0

    def count_transfer(self) -> None:
        """Count a transfer frame of the peer. Raises BrokerError beyond the window."""
        self.next_incoming_id = (self.next_incoming_id + 1) & 0xFFFFFFFF
        self.incoming_window -= 1
        if self.incoming_window < 0:
            raise WindowViolation(
                f"transfer beyond the incoming window of {INCOMING_WINDOW} frames of the session",
            )

    def needs_renewal(self) -> bool:
        """Return whether the peer needs a renewed window."""
        return self.incoming_window < RENEW_AT

    def count_sent(self, frames: i64) -> None:
        """Count transfer frames that were sent."""
        self.next_outgoing_id = serial_add(self.next_outgoing_id, frames)
        self.remote_incoming_window -= frames

    def write(
        self,
        out: BytesWriter,
        channel: i64,
        handle: i64 = ABSENT,
        delivery_count: i64 = ABSENT,
        link_credit: i64 = ABSENT,
        available: i64 = ABSENT,
        drain: bool = False,
    ) -> None:
        """Write a flow of the session, or of one of its links; the flow renews the window."""
        self.incoming_window = INCOMING_WINDOW
        write_flow(
            out,
            channel,
            self.next_incoming_id,
            INCOMING_WINDOW,
            self.next_outgoing_id,
            OUTGOING_WINDOW,
            handle,
            delivery_count,
            link_credit,
            available,
            drain,
        )

    def flow(self, **link: object) -> Composite:
        """Return a flow of a link with properties, which `write` cannot write; the flow renews the window."""
        self.incoming_window = INCOMING_WINDOW
        return composite(
            FLOW,
            next_incoming_id=int(self.next_incoming_id),
            incoming_window=INCOMING_WINDOW,
            next_outgoing_id=int(self.next_outgoing_id),
            outgoing_window=OUTGOING_WINDOW,
            **link,
        )
