"""Links to the broker itself: to the transaction coordinator, and to the management node.

On a coordinator link the peer declares and discharges transactions (part 4). A coordinator link always has credit, and
no commit delays another transaction: each transaction has its own producer. Closing the link rolls back its
transactions, held commits included (section 4.2).

Requests to the management node come on one link, and responses go on the paired link of the same name. Credit for
requests is constant and never blocked. Responses wait in an unlisted queue, as direct replies do (decisions 23 and 51).
So credit of the response link, the session's window and the end of the link work as on any other link. Beyond
`RESPONSES_MAX` or `RESPONSE_BYTES_MAX` waiting, a response is dropped: the node never waits for room.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.log_line import LogLine
from penstock.core.message import Envelope
from penstock.core.publish.unit_of_work import Coordinator
from penstock.core.queue.queue import Queue
from penstock.core.vhost import REPLY_TO
from penstock.errors import (
    BrokerError,
    ContentTooLarge,
    InvalidField,
    NotAllowed,
    NotImplementedHere,
    PreconditionFailed,
    ResourceError,
    TransactionRolledBack,
    TransactionTimeout,
    TransferLimitExceeded,
    UnknownTransaction,
)
from penstock.flow.gate import ROLLED_BACK, Refusal
from penstock.flow.level import OVERHEAD
from penstock.logs.ids import RESPONSE_DROPPED
from penstock.protocols.amqp10.delivery_outcomes import REJECTED_NAME, hears, rejected_state, write_outcome
from penstock.protocols.amqp10.error_scopes import MalformedMessage, error_composite
from penstock.protocols.amqp10.link import LINK_ATTACHED, SECOND, Link
from penstock.protocols.amqp10.link_producer import LinkProducer
from penstock.protocols.amqp10.management_node import answer, read_request
from penstock.protocols.amqp10.outgoing_link import OutgoingLink
from penstock.protocols.amqp10.session import AmqpSession
from penstock.protocols.amqp10.transactions import Transaction
from penstock.wire.amqp10.composite import Composite, composite, decode_composite, encode_composite
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor
from penstock.wire.amqp10.spec import AMQP_VALUE, COORDINATOR, DECLARE, DECLARED, DISCHARGE, DISPOSITION, REJECTED
from penstock.wire.amqp10.transfer import ACCEPTED_STATE, Flow, Transfer, write_disposition
from penstock.wire.amqp10.values import CodecError, serial_distance

WINDOW: Final = 100
"""Credit in requests; renewed when less than half of it is left, and never blocked."""


class RequestLink(Link):
    """A link to the broker itself.

    `taker` names the part of the broker that handles the requests, for errors; `octets_max` is the size of the largest
    request.
    """

    def __init__(self, session: AmqpSession, attach: Composite, octets_max: i64, taker: str) -> None:
        super().__init__(session, attach)
        self._octets_max: i64 = octets_max
        self._taker = taker
        self.delivery_count: i64 = attach.number("initial_delivery_count", 0)
        self.credit: i64 = 0
        """Requests that the peer may still send."""
        self.delivery_id: i64 = ABSENT
        """Delivery-id of the last request."""
        self.settled: bool = False
        """True if any frame of the request was sent settled."""
        self._arrives: bool = False
        """True between the frames of a request."""
        self._pieces: bytes = b""
        """Received payload of that request."""

    def grant(self) -> None:
        """Grant credit, if less than half of the window is left."""
        if self.credit < WINDOW // 2:
            self.credit = WINDOW
            self.request_flow()

    @override
    def on_flow(self, flow: Flow) -> None:
        if flow.delivery_count != ABSENT:
            drained = serial_distance(self.delivery_count, flow.delivery_count)
            if drained > 0:  # Credit that the sender has given up is granted again.
                self.delivery_count = flow.delivery_count
                self.credit -= drained if drained < self.credit else self.credit
                self.grant()
        if flow.echo:
            self.request_flow()

    @override
    def write_flow(self) -> None:
        session = self.session
        session.windows.write(
            session.connection.output.buffer, session.number, self.handle, self.delivery_count, self.credit
        )

    def take(self, transfer: Transfer, data: bytes, end: i64) -> bytes | None:
        """Return the request that a frame completes; None if more frames follow, or the request is aborted.

        Raises NotAllowed, TransferLimitExceeded without credit, and ContentTooLarge.
        """
        if not self._arrives:
            self.session.begin_delivery(transfer)
            if self.credit == 0:
                raise TransferLimitExceeded(f"a transfer on link '{self.link_name}', which has no credit")
            self.credit -= 1
            self.delivery_count = (self.delivery_count + 1) & 0xFFFFFFFF
            self.delivery_id = transfer.delivery_id
            self.settled = False
            self._arrives = True
        self.settled = self.settled or transfer.settled == 1
        content = self._pieces + data[transfer.payload : end]
        if len(content) > self._octets_max:
            raise ContentTooLarge(f"a message larger than the {self._octets_max} bytes that {self._taker} takes")
        if transfer.more and not transfer.aborted:
            self._pieces = content
            return None
        self._drop()
        return None if transfer.aborted else content

    @override
    def is_arriving(self) -> bool:
        return self._arrives

    def _drop(self) -> None:
        """Drop the frames of an incomplete request."""
        self._pieces = b""
        self._arrives = False

    @override
    def on_detach(self, closed: bool) -> None:
        self._drop()


REQUEST_OCTETS_MAX: Final = 64 * 1024
"""Largest request: a declaration with many arguments has a few KiB."""
REQUEST_WORK: Final = 90
"""Units of work of a request: reading it, finding its object, and creating, queueing and delivering its response."""
OCTETS_A_UNIT: Final = 8
"""Bytes of a request per unit of work: its body is decoded."""
RESPONSES_MAX: Final = 1000
"""Most waiting responses for a client that does not read."""
RESPONSE_BYTES_MAX: Final = 1024 * 1024
"""Charge of waiting responses from which further responses are dropped."""
RESPONSES: Final = REPLY_TO + ".management."
"""Prefix of the names of response queues."""


def response_queue(session: AmqpSession) -> Queue:
    """Create the queue for the responses of one link; the queue ends with its consumer."""
    return session.vhost.create_reply_queue(RESPONSES + session.connection.services.make_name("")[1:])


class ManagementLink(RequestLink):
    """A link on which the peer sends requests to the management node."""

    def __init__(self, session: AmqpSession, attach: Composite) -> None:
        super().__init__(session, attach, REQUEST_OCTETS_MAX, "the management node")

    # Requests

    @override
    def on_transfer(self, transfer: Transfer, data: bytes, end: i64) -> None:
        content = self.take(transfer, data, end)
        if content is not None:
            self._on_request(content, self.delivery_id)
        if self.state == LINK_ATTACHED:
            self.grant()

    def _on_request(self, content: bytes, delivery_id: i64) -> None:
        """Carry out a request.

        A request that cannot be answered is rejected, or the link is detached if the request is settled.
        """
        session = self.session
        session.broker.work.done += REQUEST_WORK + len(content) // OCTETS_A_UNIT
        declared = session.broker.durable_changes.durable_declarations
        try:
            request = read_request(content)
            queue = self._responses()
        except BrokerError as error:
            if self.settled:
                self.detach(error)
            else:
                state = composite(REJECTED, error=error_composite(error))
                first = int(delivery_id)
                session.send(composite(DISPOSITION, role=True, first=first, settled=True, state=state))
            return
        self._respond(queue, answer(session, request))
        if not self.settled:
            write_disposition(
                session.connection.output.buffer, session.number, True, delivery_id, delivery_id, True, ACCEPTED_STATE
            )
            session.connection.request_flush()
        session.connection.output.await_change(declared)

    def _responses(self) -> Queue:
        """Return the queue of the paired link. Raises PreconditionFailed if no link is paired."""
        for link in self.session.links.by_handle.values():
            if isinstance(link, OutgoingLink) and link.link_name == self.link_name and link.state == LINK_ATTACHED:
                queue = link.consumer.queue
                if queue.name.startswith(RESPONSES):
                    return queue
        raise PreconditionFailed(
            f"no link '{self.link_name}' whose source is the management node: responses go to the link of the same "
            "name on the same session"
        )

    def _respond(self, queue: Queue, content: bytes) -> None:
        broker = self.session.broker
        if queue.waiting() >= RESPONSES_MAX or queue.bytes >= RESPONSE_BYTES_MAX:
            text = (
                f"[{self.session.name}] response on link '{self.link_name}' dropped: {queue.waiting():,} with "
                f"{int(queue.bytes):,} bytes wait for credit; the most are {RESPONSES_MAX:,} or {RESPONSE_BYTES_MAX:,}"
            )
            self.session.connection.services.log(LogLine(text, {"id": RESPONSE_DROPPED}))
            return
        queue.enqueue(Envelope("", queue.name), content, len(content) + OVERHEAD, broker.now)
        broker.schedule_delivery(queue)


MESSAGE_OCTETS_MAX: Final = 4096
"""Largest message: a declare or a discharge has less than 64 bytes."""
COORDINATOR_WORK: Final = 32
"""Units of work of a declare or a discharge, without the work of the commit."""
CAPABILITIES: Final = ["amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"]
"""Capabilities of the coordinator's transactions (section 4.5.6): several in a session, and several sessions in one."""
COMMIT_RETRY: Final = "penstock:commit-retry"
"""Desired capability of a link whose controller may discharge a transaction again after a commit was rejected."""


