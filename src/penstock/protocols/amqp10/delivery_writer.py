"""Delivery writer: transfer frames of one session, within the window of its peer (sections 2.5.6 and 2.7.5).

Deliveries that do not fit into the window wait here, in order: at most one batch, for the session receives no further
one meanwhile (`AmqpSession.receiving`).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from librt.strings import BytesWriter
from mypy_extensions import i64

from penstock.core.consume.consumer import Batch
from penstock.core.message import Message
from penstock.core.message_format import MessageFormat
from penstock.flow.timers import NEVER
from penstock.protocols.amqp10.address_annotations import annotations_octets, with_address
from penstock.protocols.amqp10.delivery_ids import SentIds
from penstock.protocols.amqp10.message_format import FIRST_OCTET
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.format_codes import SMALL_ULONG
from penstock.wire.amqp10.message_rewriter import header_octets
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.spec import MESSAGE_ANNOTATIONS
from penstock.wire.amqp10.transfer import TRANSFER_OVERHEAD, write_continuation, write_delivery

if TYPE_CHECKING:
    from penstock.protocols.amqp10.outgoing_link import OutgoingLink
    from penstock.protocols.amqp10.session import AmqpSession


class PendingDelivery:
    """A delivery of which some or all frames are not written yet."""

    __slots__ = ("link", "number", "tag", "payload", "sent")

    def __init__(self, link: OutgoingLink, number: i64, tag: i64, payload: bytes) -> None:
        self.link = link
        self.number: i64 = number
        self.tag: i64 = tag
        self.payload = payload
        self.sent: i64 = 0
        """Octets of the payload that are written."""


class DeliveryWriter:
    """Writer of the deliveries of one session."""

    def __init__(self, session: AmqpSession) -> None:
        self._session = session
        self.ids = SentIds()
        self._pending: deque[PendingDelivery] = deque()
        self._sections = Sections()

    def is_empty(self) -> bool:
        """Tell whether no delivery waits for the window."""
        return not self._pending

    def write(self, link: OutgoingLink, batch: Batch) -> None:
        """Write a batch, as far as the window permits."""
        session = self._session
        out = session.engine.out
        windows = session.windows
        largest = session.engine.peer_max_frame_size - TRANSFER_OVERHEAD
        settled = batch.consumer.no_ack
        number = batch.first
        ids = self.ids
        if number != ids.next_number and not self._pending:
            self._skip_to(number)
        for message in batch.messages:
            if message is not None:
                tag = link.next_tag
                link.next_tag = tag + 1
                header, content, start = self._parts(message)
                size: i64 = len(header) + len(content) - start
                if self._pending or size > largest or windows.remote_incoming_window <= 0:
                    self._pending.append(PendingDelivery(link, number, tag, header + content[start:]))
                else:
                    write_delivery(out, session.number, link.handle, ids.next_id, tag, settled, False, size)
                    out.write(header)
                    out.write(content if start == 0 else content[start:])
                    windows.count_sent(1)
                    ids.advance(1)
            number += 1
        if self._pending:
            self.go_on()

    def _skip_to(self, number: i64) -> None:
        """Continue with a later number: deliveries were dropped before their first frame."""
        unsettled = self._session.unsettled
        self.ids.skip_to(number, unsettled.front_number())

    def go_on(self) -> None:
        """Write what waits, as far as the window permits."""
        session = self._session
        windows = session.windows
        pending = self._pending
        while pending and windows.remote_incoming_window > 0:
            delivery = pending[0]
            self._write_frame(session.engine.out, delivery)
            windows.count_sent(1)
            if delivery.sent == len(delivery.payload):
                pending.popleft()
            session.connection.request_flush()

    def _write_frame(self, out: BytesWriter, delivery: PendingDelivery) -> None:
        session, link = self._session, delivery.link
        largest = session.engine.peer_max_frame_size - TRANSFER_OVERHEAD
        start = delivery.sent
        end: i64 = len(delivery.payload)
        if end - start > largest:
            end = start + largest
        more = end < len(delivery.payload)
        if start == 0:
            if delivery.number != self.ids.next_number:
                self._skip_to(delivery.number)
            settled = link.consumer.no_ack
            write_delivery(out, session.number, link.handle, self.ids.next_id, delivery.tag, settled, more, end)
            self.ids.advance(1)
        else:
            write_continuation(out, session.number, link.handle, more, end - start)
        out.write(delivery.payload[start:end])
        delivery.sent = end

    def forget(self, link: OutgoingLink) -> None:
        """Drop the deliveries of a detached link that are not complete."""
        if self._pending:
            self._pending = deque(delivery for delivery in self._pending if delivery.link is not link)

    def _parts(self, message: Message) -> tuple[bytes, bytes, i64]:
        """Return the beginning of a delivery, its content, and where the rest of it begins in the content."""
        content = message.content
        if content[0] != FIRST_OCTET:
            content = self._session.broker.formats.convert(content, self._format())
        envelope = message.envelope
        annotations = envelope.encoded.encoded if envelope.encoded.octet == FIRST_OCTET else b""
        if not annotations:
            annotations = annotations_octets(envelope)
        start: i64 = 0
        durable = envelope.persistent
        priority: i64 = ABSENT
        ttl: i64 = ABSENT
        if content[1] != SMALL_ULONG or content[2] <= MESSAGE_ANNOTATIONS:
            sections = self._sections
            sections.walk(content, 0, len(content))
            start = sections.annotated_at
            if sections.durable != ABSENT:
                durable = sections.durable == 1
            priority = sections.priority
            if sections.ttl != ABSENT:
                ttl = sections.ttl
                if envelope.ttl_s != NEVER:
                    waited_ms: i64 = int((self._session.broker.now - message.arrived) * 1000)
                    ttl = ttl - waited_ms if ttl > waited_ms else 0
            if sections.message_annotations != ABSENT:
                content = with_address(content, sections, envelope)
                annotations = b""
        header = header_octets(durable, priority, ttl, not message.redelivered, message.failures)
        return header + annotations, content, start

    def _format(self) -> MessageFormat:
        return self._session.broker.formats.by_octet(FIRST_OCTET)
