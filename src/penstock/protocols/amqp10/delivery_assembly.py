"""Deliveries in several frames: one of an incoming link that arrives, and a large one that is sent as its peer reads.

**Assembly.** A small one is put together. Once `min-large-message` octets have come, and a body that can be walked has
begun, the delivery becomes large: what lies before the body is its head, and the body goes in pieces. Requests to the
control exchange are always put together, and so is a body of amqp-value or amqp-sequence that holds a list, a map or
another compound value.

**Large deliveries** are sent within the window of the session. The first frame is written in order with the other
deliveries of the session. From then on the delivery is a source of the connection's output, and takes turns: other
links and sessions go between. Its own link gets nothing else until it is complete (section 2.6.14), which is a matter
of its credit (`LinkCredit.paused`).

A delivery whose link is detached meanwhile is aborted. If a piece of it cannot be read, its link is detached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter
from mypy_extensions import i64
from typing_extensions import override

from penstock.core.large_bodies import LargeBody, LargeReader, Parts, PieceListener, Span
from penstock.errors import BrokerError, InternalError
from penstock.protocols.amqp10.error_scopes import MalformedMessage
from penstock.protocols.common.connection_output import SHARE_OCTETS, OutputSource
from penstock.protocols.common.partial_messages import PIECE_BYTES, LargeMessage, PartialMessage
from penstock.wire.amqp10.body_walk import BodyWalk, body_start, may_walk
from penstock.wire.amqp10.composite import composite, encode_composite
from penstock.wire.amqp10.frames import frame
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.spec import DATA, TRANSFER
from penstock.wire.amqp10.transfer import TRANSFER_OVERHEAD, write_continuation
from penstock.wire.amqp10.value_walk import UNFIT
from penstock.wire.amqp10.values import CodecError

if TYPE_CHECKING:
    from penstock.protocols.amqp10.incoming_link import IncomingLink
    from penstock.protocols.amqp10.outgoing_link import OutgoingLink


class LargeDelivery(OutputSource):
    """A delivery whose first frame is written, up to its body."""

    def __init__(self, link: OutgoingLink, reader: LargeReader) -> None:
        self._link = link
        self._reader = reader
        self._waits: bool = False
        """True while the window of the session is used up."""
        reader.listener = _Wake(self)
        link.credit.paused = True

    def begin(self) -> None:
        """Begin to write, or continue after the window of the session was used up."""
        connection = self._link.session.connection
        self._waits = False
        connection.output.open_source(self)
        connection.request_flush()

    def go_on(self) -> None:
        """Go on writing: the next piece was read, or could not be."""
        session = self._link.session
        fault = self._reader.fault
        if not session.is_open():
            self.end()
        elif fault:
            self._link.detach(InternalError(f"a large message cannot be read from the store: {fault}"))
        else:
            session.connection.output.sources.append(self)
            session.connection.request_flush()

    def on_window(self) -> None:
        """Go on if only the window of the session was missing."""
        if self._waits:
            self.begin()

    @override
    def write_some(self, out: BytesWriter, parts: Parts) -> bool:
        link, reader = self._link, self._reader
        session = link.session
        if reader.left == 0 or not session.is_open():
            return False
        if session.windows.remote_incoming_window <= 0:
            self._waits = True
            reader.pause()
            session.connection.output.close_source(self)
            return False
        most = session.engine.peer_max_frame_size - TRANSFER_OVERHEAD
        octets = reader.ready(most if most < SHARE_OCTETS else SHARE_OCTETS)
        if octets == 0:
            return False
        more = reader.left > 0
        write_continuation(out, session.number, link.handle, more, octets)
        reader.write(out, parts)
        session.windows.count_sent(1)
        if not more:
            self.end()
            session.writer.on_large_sent(link)
        return more

    def abort(self) -> None:
        """Abort the delivery: its link is being detached. Without a window the detach alone announces that."""
        link = self._link
        session = link.session
        self.end()
        if session.is_open() and session.windows.remote_incoming_window > 0:
            aborted = composite(TRANSFER, handle=int(link.handle), more=False, aborted=True)
            session.engine.out.write(frame(int(session.number), encode_composite(aborted)))
            session.windows.count_sent(1)

    @override
    def end(self) -> None:
        self._reader.end()
        self._link.credit.paused = False
        self._link.session.connection.output.close_source(self)


class _Wake(PieceListener):
    """Wakes the delivery when a piece was read."""

    def __init__(self, delivery: LargeDelivery) -> None:
        self._delivery = delivery

    @override
    def on_piece(self, reader: LargeReader) -> None:
        self._delivery.go_on()


NO_DATA: Final = b"\x00\x53\x75\xa0\x00"
"""A data section without octets: the body of a head."""
NO_VALUE: Final = b"\x00\x53\x77\x40"
"""An amqp-value that is null: the same for a head whose message has an amqp-value."""


class PartialDelivery(PartialMessage):
    """The received part of a link's incomplete delivery."""

    def __init__(self, link: IncomingLink) -> None:
        super().__init__(link.session.connection)
        self._link = link

    @override
    def fail(self, error: BrokerError) -> None:
        self._link.detach(error)


class DeliveryAssembly:
    """The incomplete delivery of one link."""

    __deletable__ = ("_link",)

    def __init__(self, link: IncomingLink) -> None:
        self._link = link
        self.octets: i64 = 0
        """Octets of all its sections that have come."""
        self.fault: BrokerError | None = None
        """The reason why it will be rejected: the body of a large message is malformed. The rest of it is dropped."""
        self._partial: PartialDelivery | None = None
        """Charge of its octets in memory; None if there is no such delivery."""
        self._payloads: list[bytes] = []
        self._large_from: i64 = 0
        """Octets from which on it is looked at whether it is large; 0 if it never is."""
        self._head: bytes = b""
        self._walk: BodyWalk | None = None
        self._large: LargeMessage | None = None
        """The body, if it goes in pieces."""

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
        """Return the body of a complete delivery if it is large; None if it was put together, or has a fault."""
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
        """Return the sections of a complete delivery; those of a large one with an empty body."""
        return self._head if self._walk is not None else b"".join(self._payloads)

    def unlink(self) -> None:
        """Drop the link, which has ended."""
        del self._link

    def drop(self) -> None:
        """Drop the octets received so far."""
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
        """Let the body go in pieces if it has begun, and can be walked."""
        data = b"".join(self._payloads)
        self._payloads = [data]
        start = body_start(data, len(data))
        if start == UNFIT:
            self._large_from = 2 * self.octets  # It is copied each time.
            return
        self._large_from = 0
        if not may_walk(data, start):
            return
        head = data[:start] + (NO_DATA if data[start + 2] == DATA else NO_VALUE)
        sections = Sections()
        try:
            sections.walk(head, 0, len(head))
            if self._link.target.route_of(head, head, sections).target.control:
                return
        except (CodecError, BrokerError):
            pass  # It is told when the delivery is complete.
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