class CoordinatorLink(RequestLink):
    """A link to the transaction coordinator."""

    def __init__(self, session: AmqpSession, attach: Composite) -> None:
        super().__init__(session, attach, MESSAGE_OCTETS_MAX, "a coordinator")
        self.second: bool = attach.number("rcv_settle_mode", 0) == SECOND
        self.takes_rejected: bool = hears(attach, REJECTED_NAME)
        """False if the peer does not know `rejected`: the link is detached instead (sections 4.2 and 4.3)."""
        self.retries: bool = COMMIT_RETRY in attach.texts("desired_capabilities")
        """True if a transaction stays open when its commit is rejected at its hold deadline (decision 88)."""
        self._transactions = session.endpoint.transactions()
        self._producers: list[TransactionProducer] = []
        self._idle: list[TransactionProducer] = []
        """Producers without a transaction."""
        self._sections = session.endpoint.shared.frames.sections
        session.links.coordinators[self] = []

    def terminus(self) -> Composite:
        """Return the target with its capabilities."""
        return composite(COORDINATOR, capabilities=CAPABILITIES)

    # Declare and discharge

    @override
    def on_transfer(self, transfer: Transfer, data: bytes, end: i64) -> None:
        content = self.take(transfer, data, end)
        if (
            self.settled and not transfer.aborted
        ):  # The client would not learn the id or the end of its transaction (4.2).
            self.detach(NotAllowed("a settled transfer on a coordinator link"))
            return
        if content is not None:
            self._on_message(content, self.delivery_id)
        if self.state == LINK_ATTACHED:
            self.grant()

    def _on_message(self, content: bytes, delivery_id: i64) -> None:
        self.session.broker.work.done += COORDINATOR_WORK
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
        self._transactions.check_room()
        taken = self._take_producer()
        coordinator = Coordinator(taken.producer)
        coordinator.keeps_refused = self.retries
        transaction = taken.transaction = self._transactions.declare(self, coordinator)
        state = encode_composite(composite(DECLARED, txn_id=transaction.txn_id))
        write_outcome(self.session, delivery_id, delivery_id, not self.second, state)

    def _discharge(self, discharge: Composite, delivery_id: i64) -> None:
        transaction = self._transactions.find(discharge.octets("txn_id"))
        if transaction.link is not self:
            raise UnknownTransaction(f"the transaction was not declared on link '{self.link_name}'")
        self.session.connection.services.deliver()
        transaction.discharge(discharge.flag("fail"), delivery_id)

    def answer(self, transaction: Transaction, refusal: Refusal | None) -> bool:
        """Answer a discharge: the transaction was committed or rolled back as asked, or refused.

        Return whether the transaction has ended.
        """
        delivery_id = transaction.discharge_id
        self._transactions.write_provisional()  # Outcomes of the transaction precede its discharge (section 4.4.1).
        if refusal is None:
            write_outcome(self.session, delivery_id, delivery_id, not self.second, ACCEPTED_STATE)
        elif transaction.unit.is_open():
            transaction.reopen()
            state = rejected_state(refusal, self.session.broker.now)
            self._reject(delivery_id, state, ResourceError(refusal.describe()))
            return False
        else:
            if self.retries and transaction.unit.error is not None:  # Rolled back since the commit was refused.
                refusal = Refusal(ROLLED_BACK, None, error=transaction.unit.error)
            error = refusal.error
            if not isinstance(error, (TransactionRolledBack, TransactionTimeout)):
                error = TransactionRolledBack(f"the transaction was rolled back: {refusal.describe()}")
            state = rejected_state(refusal, self.session.broker.now, error.condition)
            self._reject(delivery_id, state, error)
        transaction.end(refusal is None)
        return True

    def _reject(self, delivery_id: i64, state: bytes, error: BrokerError) -> None:
        if self.takes_rejected:
            write_outcome(self.session, delivery_id, delivery_id, not self.second, state)
        else:
            self.detach(error)

    # Producers

    def _take_producer(self) -> TransactionProducer:
        """Return a producer for a transaction."""
        if self._idle:
            return self._idle.pop()
        taken = TransactionProducer(self, len(self._producers) + 1)
        self._producers.append(taken)
        self.session.links.coordinators[self].append(taken.producer)
        return taken

    def give_back(self, idle: TransactionProducer) -> None:
        """Take back the producer of an ended transaction."""
        self._idle.append(idle)

    # End

    @override
    def on_detach(self, closed: bool) -> None:
        super().on_detach(closed)
        self.end(True)
        self.session.connection.review_hold_bound()

    @override
    def end(self, graceful: bool) -> None:
        """Roll back the link's transactions."""
        self.session.links.coordinators.pop(self, None)
        for transaction in self._transactions.of_link(self):
            transaction.drop()
        for ended in self._producers:
            ended.transaction = None
            ended.producer.abort(self.session.connection.losses.cause)
        self._producers = []
        self._idle = []


class TransactionProducer(LinkProducer):
    """Producer of one transaction at a time: it holds the commit, and its confirms number the answers."""

    def __init__(self, link: CoordinatorLink, number: int) -> None:
        super().__init__(link, number)
        self._coordinator = link
        self.producer.confirming = True
        self.transaction: Transaction | None = None

    @override
    def on_confirms(self) -> None:
        for outcome in self.producer.confirms.take():
            transaction = self.transaction
            if transaction is not None and self._coordinator.answer(transaction, outcome.refusal):
                self.transaction = None
                self._coordinator.give_back(self)
        self.producer.confirms.forget_confirmed()  # The confirms answered commits.
