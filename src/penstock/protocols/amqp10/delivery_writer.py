"""Delivery writer: transfer frames of one session, within the window of its peer (sections 2.5.6 and 2.7.5).

Deliveries that do not fit into the window wait here, in order: at most one batch, because the session receives no
further batch meanwhile (`AmqpSession.receiving`).

Large deliveries are sent within the window of the session. The first frame is written in order with the other
deliveries of the session. Then the delivery is a source of the connection's output, and alternates with other links and
sessions. The link of the delivery gets no other delivery until then (section 2.6.14): its credit is paused
(`LinkCredit.paused`).

A delivery whose link is detached meanwhile is aborted. If a piece cannot be read, the link is detached.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, read_i64_be
from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.connection_output import SHARE_OCTETS, OutputSource
from penstock.core.consume.consumer import Batch
from penstock.core.large_bodies import LargeBody, LargeReader, Parts, PieceListener, Span
from penstock.core.large_content import LARGE_OCTET, body_of, head_of, is_large
from penstock.core.message import NEVER_DELIVERED, Envelope, Message
from penstock.core.message_format import MessageFormat
from penstock.errors import InternalError
from penstock.flow.timers import NEVER
from penstock.protocols.amqp10.addresses import annotations_octets, with_address
from penstock.protocols.amqp10.delivery_ids import SentIds
from penstock.protocols.amqp10.message_format import FIRST_OCTET
from penstock.wire.amqp10.composite import Composite, composite, encode_composite
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.frames import frame
from penstock.wire.amqp10.sections import Sections, header_octets, header_skip
from penstock.wire.amqp10.spec import MESSAGE_ANNOTATIONS, TRANSFER
from penstock.wire.amqp10.transfer import (
    TRANSFER_OVERHEAD,
    delivery_head,
    write_continuation,
    write_delivery,
    write_delivery_head,
)
from penstock.wire.amqp10.value_walk import SMALL_ULONG, TRUE

if TYPE_CHECKING:
    from penstock.protocols.amqp10.outgoing_link import OutgoingLink
    from penstock.protocols.amqp10.session import AmqpSession

CONVERTED_WORK: Final = 2
OTHER_WORK: Final = 1
RESUMED_WORK: Final = 5
"""Units of work of a delivery that is converted, that has its own headers, or that resumes an earlier delivery."""
DATA_START: Final = b"\x00\x53\x75\xb0"
"""First bytes of a data section, up to its size in four bytes."""
PLAIN_FIRST: Final = 0x005373
PLAIN_LAST: Final = 0x005378
"""First three bytes of a message that begins with its properties or a later section, up to the footer."""


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
        """Continue: the next piece was read, or could not be read."""
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
        """Continue if the delivery waited only for the window of the session."""
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
        most = session.endpoint.peer_max_frame_size - TRANSFER_OVERHEAD
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
        """Abort the delivery: its link is being detached. Without a window only the detach announces the abort."""
        link = self._link
        session = link.session
        self.end()
        if session.is_open() and session.windows.remote_incoming_window > 0:
            aborted = composite(TRANSFER, handle=int(link.handle), more=False, aborted=True)
            session.connection.output.buffer.write(frame(int(session.number), encode_composite(aborted)))
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


class PendingDelivery:
    """A delivery with frames that are not written yet."""

    __slots__ = ("link", "number", "tag", "payload", "sent", "resumed", "state", "reader")

    def __init__(self, link: OutgoingLink, number: i64, tag: i64, payload: bytes) -> None:
        self.link = link
        self.number: i64 = number
        self.tag: i64 = tag
        self.payload = payload
        self.sent: i64 = 0
        """Bytes of the payload that are written."""
        self.resumed: bool = False
        self.state: Composite | None = None
        """Outcome of a resumed delivery that is settled."""
        self.reader: LargeReader | None = None
        """The body of a large message, which follows the payload."""

    def is_large(self) -> bool:
        """Return whether a body follows the payload."""
        return self.reader is not None and self.reader.left > 0


class DeliveryWriter:
    """Writer of the deliveries of one session."""

    __deletable__ = ("_session",)

    def __init__(self, session: AmqpSession) -> None:
        self._session = session
        self.ids = SentIds()
        self._pending: deque[PendingDelivery] = deque()
        self._large: dict[OutgoingLink, LargeDelivery] = {}
        """Large deliveries of which the beginning is written, by link."""
        self._drained: list[OutgoingLink] = []
        """Links to report as drained when all waiting deliveries are written."""
        self._sections = Sections()
        self._head_handle: i64 = ABSENT
        self._head: bytes = b""
        """Constant bytes of the deliveries of one link, and the handle of that link."""
        self._envelope: Envelope | None = None
        self._durable: bool = False
        self._start: bytes = b""
        """Header and annotations of a plain message with the last envelope and durability."""

    def waiting(self, link: OutgoingLink) -> i64:
        """Return the number of a link's deliveries without a written frame."""
        count: i64 = 0
        for delivery in self._pending:
            if delivery.link is link and delivery.sent == 0:
                count += 1
        return count

    def may_report_drained(self, link: OutgoingLink) -> bool:
        """Return whether a drained link may report now that it is drained.

        Otherwise the link is called back when all waiting deliveries are written.
        """
        if not self._pending and link not in self._large:
            return True
        if link not in self._drained:
            self._drained.append(link)
        return False

    def is_empty(self) -> bool:
        """Return whether no delivery waits for the window."""
        return not self._pending

    def write(self, link: OutgoingLink, batch: Batch) -> None:
        """Write a batch, within the session window.

        The loop is for messages without annotations and with at most the usual header, delivered for the first time.
        Such a delivery differs from the previous one in sizes and numbers only.
        """
        session = self._session
        out, ids = session.connection.output.buffer, self.ids
        head, settled = self._head_of(link.handle), link.sends_settled()
        largest = session.endpoint.peer_max_frame_size - TRANSFER_OVERHEAD
        left = self._room()
        sent: i64 = 0
        number, tag_base = batch.first, link.tag_base
        if number != ids.next_number and not self._pending:
            self._skip_to(number)
        next_id = ids.next_id
        envelope: Envelope | None = None
        was_durable = False
        for message in batch.messages:
            if message is not None:
                content = message.content
                size: i64 = len(content)
                start: i64 = 0
                if size < 8 or not PLAIN_FIRST <= read_i64_be(content, 0) >> 40 <= PLAIN_LAST:
                    content = self._content_of(message)
                    size = len(content)
                    start = _plain_start(content, size)
                if left > sent and start >= 0 and message.past == NEVER_DELIVERED:
                    durable = start > 0 and content[start - 1] == TRUE
                    if message.envelope is not envelope or durable is not was_durable:
                        envelope = message.envelope
                        was_durable = durable
                        self._fit(envelope, durable)
                    size += len(self._start) - start
                    if size <= largest:
                        write_delivery_head(out, head, session.number, next_id + sent, number + tag_base, settled, size)
                        out.write(self._start)
                        out.write(content if start == 0 else content[start:])
                        sent += 1
                        number += 1
                        continue
                self._count_sent(sent)
                sent = 0
                self._write_other(link, message, content, number, settled, largest)
                next_id = ids.next_id
                left = self._room()
            number += 1
        self._count_sent(sent)
        if self._pending:
            self.go_on()

    def _room(self) -> i64:
        """Return how many frames may be written before deliveries must wait."""
        return 0 if self._pending else self._session.windows.remote_incoming_window

    def _count_sent(self, deliveries: i64) -> None:
        """Count deliveries that were sent in one frame each."""
        self._session.windows.count_sent(deliveries)
        self.ids.advance(deliveries)

    def write_resumed(self, link: OutgoingLink, number: i64, tag: i64, message: Message) -> None:
        """Write an unsettled delivery of a resumed link."""
        if is_large(message.content):
            self._resume(self._large_parts(link, number, tag, message))
        else:
            header, content, start = self._parts(message, self._content_of(message))
            self._resume(PendingDelivery(link, number, tag, header + content[start:]))

    def write_outcome(self, link: OutgoingLink, number: i64, tag: i64, state: Composite | None) -> None:
        """Write the outcome of a delivery whose outcome was decided while its link was suspended."""
        delivery = PendingDelivery(link, number, tag, b"")
        delivery.state = state
        self._resume(delivery)

    def _resume(self, delivery: PendingDelivery) -> None:
        self._session.broker.work.done += RESUMED_WORK
        delivery.resumed = True
        self._pending.append(delivery)
        self.go_on()

    def _skip_to(self, number: i64) -> None:
        """Continue with a later number: deliveries were dropped before their first frame."""
        unsettled = self._session.unsettled
        self.ids.skip_to(number, unsettled.front_number())

    def _head_of(self, handle: i64) -> bytes:
        """Return the constant bytes of deliveries on a link; rebuilt when the link changes."""
        if handle != self._head_handle:
            self._head = delivery_head(handle)
            self._head_handle = handle
        return self._head

    def _fit(self, envelope: Envelope, durable: bool) -> None:
        """Build header and annotations of the first delivery of a message with this envelope and without
        annotations."""
        if envelope is not self._envelope or durable is not self._durable:
            self._envelope = envelope
            self._durable = durable
            self._start = header_octets(durable) + annotations_octets(envelope)

    def _write_other(
        self, link: OutgoingLink, message: Message, content: bytes, number: i64, settled: bool, largest: i64
    ) -> None:
        """Write one delivery of any kind, or queue it."""
        session = self._session
        session.broker.work.done += OTHER_WORK
        out = session.connection.output.buffer
        windows = session.windows
        tag = number + link.tag_base
        if is_large(message.content):
            self._pending.append(self._large_parts(link, number, tag, message))
            return
        header, content, start = self._parts(message, content)
        size: i64 = len(header) + len(content) - start
        if self._pending or size > largest or windows.remote_incoming_window <= 0:
            self._pending.append(PendingDelivery(link, number, tag, header + content[start:]))
            return
        head = self._head_of(link.handle)
        write_delivery_head(out, head, session.number, self.ids.next_id, tag, settled, size)
        out.write(header)
        out.write(content if start == 0 else content[start:])
        self._count_sent(1)

    def go_on(self) -> None:
        """Write waiting deliveries, within the session window."""
        session = self._session
        windows = session.windows
        pending = self._pending
        while pending and windows.remote_incoming_window > 0 and pending[0].link not in self._large:
            delivery = pending[0]
            self._write_frame(session.connection.output.buffer, delivery)
            windows.count_sent(1)
            if delivery.sent == len(delivery.payload):
                pending.popleft()
                if delivery.reader is not None and delivery.is_large():
                    large = LargeDelivery(delivery.link, delivery.reader)
                    self._large[delivery.link] = large
                    large.begin()
            session.connection.request_flush()
        if self._drained and not pending and session.is_open():
            drained = self._drained
            self._drained = []
            for link in drained:
                link.on_drained()

    def on_window(self) -> None:
        """Continue after a flow of the peer, with large deliveries too."""
        self.go_on()
        if self._large:
            for large in list(self._large.values()):
                large.on_window()

    def on_large_sent(self, link: OutgoingLink) -> None:
        """Continue after a large delivery is complete."""
        del self._large[link]
        was_empty = self.is_empty()
        self.go_on()
        session = self._session
        session.on_credit_restored(link.consumer)
        if not was_empty and self.is_empty():
            session.wake_waiting()
        if link.resumption is not None:
            link.resumption.send()

    def _write_frame(self, out: BytesWriter, delivery: PendingDelivery) -> None:
        session, link = self._session, delivery.link
        largest = session.endpoint.peer_max_frame_size - TRANSFER_OVERHEAD
        start = delivery.sent
        end: i64 = len(delivery.payload)
        if end - start > largest:
            end = start + largest
        more = end < len(delivery.payload) or delivery.is_large()
        if start == 0:
            if delivery.number != self.ids.next_number:
                self._skip_to(delivery.number)
            if delivery.resumed:
                out.write(self._resumed_frame(delivery, more))
            else:
                settled = link.sends_settled()
                write_delivery(out, session.number, link.handle, self.ids.next_id, delivery.tag, settled, more, end)
            self.ids.advance(1)
        else:
            write_continuation(out, session.number, link.handle, more, end - start)
        out.write(delivery.payload[start:end])
        delivery.sent = end

    def _resumed_frame(self, delivery: PendingDelivery, more: bool) -> bytes:
        """Return the first frame of a resumed delivery up to its payload; the frame's size includes the payload."""
        end: i64 = len(delivery.payload)
        most = self._session.endpoint.peer_max_frame_size - TRANSFER_OVERHEAD
        performative = encode_composite(
            composite(
                TRANSFER,
                handle=int(delivery.link.handle),
                delivery_id=int(self.ids.next_id),
                delivery_tag=int(delivery.tag).to_bytes(8, "big"),
                message_format=0,
                settled=delivery.state is not None,
                more=more,
                state=delivery.state,
                resume=True,
            )
        )
        size = min(end, most)
        return frame(int(self._session.number), performative + bytes(int(size)))[: len(performative) + 8]

    def forget(self, link: OutgoingLink) -> i64:
        """Drop the incomplete deliveries of a detached link.

        Return the first number from which the peer has no complete delivery; 0 if a large delivery was being written.
        """
        first = self._session.unsettled.next_number
        for delivery in self._pending:
            if delivery.link is link and delivery.number < first:
                first = delivery.number
        large = self._large.pop(link, None)
        if large is not None:
            large.abort()
            first = 0
        if self._pending:
            self._pending = deque([delivery for delivery in self._pending if delivery.link is not link])
            self._drained = [drained for drained in self._drained if drained is not link]
            self.go_on()
        return first

    def end(self) -> None:
        """End large deliveries: the connection is gone."""
        for large in self._large.values():
            large.end()
        self._large = {}

    def unlink(self) -> None:
        """Drop an ended session, with its unwritten deliveries."""
        self._pending.clear()
        self._drained = []
        del self._session

    def _large_parts(self, link: OutgoingLink, number: i64, tag: i64, message: Message) -> PendingDelivery:
        """Return the delivery of a large message: its head, and a reader of its body."""
        body = body_of(message.content)
        assert body is not None
        payload, spans = self._large_head(message, body)
        delivery = PendingDelivery(link, number, tag, payload)
        delivery.reader = body.open(self._session.broker.large, spans, PieceListener())
        return delivery

    def _large_head(self, message: Message, body: LargeBody) -> tuple[bytes, list[Span]]:
        """Return the bytes before the body of a large message, and the parts of the body after them."""
        head = head_of(message.content)
        is_ours = head[0] == FIRST_OCTET
        header, content, start = self._parts(message, head)
        self._sections.walk(content, 0, len(content))
        payload = header + content[start : self._sections.body_at]
        spans = [Span(0, body.octets)]
        if not is_ours:
            payload += DATA_START + int(body.data_octets()).to_bytes(4, "big")
            spans = body.spans
        return payload, spans

    def octets_of(self, message: Message) -> i64:
        """Return the bytes of the delivery of a message."""
        body = body_of(message.content)
        if body is None:
            header, content, start = self._parts(message, self._content_of(message))
            return len(header) + len(content) - start
        payload, spans = self._large_head(message, body)
        octets: i64 = len(payload)
        for span in spans:
            octets += span.octets
        return octets

    def _content_of(self, message: Message) -> bytes:
        """Return the content of a message in the format of AMQP 1.0; for a large message, the reference to its body."""
        content = message.content
        if content and (content[0] == FIRST_OCTET or content[0] == LARGE_OCTET):
            return content
        self._session.broker.work.done += CONVERTED_WORK
        return self._session.broker.formats.convert(content, self._format())

    def _parts(self, message: Message, content: bytes) -> tuple[bytes, bytes, i64]:
        """Return the beginning of a delivery, its content, and the position in the content from which it is sent."""
        if content[0] != FIRST_OCTET:
            content = self._session.broker.formats.convert(content, self._format())
        envelope = message.envelope
        annotations = envelope.encoded.encoded if envelope.encoded.octet == FIRST_OCTET else b""
        if not annotations:
            annotations = annotations_octets(envelope)
        start: i64 = 0
        durable = False  # The specification's default, though the message was stored: JMSDeliveryMode is the sender's.
        priority: i64 = ABSENT
        ttl: i64 = ABSENT
        first = not message.redelivered
        if content[1] != SMALL_ULONG or content[2] <= MESSAGE_ANNOTATIONS:
            sections = self._sections
            sections.walk_beginning(content, 0, len(content))
            start = sections.annotated_at
            if sections.durable != ABSENT:
                durable = sections.durable == 1
            priority = sections.priority
            first = first and sections.first_acquirer != 0  # The publisher may have set it for an earlier link (3.2.1).
            if sections.ttl != ABSENT:
                ttl = sections.ttl
                if envelope.ttl_s != NEVER:
                    waited_ms: i64 = int((self._session.broker.now - message.arrived) * 1000)
                    ttl = ttl - waited_ms if ttl > waited_ms else 0
            if sections.message_annotations != ABSENT:
                content = with_address(content, sections, envelope)
                annotations = b""
        header = header_octets(durable, priority, ttl, first, message.failures)
        return header + annotations, content, start

    def _format(self) -> MessageFormat:
        return self._session.broker.formats.by_octet(FIRST_OCTET)


def _plain_start(content: bytes, size: i64) -> i64:
    """Return where the unchanged part of a plain message begins; `ABSENT` for another message.

    A plain message has no annotations, and no header or a header with only `durable`.
    """
    if size < 8:
        return ABSENT
    if PLAIN_FIRST <= read_i64_be(content, 0) >> 40 <= PLAIN_LAST:
        return 0
    start = header_skip(content, 0, size)
    if start > 0 and size - start >= 8 and PLAIN_FIRST <= read_i64_be(content, start) >> 40 <= PLAIN_LAST:
        return start
    return ABSENT
