"""Receiver of AMQP 1.0: a link with credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.client.engine.amqp10.session import Link, Session
from penstock.client.engine.messages import MODIFIED, REJECTED, Delivery
from penstock.client.engine.receiver import ReceiverCore
from penstock.client.engine.terms import ReceiverTerms
from penstock.client.engine.waits import Call
from penstock.client.errors import ReceiverClosed
from penstock.content.properties import Properties
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, decode_composite, encode
from penstock.wire.amqp10.disposition import ACCEPTED_STATE, RELEASED_STATE, STATE_OCTETS_MAX, write_disposition
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.flow import Flow
from penstock.wire.amqp10.neutral_properties import annotations_of, properties_of
from penstock.wire.amqp10.neutral_values import to_amqp10
from penstock.wire.amqp10.node_addresses import queue_address
from penstock.wire.amqp10.sections import Sections, joined_data
from penstock.wire.amqp10.transfer import Transfer
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.values import Described, Symbol, ulong

if TYPE_CHECKING:
    from penstock.client.engine.amqp10.connection import Engine10
    from penstock.client.engine.amqp10.transaction import Transaction10

REASON_MAX = 255
"""Most letters of a reason; the broker keeps no more."""
SELECTOR = "apache.org:selector-filter:string"
"""Filter of a source: a selector of JMS."""


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
        self.receiver.end(ReceiverClosed(None, text))


class Receiver10(ReceiverCore):
    """Receiver with a link of its own."""

    def __init__(self, engine: Engine10, terms: ReceiverTerms, number: int) -> None:
        super().__init__(engine, terms)
        self.connection = engine
        self.annotates = True
        self.transaction: Transaction10 | None = None
        """Its transaction, with what the protocol knows of it."""
        self.name = terms.name or f"receiver-{number}"
        self.link: ReceiverLink | None = None
        self.received: i64 = 0
        """Delivery-count of the link."""
        self.credit: i64 = 0
        """Messages that the broker may still send."""
        self.prefetch: i64 = 1 if self.pulls else terms.prefetch
        self.sections = Sections()
        self.parts: list[bytes] = []
        """Frames of a delivery that is coming."""
        self.partial_id: i64 = ABSENT
        self.first_accepted: i64 = 0
        self.stopping: Call | None = None
        """Request that no more messages come, without an answer yet."""

    def attach(self) -> None:
        """Attach the link."""
        session = self.connection.session()
        link = self.link = ReceiverLink(session, self.name, self)
        self.received = 0
        self.credit = 0
        self.parts = []
        source: dict[str, object] = {}
        if self.terms.selector:
            selector = Described(Symbol(SELECTOR), self.terms.selector)
            source["filter"] = {Symbol(SELECTOR): selector}
        if self.terms.browses:
            source["distribution_mode"] = "copy"
        properties: dict[object, object] = {}
        if self.terms.window_bytes > 0 and self.engine.is_penstock():
            properties[Symbol("consumerWindowSize")] = ulong(self.terms.window_bytes)
        if self.terms.exclusive:
            properties[Symbol("exclusive")] = True
        link.attach(
            snd_settle_mode=0,
            rcv_settle_mode=0,
            source=composite(spec.SOURCE, address=queue_address(self.terms.queue), **source),
            target=composite(spec.TARGET, address=self.connection.terms.container),
            properties=properties,
        )

    def on_attach(self, attach: Composite) -> None:
        """Take the broker's attach."""
        self.is_attached = True
        self.wakes.finish(self.attached)
        if self.is_draining:
            return
        if not self.pulls:
            self._top_up()
        elif self.line:
            self.pull()

    def _top_up(self) -> None:
        link = self.link
        if link is not None:
            self.credit = self.prefetch
            link.session.write_flow(link, self.received, self.credit, ABSENT, False, self.engine.out)

    @override
    def pull(self) -> None:
        if self.credit == 0 and self.stopping is None:
            self._top_up()

    @override
    def stop(self) -> Call:
        if self.stopping is not None:
            return self.stopping
        call = Call("the drain of a link")
        link = self.link
        if link is None or self.credit == 0:
            call.done = True
            return call
        self.stopping = call
        link.session.write_flow(link, self.received, self.credit, ABSENT, True, self.engine.out)
        return call

    def on_flow(self, flow: Flow) -> None:
        """Take the answer to a drain: the credit is used up."""
        if self.stopping is None:
            return
        count = flow.delivery_count
        if count != ABSENT and (flow.link_credit == 0 or count == (self.received + self.credit) & 0xFFFFFFFF):
            self.received = count
            self.credit = 0
            self._stopped()

    def _stopped(self) -> None:
        call, self.stopping = self.stopping, None
        if call is not None:
            self.wakes.finish(call)
        if self.pulls and self.line and self.is_attached and not self.is_draining:
            self.pull()

    def on_transfer(self, data: bytes, transfer: Transfer, end: i64) -> None:
        """Take a frame of a delivery."""
        payload = data[transfer.payload : end]
        if transfer.more or self.partial_id != ABSENT:
            if self.partial_id == ABSENT:
                self.partial_id = transfer.delivery_id
            self.parts.append(payload)
            if transfer.aborted:
                self.parts = []
                self.partial_id = ABSENT
                return
            if transfer.more:
                return
            payload = b"".join(self.parts)
            number = self.partial_id
            self.parts = []
            self.partial_id = ABSENT
        else:
            number = transfer.delivery_id
        self.received += 1
        self.credit -= 1
        sections = self.sections
        sections.walk(payload, 0, len(payload))
        body = joined_data(payload, sections) if sections.body_code == spec.DATA else _other_body(payload, sections)
        delivery = Delivery(self, number, self.engine.epoch, body, payload, b"")
        delivery.is_settled = transfer.settled == 1
        self.arrived(delivery)
        if self.stopping is not None:
            if self.credit == 0:
                self._stopped()
        elif self.pulls:
            if self.line and not self.is_draining:
                self.pull()
        elif self.credit <= self.prefetch // 2 and not self.is_draining:
            self._top_up()

    @override
    def extends(self, tag: i64) -> bool:
        if self.to_acknowledge > 0 and tag != self.last_accepted + 1:
            self.flush()
        if self.to_acknowledge == 0:
            self.first_accepted = tag
        return True

    @override
    def write_range(self) -> None:
        link = self.link
        if link is not None:
            first, last = self.first_accepted, self.last_accepted
            state = ACCEPTED_STATE if self.transaction is None else self.transaction.state_of(ACCEPTED_STATE)
            write_disposition(self.engine.out, link.session.channel, True, first, last, True, state)

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
            state = self.transaction.state_of(state)
        if len(state) <= STATE_OCTETS_MAX:
            write_disposition(self.engine.out, link.session.channel, True, tag, tag, True, state)
            return
        found = decode_composite(state, 0, len(state))[0]
        link.session.put(spec.DISPOSITION, role=True, first=int(tag) & 0xFFFFFFFF, settled=True, state=found)

    @override
    def detach(self) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.detach()

    @override
    def lose(self) -> None:
        self.link = None
        self._stopped()
        self.parts = []
        self.partial_id = ABSENT
        super().lose()

    @override
    def end(self, error: Exception) -> None:
        self._stopped()
        super().end(error)

    def _walked(self, delivery: Delivery) -> Sections:
        sections = self.sections
        sections.walk(delivery.head, 0, len(delivery.head))
        return sections

    @override
    def properties_of(self, delivery: Delivery) -> Properties:
        return properties_of(delivery.head, self._walked(delivery))

    @override
    def redelivered(self, delivery: Delivery) -> bool:
        sections = self._walked(delivery)
        return sections.delivery_count > 0 or sections.first_acquirer == 0

    @override
    def origin_of(self, delivery: Delivery) -> tuple[str, str]:
        annotations = annotations_of(delivery.head, self._walked(delivery))
        exchange, key = annotations.get(Symbol("x-exchange")), annotations.get(Symbol("x-routing-key"))
        return exchange if isinstance(exchange, str) else "", key if isinstance(key, str) else ""


def _other_body(payload: bytes, sections: Sections) -> bytes:
    """Return a body that is no data: a string or binary as octets, any other as its encoded sections."""
    if sections.body_code == spec.AMQP_VALUE:
        found = decode_value(payload, int(sections.body_at) + 3)[0]
        if isinstance(found, bytes):
            return found
        if isinstance(found, str):
            return found.encode()
    return payload[sections.body_at : sections.body_end]
