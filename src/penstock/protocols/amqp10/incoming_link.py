"""Incoming link: the messages that a peer sends, its credit, and their outcomes (section 2.6)."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.audit_trail import audit_refusal
from penstock.connections.client_profiles import Profile
from penstock.core.large_bodies import LargeBody
from penstock.core.large_content import large_content
from penstock.core.publish.admission import describe_target
from penstock.core.publish.connection_gates import take_counts
from penstock.core.publish.credit_state import is_draining
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_listener import ProducerListener
from penstock.core.routing.route import Route
from penstock.errors import (
    BrokerError,
    ContentTooLarge,
    InvalidField,
    NotFound,
    NotImplementedHere,
    ResourceError,
    TransferLimitExceeded,
    TransferViolation,
)
from penstock.flow.gate import Gate
from penstock.flow.level import OVERHEAD
from penstock.flow.series import Tally
from penstock.flow.timers import NEVER
from penstock.protocols.amqp10.addresses import Unroutable
from penstock.protocols.amqp10.delayed_route import delayed_route
from penstock.protocols.amqp10.delivery_assembly import DeliveryAssembly
from penstock.protocols.amqp10.delivery_ids import DeliveryIds
from penstock.protocols.amqp10.delivery_outcomes import (
    REJECTED_NAME,
    RELEASED_NAME,
    hears,
    rejected_state,
    write_outcome,
)
from penstock.protocols.amqp10.error_scopes import (
    MalformedMessage,
    check_annotations,
    delivery_info,
    error_composite,
)
from penstock.protocols.amqp10.link import (
    LINK_ATTACHED,
    MIXED,
    SECOND,
    SETTLED,
    Link,
    LinkEndings,
    sender_profile,
)
from penstock.protocols.amqp10.link_credit import CreditRequest, blocked_properties
from penstock.protocols.amqp10.session import AmqpSession
from penstock.protocols.amqp10.side_lanes import SideLane, SideLanes
from penstock.protocols.amqp10.suspended_links import Expiry, SuspendedSender
from penstock.protocols.amqp10.target import AnonymousTarget, Target
from penstock.protocols.amqp10.transactions import Posting
from penstock.protocols.amqp10.unsent_outcomes import UnsentOutcomes
from penstock.texts import worded
from penstock.wire.amqp10.composite import Composite, composite, encode_composite
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.spec import REJECTED, TRANSACTIONAL_STATE
from penstock.wire.amqp10.transfer import ACCEPTED_STATE, RELEASED_STATE, Flow, Transfer
from penstock.wire.amqp10.values import CodecError, serial_distance

REPORTED_AGAIN_S: Final = 1.0
"""Least seconds between two flows that announce the same blocking gate to a sender."""


class IncomingLink(Link):
    """A link whose sender is the peer."""

    def __init__(self, session: AmqpSession, attach: Composite, target: Target) -> None:
        super().__init__(session, attach)
        request = CreditRequest(session, self.link_name, target, attach)  # It may be refused: the producer comes later.
        connection = session.connection
        self.profile: Profile = sender_profile(session.endpoint.container, attach)
        self.target: Target = target
        self.delivery_count: i64 = attach.number("initial_delivery_count", 0)
        self.max_message_size: i64 = target.largest_message(connection.limits.message_bytes_max)
        """Bytes of the largest message that the link accepts."""
        self.settle_mode: i64 = attach.number("snd_settle_mode", MIXED)
        self.second: bool = self.profile.settles and attach.number("rcv_settle_mode", 0) == SECOND
        """True if the broker settles after the sender has settled, unless the transfer says otherwise."""
        self._second: bool = self.second
        """Value of `second` for the last delivery."""
        self.expiry = Expiry(attach.inner("target"))
        self.unsent = UnsentOutcomes(session.endpoint.unsent)
        """Deliveries whose outcome their sender does not know."""
        self._tag: bytes = b""
        """Delivery-tag of the last delivery that was resumed, was sent to the anonymous terminus, or came in several
        frames."""
        self.producer: Producer = self._new_producer(request)
        self.lanes: SideLanes | None = SideLanes(self, self.producer) if target.node is None else None
        """Lanes beside the link's own producer; None for a link with one target."""
        self._hears_rejected: bool = hears(attach, REJECTED_NAME)
        """False if the sender does not know `rejected`: the link is detached instead."""
        self._hears_released: bool = self.profile.hears_released and hears(attach, RELEASED_NAME)
        """False if the sender does not know `released`: an unroutable message is rejected."""
        self.unheard: BrokerError | None = None
        """Error of a refused publish that the `rejected` outcome cannot express: the link is detached with it."""
        self.producer.confirming = True
        self.ids = DeliveryIds()
        self.credit = request.credit(self.producer)
        self.credit.passes_held = self.lanes is not None
        self.credit.idle.asks = self.profile.answers_drain or self.credit.exact
        self._reported_at: float = -NEVER
        """Time of the last flow that announced the blocking gate, in monotonic seconds."""
        self._reported: Gate | None = None
        """Gate that the last such flow named; None before the first flow."""
        self._sections = session.endpoint.shared.frames.sections
        self._assembly = DeliveryAssembly(self, target)
        """Delivery that arrives in several frames."""
        self._arriving_id: i64 = ABSENT
        """Delivery-id of that delivery; `ABSENT` if there is none."""
        self._arriving_settled: bool = False
        self.posting: Posting | None = None
        """Transaction of the delivery that arrives; None outside of transactions."""
        self._format: i64 = 0
        """Message-format of the last delivery; formats other than AMQP's, which is 0, are rejected."""
        self._in_doubt: i64 = 0
        """Aborted deliveries that `delivery_count` includes and that the sender may not count."""
        self._counts_aborted: bool = True
        """False once the sender is known not to count aborted deliveries."""
        self._skips: bool = False
        """True if the arriving delivery is a resumed one, whose payload is not needed."""
        if target.node is not None:
            session.vhost.senders.add(target.node.place(), self.producer)

    def _new_producer(self, request: CreditRequest) -> Producer:
        session, connection = self.session, self.session.connection
        name = f"{session.name}/{self.link_name}"
        listener = LinkPublisher(self)
        return Producer(session.broker, name, connection.pausing.budget, connection.origin, listener, request.rates)

    # Credit

    @override
    def on_flow(self, flow: Flow) -> None:
        credit = self.credit
        if flow.delivery_count != ABSENT:
            drained = serial_distance(self.delivery_count, flow.delivery_count)
            if self._in_doubt > 0 and self._arriving_id == ABSENT:
                if -self._in_doubt <= drained < 0:
                    self._uncount_aborted(-drained)
                self._in_doubt = 0
            if drained > 0:  # The sender has given credit up.
                self.delivery_count = flow.delivery_count
                credit.give_back(drained)
        if flow.available != ABSENT:
            credit.on_flow(flow.available)
        if flow.echo:
            self.request_flow()

    def _end_aborted(self) -> None:
        """Count an aborted delivery as having used its credit, which is granted again.

        Qpid Proton counts an aborted delivery in its delivery-count, and ProtonJ2 does not. ProtonJ2 has one message
        more to send than it was granted, and is recognised by that message (`_begin`) or by a flow.
        """
        if self._counts_aborted:
            self._in_doubt += 1
            self.credit.spend(OVERHEAD)
        else:
            self.delivery_count = (self.delivery_count - 1) & 0xFFFFFFFF

    def _uncount_aborted(self, deliveries: i64) -> None:
        """Take aborted deliveries out of the count: the sender has not counted them."""
        self._counts_aborted = False
        self._in_doubt = 0
        self.delivery_count = (self.delivery_count - deliveries) & 0xFFFFFFFF
        self.request_flow()

    def is_news(self, gate: Gate) -> bool:
        """Return whether the sender must learn at once that a gate blocks it; rates, which change often, wait for a
        second."""
        return gate is not self._reported and not gate.frequent

    @override
    def write_flow(self) -> None:
        session = self.session
        credit = self.credit.credit
        if self._arriving_id != ABSENT and not self._skips and credit > 0:
            credit -= 1  # The arriving delivery is counted already.
        now = session.broker.now
        gate = self.credit.blocked_by()
        if gate is None or (not self.is_news(gate) and now < self._reported_at + REPORTED_AGAIN_S):
            session.windows.write(
                session.connection.output.buffer,
                session.number,
                self.handle,
                self.delivery_count,
                credit,
                ABSENT,
                is_draining(self.credit.state),
            )
            return
        self._reported_at = now
        self._reported = gate
        session.send(
            session.windows.flow(
                handle=int(self.handle),
                delivery_count=int(self.delivery_count),
                link_credit=int(credit),
                drain=is_draining(self.credit.state) or None,
                properties=blocked_properties(self.credit, gate),
            )
        )

    # Transfers

    @override
    def on_transfer(self, transfer: Transfer, data: bytes, end: i64) -> None:
        if transfer.state_code == TRANSACTIONAL_STATE:
            self._join_transaction(transfer)
        if transfer.resume and self._arriving_id == ABSENT:
            self._on_resumed(transfer, data)
            return
        if self._arriving_id != ABSENT or transfer.more or transfer.aborted:
            self._on_piece(transfer, data, end)
        else:
            settled = transfer.settled == 1
            self._begin(transfer, data)
            if end - transfer.payload > self.max_message_size:
                raise self._too_large()
            if self.settle_mode != MIXED:
                self._check_settled(settled)
            self._on_message(data[transfer.payload : end], transfer.delivery_id, settled)
        if self.posting is not None and self._arriving_id == ABSENT:
            self.posting = None  # The delivery is complete.

    def _join_transaction(self, transfer: Transfer) -> None:
        """Record the transaction of a frame. All frames of a delivery have the same transaction (section 4.4.1)."""
        state = transfer.state
        assert isinstance(state, Composite)
        if self.posting is None and self._arriving_id == ABSENT:
            self.posting = Posting(self.session.endpoint.transactions(), state)
        elif self.posting is None or self.posting.txn_id != state.octets("txn_id"):
            raise TransferViolation(f"frames of delivery {self._arriving_id} with different transactions")

    def _check_settled(self, settled: bool) -> None:
        """Check that a delivery is settled as the attach agreed. Raises InvalidField."""
        if settled != (self.settle_mode == SETTLED):
            agreed = "settled" if settled else "unsettled"
            raise InvalidField(f"{agreed} delivery on a link with a snd-settle-mode of {self.settle_mode}")

    def _too_large(self) -> ContentTooLarge:
        return ContentTooLarge(
            f"a message larger than the {self.max_message_size} bytes that link '{self.link_name}' takes"
        )

    def _begin(self, transfer: Transfer, data: bytes) -> None:
        """Check and count a delivery at its first frame."""
        self.session.begin_delivery(transfer)
        self._second = self.second
        self._format = transfer.message_format
        if transfer.settled != 1 and not transfer.resume:
            number = self.producer.confirms.published + 1
            if not self.unsent.follows(data, transfer.tag_start, transfer.tag_stop, number):
                self._take_other_tag(transfer, data, number)
        if transfer.resume or isinstance(self.target, AnonymousTarget):
            self._tag = data[transfer.tag_start : transfer.tag_stop]
        if transfer.rcv_settle_mode != ABSENT:
            if transfer.rcv_settle_mode == SECOND and not self.second:
                raise InvalidField("a transfer with rcv-settle-mode second on a link whose mode is first")
            self._second = transfer.rcv_settle_mode == SECOND
        if self._in_doubt > 0 and self.credit.credit <= 0:
            self._uncount_aborted(self._in_doubt)
        self.delivery_count = (self.delivery_count + 1) & 0xFFFFFFFF

    def _take_other_tag(self, transfer: Transfer, data: bytes, number: i64) -> None:
        """Take the tag of a delivery that does not follow from its number. Raises InvalidField."""
        start, stop = transfer.tag_start, transfer.tag_stop
        if not self.unsent.take(data, start, stop, number, self.producer.confirms.sent_upto):
            raise InvalidField(
                f"delivery {transfer.delivery_id} has the delivery-tag {worded(data[start:stop])} of an unsettled one"
            )

    def _on_piece(self, transfer: Transfer, data: bytes, end: i64) -> None:
        """Handle a frame of a delivery that has several frames, or is aborted."""
        if self._arriving_id == ABSENT:
            self._begin(transfer, data)
            self._arriving_id = transfer.delivery_id
            self._tag = data[transfer.tag_start : transfer.tag_stop]
        elif transfer.delivery_id != ABSENT and transfer.delivery_id != self._arriving_id:
            self.session.ignore_delivery(transfer.delivery_id)
            raise TransferViolation(
                f"delivery {transfer.delivery_id} begins before delivery {self._arriving_id} is complete"
            )
        else:
            self._check_continuation(transfer, data)
        if transfer.settled == 1:
            self._arriving_settled = True
        if transfer.aborted:
            if not self._skips:
                self._end_aborted()
            self._drop_pieces()
            return
        if self._skips:
            if not transfer.more:
                self._drop_pieces()
            return
        assembly = self._assembly
        if assembly.octets + end - transfer.payload > self.max_message_size:
            raise self._too_large()
        assembly.add(data[transfer.payload : end])
        if not transfer.more:
            body = assembly.finish()
            fault = assembly.fault
            content = assembly.content()
            delivery_id, settled = self._arriving_id, self._arriving_settled
            self._drop_pieces()
            if self.settle_mode != MIXED:
                self._check_settled(settled)
            if fault is not None:
                self._refuse(delivery_id, settled, fault)
            else:
                self._on_message(content, delivery_id, settled, body)

    def _check_continuation(self, transfer: Transfer, data: bytes) -> None:
        """Check that a further frame matches the first one of its delivery (section 2.7.5). Raises InvalidField."""
        if transfer.tag_stop > 0 and data[transfer.tag_start : transfer.tag_stop] != self._tag:
            raise InvalidField(f"a frame of delivery {self._arriving_id} with another delivery-tag than its first")
        code = transfer.message_format
        if code != ABSENT and code != self._format and (code > 0 or self._format > 0):
            raise InvalidField(
                f"a frame of delivery {self._arriving_id} with message-format {code}; its first had {self._format}"
            )

    @override
    def is_arriving(self) -> bool:
        return self._arriving_id != ABSENT

    def _drop_pieces(self) -> None:
        self._assembly.drop()
        self._arriving_id = ABSENT
        self._arriving_settled = False
        self._skips = False

    def _on_message(self, data: bytes, delivery_id: i64, settled: bool, body: LargeBody | None = None) -> None:
        """Publish a complete message, or send its outcome; `body` is the body of a large message."""
        if self._format > 0:
            unknown = NotImplementedHere(f"a message with message-format {self._format}; only 0 is known")
            self._refuse(delivery_id, settled, unknown)
            return
        sections = self._sections
        try:
            sections.walk(data, 0, len(data))
        except CodecError as error:
            self._refuse(delivery_id, settled, MalformedMessage(error))
            return
        content = data
        if sections.annotations_end > sections.header_end:
            check_annotations(data, sections)
            if sections.delivery_annotations != ABSENT:
                content = data[: sections.header_end] + data[sections.annotated_at :]
        try:
            route = self.target.route_of(content, data, sections)
            if sections.message_annotations != ABSENT:
                route = delayed_route(route, data, sections, self.session.broker)
        except BrokerError as refused:
            if settled and self.posting is None and isinstance(self.target, AnonymousTarget):
                # Only a detach informs the sender (Anonymous Terminus for Message Routing 1.0, section 2.2.2).
                self.detach(refused, info=delivery_info(self._tag))
                return
            self._refuse(delivery_id, settled, refused)
            return
        charge: i64 = len(content) + OVERHEAD
        if body is not None:
            charge += body.octets
            content = large_content(content, body)
        reached = route.target
        if reached.control:
            self._control_request(route, content, charge, delivery_id, settled)
            return
        if not reached.queues:
            self._unroutable(delivery_id, settled, route, content, charge)
            return
        if self.posting is not None:
            self._post(self.posting, route, content, charge, delivery_id, settled)
            return
        lane = None if self.lanes is None else self.lanes.lane_for(route)
        if lane is not None:
            self._publish_beside(lane, route, content, charge, delivery_id, settled)
            return
        producer = self.producer
        producer.confirming = not settled
        if not settled:
            self.ids.add(producer.confirms.published + 1, delivery_id, self._second)
        if not self.credit.publish(route, content, charge):
            self._publish_beyond_credit(route, content, charge)

    def _publish_beyond_credit(self, route: Route, content: bytes, charge: i64) -> None:
        """Hold a message that came without credit, within the hold budget. Raises TransferLimitExceeded."""
        if not self.credit.publish_beyond(route, content, charge):
            raise self._no_credit()

    def _no_credit(self) -> TransferLimitExceeded:
        budget = self.producer.hold_budget
        return TransferLimitExceeded(
            f"a message without credit on link '{self.link_name}': the connection holds {int(budget.bytes):,} "
            f"bytes of at most {int(budget.bound):,}"
        )

    def _publish_beside(
        self, lane: SideLane, route: Route, content: bytes, charge: i64, delivery_id: i64, settled: bool
    ) -> None:
        """Publish a message that need not wait for publishes of the link's producer. Raises TransferLimitExceeded."""
        producer = lane.producer
        if not self.credit.spend(charge) and not producer.hold_budget.fits(charge):
            raise self._no_credit()
        producer.confirming = not settled
        if not settled:
            lane.ids.add(producer.confirms.published + 1, delivery_id, self._second)
        producer.publish_slowly(route, content, charge, self.credit.prepaid_for(route))

    def _post(
        self, posting: Posting, route: Route, content: bytes, charge: i64, delivery_id: i64, settled: bool
    ) -> None:
        """Store a message until the commit of its transaction.

        The message leaves its reservation, and so does the link's other credit: the commit may need that room.
        """
        if self.credit.route is not None:
            self.credit.leave_road()
        self.credit.spend(charge)
        try:
            posting.publish(self.session, self.producer, route, content, charge)
        except BrokerError as error:
            if settled and posting.transaction is None:
                raise  # The sender would not learn of a rejection.
            self._reject(delivery_id, settled, error)
        else:
            if posting.transaction is not None and not settled:
                posting.transaction.add_provisional(self.session, delivery_id, not self._second)

    def _control_request(self, route: Route, content: bytes, charge: i64, delivery_id: i64, settled: bool) -> None:
        """Pass a message to the control exchange on to the control API."""
        self.credit.spend(charge)
        session = self.session
        connection = session.connection
        declared = session.broker.durable_changes.durable_declarations
        connection.services.control_request(session.vhost, connection, route.envelope.routing_key, content)
        if not settled:
            self._write(delivery_id, delivery_id, not self._second, ACCEPTED_STATE)
        self._number_decided(settled, False)
        connection.output.await_change(declared)

    def _unroutable(self, delivery_id: i64, settled: bool, route: Route, content: bytes, charge: i64) -> None:
        self.session.broker.count_unroutable(self.producer, route, content)
        self.credit.spend(charge)
        if not settled:
            unroutable = self.target.unroutable
            if unroutable is Unroutable.RELEASED and not self._hears_released:
                unroutable = Unroutable.REJECTED
            if unroutable is Unroutable.REJECTED:
                where = describe_target(route)
                self._reject(delivery_id, settled, NotFound(f"{where} leads to no queue"))
                return
            state = ACCEPTED_STATE if unroutable is Unroutable.ACCEPTED else RELEASED_STATE
            self._write(delivery_id, delivery_id, not self._second, state)
            self._number_decided(settled, unroutable is not Unroutable.ACCEPTED)

    def _number_decided(self, settled: bool, refused: bool) -> None:
        """Number a delivery in the link's lane, if there is one: its outcome is no confirm of the producer."""
        producer = self.producer
        if producer.lane is not None and not settled and self.posting is None:
            producer.confirms.number_decided(refused)
            producer.schedule_confirms()

    # Outcomes

    @override
    def write_outcomes(self) -> None:
        outcomes = self.producer.confirms.take()
        for outcome in outcomes:
            if outcome.refusal is not None and not self._hears_rejected:
                self.unheard = outcome.refusal.error or ResourceError(outcome.refusal.describe())
                continue
            state = (
                ACCEPTED_STATE if outcome.refusal is None else rejected_state(outcome.refusal, self.session.broker.now)
            )
            number = outcome.first
            for each in self.ids.ranges(outcome.first, outcome.last):
                self._write(each.first, each.last, not each.second, state)
                last = number + ((each.last - each.first) & 0xFFFFFFFF)
                if each.second:
                    self.unsent.await_settlement(number, last, each.first, state)
                number = last + 1
            if outcome.refusal is not None:
                self.unsent.tags.drop(outcome.first, self.producer.confirms.sent_upto)
        self.unsent.tags.forget(self.producer.confirms.sent_upto)
        self.ids.forget(self.producer.confirms.sent_upto)

    @override
    def side_producers(self) -> list[Producer]:
        return [] if self.lanes is None else self.lanes.producers()

    @override
    def write_side_outcomes(self) -> None:
        if self.lanes is not None:
            for lane in list(self.lanes.all()):
                if lane.producer.confirms.ready():
                    self._write_lane_outcomes(lane)

    @override
    def on_lane_confirms(self, number: int) -> None:
        lanes = [] if self.lanes is None else self.lanes.all()
        if number <= len(lanes):  # Otherwise the link has ended.
            self._write_lane_outcomes(lanes[number - 1])
            if self.unheard is not None:
                self.detach(self.unheard)

    def _write_lane_outcomes(self, lane: SideLane) -> None:
        """Write the ready outcomes of a side lane, or drop them if the link has ended."""
        confirms = lane.producer.confirms
        outcomes = confirms.take()
        if self.state != LINK_ATTACHED or not self.session.is_open():
            return
        for outcome in outcomes:
            if outcome.refusal is not None and not self._hears_rejected:
                self.unheard = outcome.refusal.error or ResourceError(outcome.refusal.describe())
                continue
            state = (
                ACCEPTED_STATE if outcome.refusal is None else rejected_state(outcome.refusal, self.session.broker.now)
            )
            for each in lane.ids.ranges(outcome.first, outcome.last):
                self._write(each.first, each.last, not each.second, state)
        lane.ids.forget(confirms.sent_upto)

    def _refuse(self, delivery_id: i64, settled: bool, error: BrokerError) -> None:
        """Reject a delivery that used its credit and is not published.

        Raises MalformedMessage, NotImplementedHere and InvalidField if the delivery is settled.
        """
        unanswered = isinstance(error, (MalformedMessage, NotImplementedHere, InvalidField))
        if settled and self.posting is None and unanswered:
            raise error  # Only the end of the link informs the sender.
        self.credit.spend(OVERHEAD)
        self._reject(delivery_id, settled, error)

    def _reject(self, delivery_id: i64, settled: bool, error: BrokerError) -> None:
        """Reject a delivery; a delivery that was sent settled is dropped."""
        audit_refusal(self.session.connection, "transfer", error)
        if not settled and not self._hears_rejected:
            self.detach(error, info=delivery_info(self._tag) if isinstance(self.target, AnonymousTarget) else None)
            return
        if self.posting is not None:
            self.posting.on_refused(error)
        if not settled:
            # At least an empty map: the sender of azure-servicebus fails at an error without `info`.
            info = delivery_info(self._tag) if isinstance(self.target, AnonymousTarget) else {}
            state = encode_composite(composite(REJECTED, error=error_composite(error, info)))
            self._write(delivery_id, delivery_id, not self._second, state)
            self._number_decided(settled, True)

    def _write(self, first: i64, last: i64, settled: bool, state: bytes) -> None:
        if self.posting is not None:
            write_outcome(self.session, first, last, settled, self.posting.state_of(state))
        elif state is ACCEPTED_STATE and settled:
            self.session.accept(first, last)
        else:
            write_outcome(self.session, first, last, settled, state)

    # End

    @override
    def detach(self, error: BrokerError, closed: bool = True, info: dict[object, object] | None = None) -> None:
        if self.posting is not None:
            self.posting.on_refused(error)
        super().detach(error, closed, info)

    @override
    def on_detach(self, closed: bool) -> None:
        self.write_outcomes()
        self.write_side_outcomes()
        if not closed and self.expiry.suspends():
            self._suspend()
        elif not closed and self.expiry.lasts_for_session():
            self._keep_outcomes()
        self.session.endpoint.write_provisional()
        self.end(True)

    @override
    def on_session_ended(self, endings: LinkEndings) -> None:
        self._suspend()

    def _suspend(self) -> None:
        if self.expiry.suspends():
            self._keep_outcomes()
            self._leave_counts()
            self.producer.abort()  # The client sends held publishes again.
            for producer in self.side_producers():
                producer.abort()

    def _keep_outcomes(self) -> None:
        outcomes = self.unsent.outcomes(self.producer)
        if outcomes:
            session = self.session
            suspended = session.endpoint.shared.suspended
            sender = SuspendedSender(suspended, self.key, self.expiry, outcomes)
            suspended.suspend(sender, session, session.connection_number)

    def resume(self, attach: Composite) -> dict[str, object]:
        """Resume the suspended link of this name, if there is one; return the fields for the broker's attach."""
        suspended = self.session.endpoint.shared.suspended.take(self.key)
        unsettled = attach.mapping("unsettled")
        if not isinstance(suspended, SuspendedSender) or not unsettled:
            return {}
        entries, incomplete = self.unsent.resume(
            suspended.outcomes, unsettled, self.session.endpoint.peer_max_frame_size
        )
        return {"unsettled": entries, "incomplete_unsettled": incomplete}

    def _on_resumed(self, transfer: Transfer, data: bytes) -> None:
        """Answer a resumed delivery with its outcome; a delivery that is unknown here is ignored (section 2.7.5)."""
        self._begin(transfer, data)
        self.credit.spend(OVERHEAD)
        state = self.unsent.take_resumed(self._tag)
        if state is not None and transfer.settled != 1:
            self._write(transfer.delivery_id, transfer.delivery_id, True, state)
        if transfer.more:
            self._arriving_id = transfer.delivery_id
            self._tag = data[transfer.tag_start : transfer.tag_stop]
            self._skips = True

    @override
    def end(self, graceful: bool) -> None:
        """See `Link.end`: drop incomplete deliveries, and return all credit."""
        self._drop_pieces()
        self.credit.close()
        if self.target.node is not None:
            self.session.vhost.senders.remove(self.target.node.place(), self.producer)
        self._leave_counts()
        for producer in [self.producer] if self.lanes is None else [self.producer, *self.lanes.end()]:
            if graceful:
                producer.close_gracefully()
            else:
                producer.abort(self.session.connection.losses.cause)

    @override
    def unlink(self) -> None:
        self._assembly.unlink()
        self.unsent.end()

    def _leave_counts(self) -> None:
        """Add the counts of the link to those of its session and connection."""
        counts = Tally()
        take_counts(self.producer, counts)
        for producer in self.side_producers():
            take_counts(producer, counts)
        self.session.tally.add(counts)
        if self.producer.origin is not None:
            self.producer.origin.count(counts)


