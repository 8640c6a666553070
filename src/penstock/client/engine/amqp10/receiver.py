"""Receiver of AMQP 1.0: a link with credit."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.client.engine.amqp10.addresses import address_of, capabilities_of
from penstock.client.engine.amqp10.corrections import corrected
from penstock.client.engine.amqp10.session import Link, Session, Sessions, TransactionalState
from penstock.client.engine.outcomes import ConnectionLost
from penstock.client.engine.receiver import MODIFIED, REJECTED, Delivery, ReceiverCore
from penstock.client.engine.terms import ReceiverTerms
from penstock.client.engine.waits import Call, Steps
from penstock.client.errors import LinkClosed, ReceiverClosed
from penstock.content.properties import Properties
from penstock.markers import override
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, decode_composite, encode
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor
from penstock.wire.amqp10.neutral_reader import annotations_of, properties_of
from penstock.wire.amqp10.neutral_values import COPIES, to_amqp10
from penstock.wire.amqp10.sections import (
    SUBJECT,
    USER_ID,
    Sections,
    data_alone,
    header_octets,
    joined_data,
    property_at,
)
from penstock.wire.amqp10.transfer import (
    ACCEPTED_STATE,
    RELEASED_STATE,
    STATE_OCTETS_MAX,
    Flow,
    Transfer,
    write_disposition,
)
from penstock.wire.amqp10.value_walk import BINARY8, BINARY32, STRING8, STRING32, SYMBOL8, SYMBOL32, text_at
from penstock.wire.amqp10.values import CodecError, Described, Symbol, ulong

REASON_MAX: Final = 255
"""Most characters of a reason; the broker stores no more."""
SELECTOR: Final = "apache.org:selector-filter:string"
"""Filter of a source: a selector of JMS."""
_NO_HEAD: Final = b"\x00\x53\x75\xa0\x00"
"""Message whose only section is the body, without the bytes of that section."""
SETTLED: Final = 1
"""Mode of a sender that forgets each message when it sends it."""
_COPIES: Final = COPIES.encode()
"""Annotation by which a broker routes copies."""
_SMALL: Final = (BINARY8, STRING8, SYMBOL8)
_LARGE: Final = (BINARY32, STRING32, SYMBOL32)
"""Format codes of binary values: with a size of one byte, and of four bytes."""


class ReceiverLink(Link):
    """Link of a receiver, as its session sees it."""

    def __init__(self, session: Session, name: str, receiver: Receiver10) -> None:
        super().__init__(session, name, True)
        self.receiver = receiver

    @override
    def on_attach(self, attach: Composite) -> None:
        if attach.inner("source") is not None:
            self.receiver.on_attach(attach)

    @override
    def on_flow(self, flow: Flow) -> None:
        self.receiver.on_flow(flow)

    @override
    def on_transfer(self, data: bytes, transfer: Transfer, end: i64) -> None:
        self.receiver.on_transfer(data, transfer, end)

    @override
    def on_detach(self, code: str, text: str) -> None:
        self.receiver.end(ReceiverClosed(code or None, text))


class Receiver10(ReceiverCore):
    """Receiver with a link of its own."""

    def __init__(self, sessions: Sessions, terms: ReceiverTerms) -> None:
        super().__init__(sessions.engine, terms)
        self.sessions = sessions
        self.annotates = True
        self.transaction: TransactionalState | None = None
        """Transactional state of settlements, in a transaction."""
        self.name = terms.name or sessions.new_name("receiver")
        self.link: ReceiverLink | None = None
        self.received: i64 = 0
        """Delivery-count of the link."""
        self.credit: i64 = 0
        """Messages that the broker may still send."""
        self.prefetch: i64 = 1 if self.pulls else terms.prefetch
        self.window: i64 = -1
        """Bytes that may wait here, if the broker does not limit them; -1 without a limit."""
        self.waiting_octets: i64 = 0
        """Bytes of the waiting bodies, if there is such a limit."""
        self.usual_octets: i64 = 0
        """Expected bytes of the next message: those of the latest messages; 0 before the first."""
        self.sections = Sections()
        self.walked: bytes = b""
        """Bytes whose sections are in `sections`."""
        self.before: bytes = b""
        """Bytes before the body of the last message whose body was one data section, which many messages share."""
        self.passed_from: bytes = b""
        self.passed: bytes | None = None
        self.passed_at: i64 = ABSENT
        """Bytes of the last message that was passed on, what precedes its body there, and the start of a body in these
        bytes that is not one data section.
        """
        self.parts: list[bytes] = []
        """Frames of the delivery that is arriving."""
        self.partial_id: i64 = ABSENT
        self.first_accepted: i64 = 0
        self.stopping: list[Call] = []
        """Calls that wait until no more messages arrive."""
        self.count_calls: list[Call] = []
        """Calls that wait for the number of messages in the queue."""

    @override
    def attach(self) -> None:
        """Attach the link."""
        session = self.sessions.session()
        link = self.link = ReceiverLink(session, self.name, self)
        self.received = 0
        self.credit = 0
        self.parts = []
        self.window = -1 if self.engine.is_penstock() else self.terms.window_bytes
        self.waiting_octets = 0
        source: dict[str, object] = {
            "distribution_mode": "copy" if self.terms.browses else "move",
            "capabilities": capabilities_of(self.terms.queue),
        }
        if self.terms.selector:
            selector = Described(Symbol(SELECTOR), self.terms.selector)
            source["filter"] = {Symbol(SELECTOR): selector}
        properties: dict[object, object] = {}
        if self.terms.window_bytes > 0 and self.engine.is_penstock():
            properties[Symbol("consumerWindowSize")] = ulong(self.terms.window_bytes)
        if self.terms.exclusive:
            properties[Symbol("exclusive")] = True
        link.attach(
            snd_settle_mode=0,
            rcv_settle_mode=0,
            source=composite(spec.SOURCE, address=address_of(self.terms.queue, self.engine.server), **source),
            target=composite(spec.TARGET, address=self.engine.terms.container),
            properties=properties,
        )

    def on_attach(self, attach: Composite) -> None:
        """Handle the broker's attach."""
        self.received = attach.number("initial_delivery_count", 0)
        if attach.number("snd_settle_mode") == SETTLED and not self.terms.browses:
            self.detach()
            text = "sends its messages without waiting for their outcome, so that a crash would lose them"
            self.end(LinkClosed("amqp:not-implemented", f"the address {self.terms.queue} {text}"))
            return
        self.is_attached = True
        self.wakes.finish(self.attached)
        if self.is_draining:
            return
        if not self.pulls:
            self._top_up()
        elif self.line:
            self.pull()

    def _top_up(self) -> None:
        """Grant as much credit as the prefetch leaves; unsettled messages count, as with basic.qos."""
        link = self.link
        unsettled = 0 if self.pulls else self.unsettled_count + len(self.ready)
        room = self.prefetch - unsettled
        if self.window > 0:
            room = min(room, self._fitting())
        if link is not None and room > self.credit:
            self.credit = room
            link.session.write_flow(link, self.received, self.credit, ABSENT, False)

    def _fitting(self) -> i64:
        """Return how many messages of the latest size have room in the window; at least one if none waits."""
        if self.usual_octets == 0:
            return 1  # The first message determines the size.
        fitting = (self.window - self.waiting_octets) // self.usual_octets
        return max(fitting, 0 if self.ready else 1)

    @override
    def arrived(self, delivery: Delivery) -> None:
        if self.window > 0:
            size: i64 = max(len(delivery.body), 1)
            self.waiting_octets += size
            self.usual_octets = max(size, (7 * self.usual_octets + size) // 8)
        super().arrived(delivery)
        self._review_window()

    @override
    def handed_over(self, delivery: Delivery) -> None:
        if self.window > 0:
            self.waiting_octets -= max(len(delivery.body), 1)
            self._review_window()

    def _review_window(self) -> None:
        """Grant credit again when half of the window is free."""
        if self.window > 0 and self.is_attached and not self.pulls and not self.is_draining:
            left = self.waiting_octets + self.credit * self.usual_octets
            if left * 2 <= self.window or (self.credit <= 0 and not self.ready):
                self._top_up()

    @override
    def make_room(self) -> None:
        # Credit is granted again when settlements leave room for half of the prefetch.
        room = self.prefetch - self.unsettled_count - len(self.ready) - self.credit
        if room >= (self.prefetch + 1) // 2 and self.is_attached and not self.pulls and not self.is_draining:
            self._top_up()

    @override
    def pull(self) -> None:
        if self.credit == 0 and not self.stopping:
            self._top_up()

    @override
    def stop(self) -> Call:
        call = Call("the drain of a link")
        link = self.link
        if link is None or (self.credit == 0 and not self.stopping):
            call.done = True
            return call
        self.stopping.append(call)
        if len(self.stopping) > 1:
            return call
        self.is_empty = not self.parts
        link.session.write_flow(link, self.received, self.credit, ABSENT, True)
        return call

    @override
    def getting(self) -> Steps[Delivery | None]:
        link = self.link
        if self.error is None and link is not None and self.credit == 0 and not self.ready:
            self.credit = 1
            link.session.write_flow(link, self.received, 1, ABSENT, False)
            yield from self._asking(self.stop())
        return self.take_now()

    @override
    def ask_available(self) -> Call:
        link, call = self.link, Call("a flow")
        if link is None or not self.is_attached:
            call.done = True
            call.error = ConnectionLost(None, self.engine.lost_reason)
            return call
        link.session.write_flow(link, self.received, self.credit, ABSENT, False, True)
        self.count_calls.append(call)
        return call

    def on_flow(self, flow: Flow) -> None:
        """Handle the answer to a drain (the credit is used up), and the number of waiting messages."""
        link, count = self.link, flow.delivery_count
        calls, self.count_calls = self.count_calls, []
        for call in calls:
            # The number is an estimate, and brokers that do not report it send 0 (section 2.7.4).
            call.value = {"message_count": int(flow.available) if flow.available > 0 else None}
            self.wakes.finish(call)
        if flow.echo and link is not None:
            link.session.write_flow(link, self.received, self.credit, ABSENT, bool(self.stopping))
        if not self.stopping:
            return
        if count == (self.received + self.credit) & 0xFFFFFFFF:
            self.received = count
            self.credit = 0
            self._stopped()

    def _stopped(self) -> None:
        calls, self.stopping = self.stopping, []
        for call in calls:
            self.wakes.finish(call)
        if self.pulls and self.line and self.is_attached and not self.is_draining:
            self.pull()

    def on_transfer(self, data: bytes, transfer: Transfer, end: i64) -> None:
        """Handle a frame of a delivery."""
        start = transfer.payload
        if self.partial_id == ABSENT:
            if transfer.delivery_id == ABSENT:
                raise CodecError("the first transfer of a delivery without its delivery-id")
            self.received += 1
            self.credit -= 1
            self.is_empty = False
        elif transfer.delivery_id != ABSENT and transfer.delivery_id != self.partial_id:
            raise CodecError("the transfer of another delivery before the end of the last one")
        number = transfer.delivery_id
        if transfer.more or self.partial_id != ABSENT:
            if self.partial_id == ABSENT:
                self.partial_id = number
            self.parts.append(data[start:end])
            if transfer.more and not transfer.aborted:
                return
            data = b"".join(self.parts)
            start = 0
            end = len(data)
            number = self.partial_id
            self.parts = []
            self.partial_id = ABSENT
        if not transfer.aborted:
            is_settled = transfer.settled == 1
            before = self.before
            stop = start + len(before)
            at: i64 = 0
            if stop < end and data[start:stop] == before:
                at = data_alone(data, stop, end)
            if at > 0:
                delivery = Delivery(self, number, self.engine.epoch, data[at:end], before or _NO_HEAD, b"")
                delivery.is_settled = is_settled
                self.arrived(delivery)
            else:
                self._arrived(number, data[start:end], is_settled)
        else:
            self.make_room()  # The delivery has used up credit, and is not settled later.
            self._review_window()
        if self.stopping:
            if self.credit == 0:
                self._stopped()
        elif self.pulls and self.line and not self.is_draining:
            self.pull()

    def _arrived(self, number: i64, payload: bytes, is_settled: bool) -> None:
        """Handle a complete message; an invalid message, even with RabbitMQ's mistakes corrected, ends the link."""
        sections = self.sections
        self.walked = b""
        try:
            sections.walk(payload, 0, len(payload))
        except CodecError:
            try:
                payload = corrected(payload)
                sections.walk(payload, 0, len(payload))
            except CodecError as error:
                self.detach()
                text = f"a message in {self.terms.queue} is malformed: {error.reason}; take it out of its queue"
                self.end(LinkClosed("amqp:decode-error", text))
                return
        body = body_of(payload, sections)
        if data_alone(payload, sections.body_at, len(payload)) > 0:
            self.before = payload[: sections.body_at]
        delivery = Delivery(self, number, self.engine.epoch, body, payload, b"")
        delivery.is_settled = is_settled
        self.arrived(delivery)

    @override
    def extends(self, tag: i64) -> bool:
        if self.to_acknowledge > 0 and tag != self.last_accepted + 1:
            self.flush()
        if self.to_acknowledge == 0:
            self.first_accepted = tag
        return True

    @override
    def _write_range(self) -> None:
        link = self.link
        if link is not None:
            first, last = self.first_accepted, self.last_accepted
            state = ACCEPTED_STATE if self.transaction is None else self.transaction.with_outcome(ACCEPTED_STATE)
            write_disposition(self.engine.out, link.session.channel, True, first, last, True, state)
            self.make_room()

    @override
    def write_outcome(self, tag: i64, outcome: i64, reason: str, annotations: dict[str, object] | None) -> None:
        link = self.link
        if link is None:
            return
        state = RELEASED_STATE
        if outcome == REJECTED:
            error = composite(spec.ERROR, condition="penstock:rejected", description=reason[:REASON_MAX])
            state = encode(spec.REJECTED, error=error) if reason else encode(spec.REJECTED)
        elif outcome == MODIFIED:
            added = {Symbol(name): to_amqp10(value) for name, value in (annotations or {}).items()} or None
            state = encode(
                spec.MODIFIED,
                delivery_failed=True,
                undeliverable_here=bool(reason) or None,
                message_annotations=added,
            )
        if self.transaction is not None:
            state = self.transaction.with_outcome(state)
        if len(state) <= STATE_OCTETS_MAX:
            write_disposition(self.engine.out, link.session.channel, True, tag, tag, True, state)
        else:
            found = decode_composite(state, 0, len(state))[0]
            link.session.put(spec.DISPOSITION, role=True, first=int(tag) & 0xFFFFFFFF, settled=True, state=found)
        self.make_room()

    @override
    def detach(self) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.detach()

    @override
    def lose(self) -> None:
        self.link = None
        self._stopped()
        self.count_calls = []
        self.parts = []
        self.partial_id = ABSENT
        super().lose()

    @override
    def end(self, error: Exception) -> None:
        self._stopped()
        super().end(error)

    def _walked(self, delivery: Delivery) -> Sections:
        sections, head = self.sections, delivery.head
        if head is not self.walked:
            self.walked = b""
            sections.walk(head, 0, len(head))
            self.walked = head
        return sections

    @override
    def properties_of(self, delivery: Delivery) -> Properties:
        return properties_of(delivery.head, self._walked(delivery))

    @override
    def passed_head(self, delivery: Delivery) -> bytes | None:
        if delivery.head is not self.passed_from:
            self.passed = self._head_of(delivery)  # Walks the sections, which the next line reads.
            self.passed_from = delivery.head
            self.passed_at = self._whole_at(delivery.head)
        return self.passed

    @override
    def passed_content(self, delivery: Delivery) -> bytes | None:
        before = self.passed_head(delivery)
        return None if before is None or self.passed_at == ABSENT else before + delivery.head[self.passed_at :]

    def _whole_at(self, head: bytes) -> i64:
        """Return the start of the body in bytes that were just walked; `ABSENT` if the body is apart, or plain data."""
        sections = self.sections
        if sections.body_code == ABSENT or data_alone(head, sections.body_at, len(head)) > 0:
            return ABSENT
        return sections.body_at

    def _head_of(self, delivery: Delivery) -> bytes | None:
        """Return the sections before the body for another link: a new header, and no delivery annotations, which are
        for this link alone (section 3.2.2).
        """
        head, sections = delivery.head, self._walked(delivery)
        if _COPIES in head or property_at(head, sections.properties, len(head), USER_ID) != ABSENT:
            return None
        header = header_octets(sections.durable == 1, sections.priority, sections.ttl)
        return header + head[sections.annotated_at : sections.body_at]

    @override
    def redelivered(self, delivery: Delivery) -> bool:
        sections = self._walked(delivery)
        # A header without first-acquirer leaves open whether the message was acquired before (section 3.2.1).
        return sections.delivery_count > 0 or sections.first_acquirer != 1

    @override
    def origin_of(self, delivery: Delivery) -> tuple[str, str]:
        head, sections = delivery.head, self._walked(delivery)
        annotations = annotations_of(head, sections)
        exchange, key = _text(annotations.get(Symbol("x-exchange"))), annotations.get(Symbol("x-routing-key"))
        if key is not None:
            return exchange, _text(key)
        pos = property_at(head, sections.properties, len(head), SUBJECT)
        return exchange, "" if pos == ABSENT else text_at(head, pos) or ""


def _text(value: object) -> str:
    return value.text if isinstance(value, Symbol) else value if isinstance(value, str) else ""


def body_of(payload: bytes, sections: Sections) -> bytes:
    """Return the body of a message with known sections."""
    return joined_data(payload, sections) if sections.body_code == spec.DATA else other_body(payload, sections)


def other_body(payload: bytes, sections: Sections) -> bytes:
    """Return a body that is no data: a text or binary as bytes, any other as its encoded sections; empty without
    one.
    """
    if sections.body_code == ABSENT:
        return b""
    if sections.body_code == spec.AMQP_VALUE:
        cursor = FieldCursor()
        cursor.open(payload, sections.body_at, sections.body_end)
        pos = cursor.pos
        if payload[pos] in _SMALL:
            return payload[pos + 2 : sections.body_end]
        if payload[pos] in _LARGE:
            return payload[pos + 5 : sections.body_end]
    return payload[sections.body_at : sections.body_end]
