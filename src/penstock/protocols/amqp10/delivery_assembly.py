"""Deliveries in several frames that arrive on an incoming link.

A small delivery is put together. Once `min-large-message` bytes have come, and a body that can be walked has begun, the
delivery becomes large. The sections before the body are then its head, and the body is stored in pieces. Requests to
the control exchange are always put together, and so is a body of amqp-value or amqp-sequence with a list, a map or
another compound value.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.large_messages import LargeMessage
from penstock.connections.partial_messages import PIECE_BYTES, PartialMessage
from penstock.core.large_bodies import LargeBody, Span
from penstock.errors import BrokerError
from penstock.protocols.amqp10.error_scopes import MalformedMessage
from penstock.protocols.amqp10.link import Link
from penstock.protocols.amqp10.target import Target
from penstock.wire.amqp10.body_walk import BodyWalk, body_start, may_walk
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.spec import DATA
from penstock.wire.amqp10.value_walk import UNFIT
from penstock.wire.amqp10.values import CodecError

NO_DATA: Final = b"\x00\x53\x75\xa0\x00"
"""A data section without bytes: the body of a head."""
NO_VALUE: Final = b"\x00\x53\x77\x40"
"""An amqp-value that is null: the body of a head whose message has an amqp-value."""


class PartialDelivery(PartialMessage):
    """The received part of a link's incomplete delivery."""

    def __init__(self, link: Link) -> None:
        super().__init__(link.session.connection)
        self._link = link

    @override
    def fail(self, error: BrokerError) -> None:
        self._link.detach(error)


class DeliveryAssembly:
    """The incomplete delivery of one link."""

    __deletable__ = ("_link",)

    def __init__(self, link: Link, target: Target) -> None:
        self._link = link
        self._target = target
        self.octets: i64 = 0
        """Received bytes of all sections of the delivery."""
        self.fault: BrokerError | None = None
        """Reason for which the delivery will be rejected: the body of a large message is malformed.

        Further bytes are dropped.
        """
        self._partial: PartialDelivery | None = None
        """Charge of the received bytes in memory; None if there is no such delivery."""
        self._payloads: list[bytes] = []
        self._large_from: i64 = 0
        """Received bytes from which `_review` checks whether the delivery is large; 0 if it never is."""
        self._head: bytes = b""
        self._walk: BodyWalk | None = None
        self._large: LargeMessage | None = None
        """Body that is stored in pieces; None for other deliveries."""

    def add(self, payload: bytes) -> None:
        """Add the payload of a frame. Raises ResourceError (506) if too much has arrived in part."""
        connection = self._link.session.connection
        if self._partial is None:
            self._partial = PartialDelivery(self._link)
            self._large_from = connection.limits.min_large_message
        self.octets += len(payload)
        if self.fault is not None:
            return
        if self._large is None:
            connection.services.partial_messages.add(self._partial, len(payload) + PIECE_BYTES)
            self._payloads.append(payload)
            if 0 < self._large_from <= self.octets:
                self._review()
        else:
            self._add_to_body(payload)

    def finish(self) -> LargeBody | None:
        """Return the body of a complete delivery if it is large; None if the delivery was put together, or has a
        fault."""
        walk, large = self._walk, self._large
        if walk is None or large is None:
            return None
        try:
            walk.finish()
        except CodecError as error:
            self._give_up(error)
            return None
        spans = [Span(start, size) for start, size in zip(walk.starts, walk.sizes, strict=True)]
        if walk.code != DATA:  # In AMQP 0-9-1 the body of a value is in AMQP encoding.
            spans = [Span(0, spans[0].start + spans[0].octets)]
        return large.finish(spans)

    def content(self) -> bytes:
        """Return the sections of a complete delivery; a large delivery has an empty body here."""
        return self._head if self._walk is not None else b"".join(self._payloads)

    def unlink(self) -> None:
        """Drop the link: it has ended."""
        del self._link

    def drop(self) -> None:
        """Drop the bytes received so far."""
        if self._partial is not None:
            self._link.session.connection.services.partial_messages.give_back(self._partial)
            self._partial = None
            self._payloads = []
            self._head = b""
            self._walk = None
            self._large = None
            self.fault = None
            self.octets = 0

    def _review(self) -> None:
        """Store the body in pieces if it has begun, and can be walked."""
        data = b"".join(self._payloads)
        self._payloads = [data]
        start = body_start(data, len(data))
        if start == UNFIT:
            self._large_from = 2 * self.octets  # Each review copies the payload.
            return
        self._large_from = 0
        if not may_walk(data, start):
            return
        head = data[:start] + (NO_DATA if data[start + 2] == DATA else NO_VALUE)
        sections = Sections()
        try:
            sections.walk(head, 0, len(head))
            if self._target.route_of(head, head, sections).target.control:
                return
        except (CodecError, BrokerError):
            pass  # The fault is reported when the delivery is complete.
        assert self._partial is not None
        self._payloads = []
        self._head = head
        self._walk = BodyWalk()
        self._large = LargeMessage(self._link.session.connection, self._partial, sections.durable != 0)
        self._add_to_body(data[start:])

    def _add_to_body(self, octets: bytes) -> None:
        assert self._walk is not None and self._large is not None
        try:
            self._walk.feed(octets)
        except CodecError as error:
            self._give_up(error)
        else:
            self._large.append(octets)

    def _give_up(self, error: CodecError) -> None:
        self.fault = MalformedMessage(error)
        self._large = None
