"""Request intake: constant credit of a link on which requests to the broker come, and the frames of each request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.errors import ContentTooLarge, TransferLimitExceeded
from penstock.wire.amqp10.composite import Composite
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.flow import Flow
from penstock.wire.amqp10.serial import serial_distance
from penstock.wire.amqp10.transfer import Transfer

if TYPE_CHECKING:
    from penstock.protocols.amqp10.link import Link

WINDOW: Final = 100
"""Credit in requests; it is renewed when less than half of it is left, and nothing blocks it."""


class RequestIntake:
    """The receiving side of one link to the broker itself.

    `taker` is who takes its requests, for errors; `octets_max` is the size of the largest.
    """

    __deletable__ = ("_link",)

    def __init__(self, link: Link, attach: Composite, octets_max: i64, taker: str) -> None:
        self._link = link
        self._octets_max: i64 = octets_max
        self._taker = taker
        self.delivery_count: i64 = attach.number("initial_delivery_count", 0)
        self.credit: i64 = 0
        """Requests that the peer may still send."""
        self.delivery_id: i64 = ABSENT
        """Delivery-id of the last request."""
        self.settled: bool = False
        """True if any of its frames was sent settled."""
        self._arrives: bool = False
        """True between the frames of a request."""
        self._pieces: bytes = b""
        """Payload so far of that request."""

    def grant(self) -> None:
        """Grant credit, if less than half of the window is left."""
        if self.credit < WINDOW // 2:
            self.credit = WINDOW
            self._link.request_flow()

    def on_flow(self, flow: Flow) -> None:
        """Act on a flow of the peer: credit that its sender has given up is granted again."""
        if flow.delivery_count != ABSENT:
            drained = serial_distance(self.delivery_count, flow.delivery_count)
            if drained > 0:
                self.delivery_count = flow.delivery_count
                self.credit -= drained if drained < self.credit else self.credit
                self.grant()
        if flow.echo:
            self._link.request_flow()

    def write_flow(self) -> None:
        """Write the state of the link."""
        link = self._link
        session = link.session
        session.windows.write(session.engine.out, session.number, link.handle, self.delivery_count, self.credit)

    def take(self, transfer: Transfer, data: bytes, end: i64) -> bytes | None:
        """Return the request that a frame completes; None if more frames come, or it is aborted.

        Raises NotAllowed, TransferLimitExceeded without credit, and ContentTooLarge.
        """
        if not self._arrives:
            self._link.session.begin_delivery(transfer)
            if self.credit == 0:
                raise TransferLimitExceeded(f"a transfer on link '{self._link.link_name}', which has no credit")
            self.credit -= 1
            self.delivery_count = (self.delivery_count + 1) & 0xFFFFFFFF
            self.delivery_id = transfer.delivery_id
            self.settled = False
            self._arrives = True
        self.settled = self.settled or transfer.settled == 1
        content = self._pieces + data[transfer.payload : end]
        if len(content) > self._octets_max:
            raise ContentTooLarge(f"a message larger than the {self._octets_max} octets that {self._taker} takes")
        if transfer.more and not transfer.aborted:
            self._pieces = content
            return None
        self.drop()
        return None if transfer.aborted else content

    def unlink(self) -> None:
        """Drop the link, which has ended."""
        del self._link

    def drop(self) -> None:
        """Drop the frames of an incomplete request."""
        self._pieces = b""
        self._arrives = False
