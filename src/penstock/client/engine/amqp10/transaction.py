"""Transaction of AMQP 1.0: a link to the coordinator (part 4), and publishers and receivers that name its id."""

from __future__ import annotations

from typing import Final

from penstock.client.engine.amqp10.publisher import Publisher10
from penstock.client.engine.amqp10.receiver import Receiver10
from penstock.client.engine.amqp10.session import Asked, AskingLink, Session, Sessions, TransactionalState, reason_of
from penstock.client.engine.outcomes import CommitRefused, TransactionAborted
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.receiver import ReceiverCore
from penstock.client.engine.terms import PublisherTerms, ReceiverTerms
from penstock.client.engine.transaction import TransactionCore
from penstock.client.engine.waits import Call
from penstock.markers import override
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, encode
from penstock.wire.amqp10.frames import frame
from penstock.wire.amqp10.transfer import Disposition

COMMIT_RETRY: Final = "penstock:commit-retry"
"""Capability of a coordinator link whose transactions stay open when their commit is refused."""
RETRIABLE: Final = "amqp:resource-limit-exceeded"
"""Condition of such a refusal."""
_VALUE: Final = b"\x00\x53\x77"
"""Descriptor of an amqp-value section."""


class Question(Asked):
    """Declaration or discharge, whose outcome goes to `call`."""

    def __init__(self, transaction: Transaction10, body: bytes, call: Call) -> None:
        self.transaction = transaction
        self.body = body
        self.call = call

    @override
    def settled(self, disposition: Disposition) -> None:
        self.transaction.answered_by(self.call, disposition)


class CoordinatorLink(AskingLink):
    """Link on which transactions are declared and discharged."""

    def __init__(self, session: Session, name: str, transaction: Transaction10) -> None:
        super().__init__(session, name)
        self.transaction = transaction
        self.waiting: list[Question] = []
        self.open: Call | None = None
        """Unanswered request: a transaction has one at a time."""

    def request(self, body: bytes, call: Call) -> Call:
        """Send a request as soon as there is credit; `call` ends with the state of its delivery."""
        self.open = call
        self.waiting.append(Question(self.transaction, body, call))
        self.send()
        return call

    @override
    def send(self) -> None:
        session = self.session
        while self.waiting and self.credit > 0 and session.window > 0:
            question = self.waiting.pop(0)
            number = session.next_id
            session.next_id += 1
            session.requests[int(number)] = question
            tag = int(self.sent).to_bytes(8, "big")
            head = encode(
                spec.TRANSFER, handle=self.handle, delivery_id=int(number) & 0xFFFFFFFF, delivery_tag=tag, settled=False
            )
            session.engine.out.write(frame(int(session.channel), head + _VALUE + question.body))
            session.window -= 1
            session.next_transfer += 1
            self.count_sent()
            session.engine.wake_output()

    @override
    def on_detach(self, code: str, text: str) -> None:
        if self.open is not None:
            self.session.engine.finish(self.open, TransactionAborted(text))
        self.transaction.fail(text)


class Transaction10(TransactionCore):
    """Transaction with a coordinator link of its own."""

    def __init__(self, sessions: Sessions, notify_period: float) -> None:
        super().__init__(sessions.engine, notify_period)
        self.sessions = sessions
        self.link: CoordinatorLink | None = None
        self.state = TransactionalState(sessions)

    @override
    def begin(self) -> Call:
        link = self.link
        if link is None:
            name = self.sessions.new_name("transaction")
            link = self.link = CoordinatorLink(self.sessions.session(), name, self)
            link.attach(
                snd_settle_mode=0,
                rcv_settle_mode=0,
                source=composite(spec.SOURCE, address=self.engine.terms.container),
                target=composite(spec.COORDINATOR, capabilities=["amqp:local-transactions"]),
                desired_capabilities=[COMMIT_RETRY],
            )
        return link.request(encode(spec.DECLARE), Call("the declaration of a transaction"))

    @override
    def discharge(self, commits: bool) -> Call:
        link = self.link
        assert link is not None
        body = encode(spec.DISCHARGE, txn_id=self.state.id, fail=not commits)
        return link.request(body, Call("the commit" if commits else "the rollback"))

    @override
    def new_publisher(self, terms: PublisherTerms) -> PublisherCore:
        publisher = Publisher10(self.sessions, terms)
        publisher.unit = self.unit
        publisher.transaction = self.state
        publisher.attach()
        return publisher

    @override
    def new_receiver(self, terms: ReceiverTerms) -> ReceiverCore:
        receiver = Receiver10(self.sessions, terms)
        receiver.unit = self.unit
        receiver.transaction = self.state
        receiver.attach()
        return receiver

    @override
    def detach(self) -> None:
        for publisher in self.publishers:
            publisher.detach()
        for receiver in self.receivers:
            receiver.detach()
        if self.link is not None:
            self.link.detach()

    def answered_by(self, call: Call, disposition: Disposition) -> None:
        """Handle the state of the delivery of a request."""
        state = disposition.state
        if disposition.state_code == spec.DECLARED and isinstance(state, Composite):
            self.state.begin(state.octets("txn_id"))
            self.engine.finish(call)
        elif disposition.state_code == spec.ACCEPTED:
            self.engine.finish(call)
        else:
            reason = reason_of(disposition.state_code, state)
            error = state.inner("error") if isinstance(state, Composite) else None
            is_open = error is not None and error.text("condition") == RETRIABLE
            self.engine.finish(call, CommitRefused(reason) if is_open else TransactionAborted(reason))
