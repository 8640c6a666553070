"""Coordinator link: a link on which the peer declares and discharges transactions (part 4).

It always has credit, and no commit keeps another transaction waiting: a commit that is held has a lane of its own.
Closing it rolls back its transactions, commits that are held included (section 4.2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_listener import ProducerListener
from penstock.errors import (
    BrokerError,
    InvalidField,
    NotAllowed,
    NotImplementedHere,
    ResourceError,
    TransactionRolledBack,
    TransactionTimeout,
    UnknownTransaction,
)
from penstock.flow.gate import ROLLED_BACK, Gate, Refusal
from penstock.protocols.amqp10.delivery_outcomes import REJECTED_NAME, hears, rejected_state, write_outcome
from penstock.protocols.amqp10.error_scopes import MalformedMessage, error_composite
from penstock.protocols.amqp10.link import LINK_ATTACHED, SECOND, Link
from penstock.protocols.amqp10.management_link import RequestIntake
from penstock.protocols.amqp10.transactions import Transaction, transactions_of
from penstock.wire.amqp10.composite import Composite, composite, decode_composite, encode_composite
from penstock.wire.amqp10.field_cursor import FieldCursor
from penstock.wire.amqp10.spec import AMQP_VALUE, COORDINATOR, DECLARE, DECLARED, DISCHARGE, REJECTED
from penstock.wire.amqp10.transfer import ACCEPTED_STATE, Flow, Transfer
from penstock.wire.amqp10.values import CodecError

if TYPE_CHECKING:
    from penstock.protocols.amqp10.session import AmqpSession

MESSAGE_OCTETS_MAX: Final = 4096
"""Largest message: a declare or a discharge has less than 64 octets."""
REQUEST_WORK: Final = 32
"""Units of work of a declare or a discharge, without those of the commit."""
CAPABILITIES: Final = ["amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"]
"""Capabilities of its transactions (section 4.5.6): several in a session, and several sessions in one."""
COMMIT_RETRY: Final = "penstock:commit-retry"
"""Desired capability of a link whose controller may discharge a transaction again after a commit was rejected."""


class CoordinatorLink(Link):
    """A link to the transaction coordinator."""

    def __init__(self, session: AmqpSession, attach: Composite) -> None:
        super().__init__(session, attach)
        self.requests = RequestIntake(self, attach, MESSAGE_OCTETS_MAX, "a coordinator")
        self.second: bool = attach.number("rcv_settle_mode", 0) == SECOND
        self.takes_rejected: bool = hears(attach, REJECTED_NAME)
        """False if the peer does not know `rejected`: the link is detached instead (sections 4.2 and 4.3)."""
        self.retries: bool = COMMIT_RETRY in attach.texts("desired_capabilities")
        """True if a transaction stays open when its commit is rejected at its hold deadline (decision 88)."""
        self._transactions = transactions_of(session.engine)
        self._lanes: list[Lane] = []
        self._idle: list[Lane] = []
        """Lanes without a transaction."""
        self._sections = session.engine.reader.parts.sections
        session.coordinators += 1

    def terminus(self) -> Composite:
        """Return the target with its capabilities."""
        return composite(COORDINATOR, capabilities=CAPABILITIES)

    @override
    def on_flow(self, flow: Flow) -> None:
        self.requests.on_flow(flow)

    @override
    def write_flow(self) -> None:
        self.requests.write_flow()

    @override
    def unlink(self) -> None:
        self.requests.unlink()

    # Declare and discharge

    @override
    def on_transfer(self, transfer: Transfer, data: bytes, end: i64) -> None:
        requests = self.requests
        content = requests.take(transfer, data, end)
        if requests.settled:  # Nobody would learn the id of its transaction, or how it ended (section 4.2).
            self.detach(NotAllowed("a settled transfer on a coordinator link"))
            return
        if content is not None:
            self._on_message(content, requests.delivery_id)
        if self.state == LINK_ATTACHED:
            requests.grant()

    def _on_message(self, content: bytes, delivery_id: i64) -> None:
        self.session.engine.work.done += REQUEST_WORK
        try:
            request = self._request(content)
            if request.code == DECLARE:
                self._declare(request, delivery_id)
            else:
                self._discharge(request, delivery_id)
        except BrokerError as error:
            self._reject(delivery_id, encode_composite(composite(REJECTED, error=error_composite(error))), error)

    def _request(self, content: bytes) -> Composite:
        """Return the declare or discharge of a message. Raises BrokerError."""
        sections = self._sections
        try:
            sections.walk(content, 0, len(content))
            if sections.body_code == AMQP_VALUE:
                cursor = FieldCursor()
                cursor.open(content, sections.body_at, sections.body_end)
                composite = decode_composite(content, int(cursor.pos), int(sections.body_end))[0]
                if composite.code == DECLARE or composite.code == DISCHARGE:
                    return composite
        except CodecError as error:
            raise MalformedMessage(error) from None
        raise InvalidField("a message to the coordinator whose body is no declare and no discharge")

    def _declare(self, declare: Composite, delivery_id: i64) -> None:
        if declare.fields["global_id"] is not None:
            raise NotImplementedHere("declare with a global-id: transactions of this broker are local")
        transaction = self._transactions.declare(self)
        state = encode_composite(composite(DECLARED, txn_id=transaction.txn_id))
        write_outcome(self.session, delivery_id, delivery_id, not self.second, state)

    def _discharge(self, discharge: Composite, delivery_id: i64) -> None:
        transaction = self._transactions.find(discharge.octets("txn_id"))
        if transaction.link is not self:
            raise UnknownTransaction(f"the transaction was not declared on link '{self.link_name}'")
        self.session.connection.services.deliver()
        transaction.discharge(discharge.flag("fail"), delivery_id)

    def answer(self, transaction: Transaction, refusal: Refusal | None) -> None:
        """Answer a discharge: its transaction was committed or rolled back as asked, or refused."""
        delivery_id = transaction.discharge_id
        self._transactions.write_provisional()  # Before the discharge, the outcomes that it applied (section 4.4.1).
        if refusal is None:
            write_outcome(self.session, delivery_id, delivery_id, not self.second, ACCEPTED_STATE)
        elif transaction.unit.is_open():
            transaction.reopen()
            state = rejected_state(refusal, self.session.broker.now)
            self._reject(delivery_id, state, ResourceError(refusal.describe()))
            return
        else:
            if self.retries and transaction.unit.error is not None:  # Rolled back since its commit was refused.
                refusal = Refusal(ROLLED_BACK, None, error=transaction.unit.error)
            error = refusal.error
            if not isinstance(error, (TransactionRolledBack, TransactionTimeout)):
                error = TransactionRolledBack(f"the transaction was rolled back: {refusal.describe()}")
            state = rejected_state(refusal, self.session.broker.now, error.condition)
            self._reject(delivery_id, state, error)
        transaction.end(refusal is None)

    def _reject(self, delivery_id: i64, state: bytes, error: BrokerError) -> None:
        if self.takes_rejected:
            write_outcome(self.session, delivery_id, delivery_id, not self.second, state)
        else:
            self.detach(error)

    def write_outcomes(self) -> None:
        """Write the answers that are ready."""
        for lane in self._lanes:
            if lane.producer.confirms.ready():
                lane.on_confirms()

    # Lanes

    def take_lane(self) -> Lane:
        """Return a lane for a transaction."""
        if self._idle:
            return self._idle.pop()
        lane = Lane(self, len(self._lanes) + 1)
        self._lanes.append(lane)
        return lane

    def give_back(self, lane: Lane) -> None:
        """Take back the lane of a transaction that has ended."""
        self._idle.append(lane)

    def producers(self) -> list[Producer]:
        """Return the producers of its lanes."""
        return [lane.producer for lane in self._lanes]

    # End

    @override
    def on_detach(self, closed: bool) -> None:
        self.requests.drop()
        self.end()
        self.session.connection.review_hold_bound()

    def end(self) -> None:
        """Roll back its transactions."""
        self.session.coordinators -= 1
        for transaction in self._transactions.of_link(self):
            transaction.drop()
        for lane in self._lanes:
            lane.producer.abort(self.session.connection.losses.cause)
        self._lanes = []
        self._idle = []


class Lane(ProducerListener):
    """Producer of one transaction at a time: it holds its commit, and its confirms number the answers."""

    def __init__(self, link: CoordinatorLink, number: int) -> None:
        session = link.session
        super().__init__(session.connection_number)
        self._link = link
        connection = session.connection
        self.producer = Producer(
            session.broker,
            f"{session.name}/{link.link_name}/{number}",
            connection.pausing.budget,
            connection.origin,
            self,
        )
        self.producer.confirming = True
        self.transaction: Transaction | None = None

    @override
    def on_confirms(self) -> None:
        for outcome in self.producer.confirms.take():
            transaction = self.transaction
            if transaction is not None:
                self._link.answer(transaction, outcome.refusal)
                if self.transaction is None:
                    self._link.give_back(self)
        self.producer.confirms.forget_confirmed()  # They answered commits.

    @override
    def on_closed(self, error: BrokerError) -> None:
        self._link.detach(error)

    @override
    def on_blocked(self, gate: Gate) -> bool:
        return self._link.session.connection.count_block(gate, 1)

    @override
    def on_unblocked(self, gate: Gate) -> bool:
        return self._link.session.connection.count_block(gate, -1)

    @override
    def on_departed(self) -> None:
        self._link.session.connection.count_departed(self.producer)