class LinkPublisher(ProducerListener):
    """The publishing client of an incoming link."""

    def __init__(self, link: IncomingLink) -> None:
        super().__init__(link.session.connection_number)
        self._link = link
        self._enforced: int = 0
        """Number of logged gates that block the link, without rate gates."""

    @override
    def on_confirms(self) -> None:
        if self._link.state == LINK_ATTACHED and self._link.session.is_open():
            self._link.write_outcomes()
            if self._link.unheard is not None:
                self._link.detach(self._link.unheard)
        else:
            self._link.producer.confirms.take()

    @override
    def on_credit(self) -> None:
        if self._link.state == LINK_ATTACHED and self._link.session.is_open():
            self._link.request_flow()

    @override
    def on_closed(self, error: BrokerError) -> None:
        self._link.detach(error)

    @override
    def on_blocked(self, gate: Gate) -> bool:
        """Count a gate for its connection. Only the first gate of a link is logged, and the release of its last."""
        counted = self._link.session.connection.count_block(gate, 1)
        if self._link.credit.blocked_by() is not None:
            self.on_credit()
        if not counted:
            return False
        self._enforced += 1
        return self._enforced == 1

    @override
    def on_unblocked(self, gate: Gate) -> bool:
        """See `on_blocked`. If another gate blocks the sender now, a flow announces it."""
        blocking = self._link.credit.blocked_by()
        if blocking is not None and self._link.is_news(blocking):
            self.on_credit()
        if not self._link.session.connection.count_block(gate, -1):
            return False
        self._enforced -= 1
        return self._enforced == 0

    @override
    def on_departed(self) -> None:
        self._link.session.connection.count_departed(self._link.producer)
