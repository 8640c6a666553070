"""Transactions of one connection: messages and settlements that take effect together (part 4).

Theory of operation. A transaction is a unit of work of the core (core/publish/unit_of_work.py). The id of a transaction
is valid in all sessions of the connection. Each transaction has its own `Coordinator`, so that no commit waits for
another: a held commit may need the room that the next commit frees.

A message in a transaction gets its provisional outcome at once, within a transactional-state. A refused message rolls
the transaction back: none of its work is applied, and its commit is rejected. A delivery that is settled in a
transaction stays in the ledger of its session (`Settler.retired`). After a commit the receiver gets a settled
disposition. After a rollback the delivery is unsettled as before (section 4.4.2). A delivery that its receiver has
settled already gets the default outcome of its link, because nobody can settle it again.

A transaction is overdue some time after its first message or settlement. A transaction without any has no timeout: JMS
declares the next transaction with each commit, however long it stays empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.outcome import AddedHeaders, Outcome
from penstock.core.consume.session import settle_in_slices
from penstock.core.publish.producer import Producer
from penstock.core.publish.unit_of_work import Coordinator
from penstock.core.routing.route import Route
from penstock.errors import (
    BrokerError,
    ResourceError,
    TransactionRolledBack,
    TransactionTimeout,
    UnknownTransaction,
)
from penstock.flow.timers import NEVER, TimerHandler
from penstock.protocols.amqp10.delivery_outcomes import headers_of, outcome_of, write_outcome
from penstock.protocols.amqp10.error_scopes import error_composite
from penstock.protocols.amqp10.link import Link
from penstock.wire.amqp10.composite import Composite, composite, decode_composite, encode_composite
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.spec import REJECTED, TRANSACTIONAL_STATE
from penstock.wire.amqp10.transfer import ACCEPTED_STATE

if TYPE_CHECKING:
    from penstock.protocols.amqp10.session import AmqpSession


TRANSACTIONS_MAX: Final = 1000
"""Most transactions of a connection whose discharge is not answered yet. A session of JMS has at most two."""
RETIRED_AT_ONCE: Final = 4_000
"""Deliveries of a disposition that are settled in a transaction at once; the rest are settled in later turns."""
RETIRED_MOST: Final = 32_768
"""Most deliveries of a session that open transactions have settled: each disposition examines all of them."""


class Retirement:
    """A delivery that a transaction has settled, until the transaction ends."""

    __slots__ = ("session", "number", "delivery_id", "outcome", "settled", "default")

    def __init__(self, session: AmqpSession, number: int, delivery_id: i64, outcome: Outcome, settled: bool) -> None:
        self.session = session
        self.number = number
        """Number in the ledger of the session."""
        self.delivery_id: i64 = delivery_id
        self.outcome = outcome
        self.settled = settled
        """True if the receiver has settled the delivery, and has forgotten it."""
        self.default: Outcome | None = None
        """Default outcome of the delivery's link, once the link is gone."""


class ProvisionalOutcomes:
    """Consecutive deliveries of a transaction whose provisional outcome is not written yet."""

    __slots__ = ("session", "first", "last", "settled")

    def __init__(self, session: AmqpSession, delivery_id: i64, settled: bool) -> None:
        self.session = session
        self.first: i64 = delivery_id
        self.last: i64 = delivery_id
        self.settled = settled


class Transaction(TimerHandler):
    """One transaction, from its declaration to the answer to its discharge."""

    def __init__(self, transactions: Transactions, link: Link, coordinator: Coordinator, txn_id: bytes) -> None:
        super().__init__()
        self.transactions = transactions
        self.link: Link = link
        """Coordinator link that declared the transaction."""
        self.txn_id = txn_id
        self.unit = coordinator.begin()
        self.discharge_id: i64 = ABSENT
        """Delivery-id of the discharge; `ABSENT` while the transaction is open."""
        self._commits: bool = False
        """True if the discharge asked for a commit."""
        self._participants: dict[int, AmqpSession] = {}
        """Sessions that have published or settled in the transaction, by identity."""
        self._retirements: list[Retirement] = []
        self._provisional: list[ProvisionalOutcomes] = []
        self._accepted_state: bytes = b""

    # Messages

    def publish(self, session: AmqpSession, producer: Producer, route: Route, content: bytes, charge: i64) -> None:
        """Store a message until the commit. Raises BrokerError after rolling the transaction back."""
        self._join(session)
        try:
            self.unit.add_publish(producer, route, content, charge)
        except BrokerError as error:
            self.on_refused(error)
            raise

    def on_refused(self, error: BrokerError) -> None:
        """Roll back because a message was refused."""
        self.fail(TransactionRolledBack(f"the transaction was rolled back, because a message was refused: {error}"))

    def add_provisional(self, session: AmqpSession, delivery_id: i64, settled: bool) -> None:
        """Schedule the provisional outcome `accepted` of a delivery for the end of the turn."""
        ranges = self._provisional
        if ranges:
            last = ranges[len(ranges) - 1]
            if last.session is session and last.settled == settled and delivery_id == (last.last + 1) & 0xFFFFFFFF:
                last.last = delivery_id
                return
        else:
            self.transactions.schedule(self)
            session.connection.request_flush()
        ranges.append(ProvisionalOutcomes(session, delivery_id, settled))

    def write_provisional(self) -> None:
        """Write the provisional outcomes that are due."""
        ranges = self._provisional
        self._provisional = []
        if ranges and not self._accepted_state:
            self._accepted_state = self.state_of(ACCEPTED_STATE)
        for each in ranges:
            write_outcome(each.session, each.first, each.last, each.settled, self._accepted_state)

    def state_of(self, outcome: bytes) -> bytes:
        """Return a provisional outcome as a transactional-state."""
        inner = decode_composite(outcome, 0, len(outcome))[0]
        return encode_composite(composite(TRANSACTIONAL_STATE, txn_id=self.txn_id, outcome=inner))

    # Settlements

    def retire(
        self, session: AmqpSession, ranges: list[tuple[int, int]], state: Composite | None, settled: bool
    ) -> bool:
        """Settle ranges of deliveries at the commit. `settled` is true if the receiver has settled them.

        Returns False if deliveries may be left: a disposition of very many deliveries must then be repeated.
        """
        unit = self.unit
        before = len(unit.settlements)
        code = ABSENT if state is None else state.code
        outcome = outcome_of(code, state)
        is_whole = True
        if unit.error is None:
            self._join(session)
            is_whole = self._record(session, ranges, outcome, headers_of(code, state, session.broker.formats))
        if unit.error is not None:
            if settled:  # The receiver will not settle them again.
                for first, last in ranges:
                    session.settler.settle_by_default(first, last)
            return True
        ids = session.writer.ids
        for settlement in unit.settlements[before:]:
            retirement = Retirement(session, settlement.tag, ids.id_of(settlement.tag), outcome, settled)
            self._retirements.append(retirement)
            session.settler.retired[settlement.tag] = retirement
        session.broker.work.count(len(unit.settlements) - before)
        return is_whole

    def _record(
        self, session: AmqpSession, ranges: list[tuple[int, int]], outcome: Outcome, added: AddedHeaders | None
    ) -> bool:
        """Settle ranges of deliveries at the commit, or roll back because there are too many.

        Returns False if the transaction ended before the last delivery.
        """
        left: i64 = RETIRED_AT_ONCE
        try:
            for first, last in ranges:
                if left <= 0:
                    return False
                left -= self.unit.settle_range(session, first, last, outcome, added, left)
            retired = len(session.settler.retired) + RETIRED_AT_ONCE - left
            if retired > RETIRED_MOST:
                raise ResourceError(
                    f"{int(retired):,} deliveries of session {session.number} would be settled in open transactions; "
                    f"the most is {RETIRED_MOST:,}"
                )
        except BrokerError as error:
            self.fail(TransactionRolledBack(f"the transaction was rolled back: {error}"))
        return left > 0

    # End

    def _join(self, session: AmqpSession) -> None:
        """Record that a session takes part in the transaction."""
        if id(session) not in self._participants:
            if not self._participants:
                broker = session.broker
                broker.timers.add(self, broker.now + session.connection.limits.start.transaction_timeout_s)
            self._participants[id(session)] = session
            session.transactions += 1

    def involves(self, session: AmqpSession) -> bool:
        """Return whether a session takes part in the transaction."""
        return id(session) in self._participants

    @override
    def on_deadline(self, now: float) -> float:
        session = self.link.session
        timeout_s = session.connection.limits.start.transaction_timeout_s
        error = TransactionTimeout(
            f"the transaction was rolled back: it was open for {timeout_s:g} s after its first message or settlement, "
            f"the limit (transaction-timeout-s)"
        )
        subject = f"{session.name}/link:{self.link.link_name}"
        session.connection.services.log_request_refused(session.connection, subject, error)
        self.fail(error)
        return NEVER

    def fail(self, error: BrokerError) -> None:
        """Roll back an open transaction; its discharge will be rejected with this error."""
        if self.unit.error is None:
            self.unit.fail(error)
            self._revert()

    def discharge(self, failed: bool, delivery_id: i64) -> None:
        """Commit, or roll back (`failed`). The answer is one more confirm of the lane."""
        self.discharge_id = delivery_id
        self.link.session.broker.timers.drop(self)
        self._commits = not failed
        self.link.session.broker.work.done += len(self.unit.publishes) + len(self.unit.settlements)
        if failed:
            self.unit.rollback()
        else:
            self.unit.commit()

    def reopen(self) -> None:
        """Accept messages and another discharge: the commit was refused, and the timeout restarts."""
        self.discharge_id = ABSENT
        if self._participants:
            broker = self.link.session.broker
            broker.timers.add(self, broker.now + self.link.session.connection.limits.start.transaction_timeout_s)

    def end_session(self, session: AmqpSession) -> None:
        """Roll back, because a participating session ends. A held commit is refused."""
        error = TransactionRolledBack(f"the transaction was rolled back, because session {session.number} has ended")
        if self.discharge_id == ABSENT:
            self.fail(error)
        else:
            self.unit.coordinator.roll_back_all(error)

    def end(self, succeeded: bool) -> None:
        """End the transaction after its discharge. The receivers of the settled deliveries get dispositions."""
        self.link.session.broker.timers.drop(self)
        if succeeded and self._commits:
            self._settle()
        else:
            self._revert()
        for session in self._participants.values():
            session.transactions -= 1
        self._participants.clear()
        self.transactions.remove(self)

    def drop(self) -> None:
        """Roll back without an answer, because the coordinator link ends; a held commit is dropped."""
        self.unit.coordinator.end()
        self.end(False)

    def _settle(self) -> None:
        """Report to the receivers of its deliveries that the broker has settled them (section 4.4.2)."""
        run: list[Retirement] = []
        for each in self._take_retirements():
            if each.settled:
                continue
            if run and not _follows(run[len(run) - 1], each):
                _write_settled(run)
                run = []
            run.append(each)
        _write_settled(run)

    def _revert(self) -> None:
        """Undo the transaction's settlements."""
        for each in self._take_retirements():
            if each.settled:
                _settle_by_default(each)

    def _take_retirements(self) -> list[Retirement]:
        """Take the transaction's settlements from it and from the sessions."""
        taken = self._retirements
        self._retirements = []
        for each in taken:
            each.session.settler.retired.pop(each.number, None)
        return taken


class Posting:
    """Transaction of the delivery that an incoming link receives."""

    __slots__ = ("txn_id", "transaction", "error")

    def __init__(self, transactions: Transactions, state: Composite) -> None:
        self.txn_id: bytes = state.octets("txn_id")
        self.transaction: Transaction | None = None
        self.error: BrokerError | None = None
        """Error of an unknown transaction."""
        try:
            self.transaction = transactions.find(self.txn_id)
        except UnknownTransaction as unknown:
            self.error = unknown

    def publish(self, session: AmqpSession, producer: Producer, route: Route, content: bytes, charge: i64) -> None:
        """Store the message until the commit. Raises BrokerError."""
        if self.transaction is not None:
            self.transaction.publish(session, producer, route, content, charge)
        elif self.error is not None:
            raise self.error

    def on_refused(self, error: BrokerError) -> None:
        """Roll the transaction back because the message was refused."""
        if self.transaction is not None:
            self.transaction.on_refused(error)

    def state_of(self, outcome: bytes) -> bytes:
        """Return the delivery state that has the outcome."""
        if self.transaction is not None:
            return self.transaction.state_of(outcome)
        assert self.error is not None
        return encode_composite(composite(REJECTED, error=error_composite(self.error)))


class Transactions:
    """The transactions of one connection, by their ids."""

    def __init__(self) -> None:
        self._declared: int = 0
        """Number of transactions declared so far; transaction ids are these numbers."""
        self._live: dict[bytes, Transaction] = {}
        """Transactions whose discharge is not answered yet."""
        self._unwritten: list[Transaction] = []
        """Transactions with provisional outcomes to write."""

    def check_room(self) -> None:
        """Check that one more transaction may be declared. Raises ResourceError."""
        if len(self._live) >= TRANSACTIONS_MAX:
            raise ResourceError(
                f"the connection has {len(self._live):,} transactions that are not discharged; "
                f"the most is {TRANSACTIONS_MAX:,}"
            )

    def declare(self, link: Link, coordinator: Coordinator) -> Transaction:
        """Declare a transaction of a coordinator link."""
        self._declared += 1
        transaction = Transaction(self, link, coordinator, self._declared.to_bytes(8, "big"))
        self._live[transaction.txn_id] = transaction
        return transaction

    def find(self, txn_id: bytes) -> Transaction:
        """Return the open transaction with an id. Raises UnknownTransaction."""
        transaction = self._live.get(txn_id)
        if transaction is None or transaction.discharge_id != ABSENT:
            raise UnknownTransaction(
                f"the connection has no open transaction with the id 0x{txn_id[:16].hex()}: "
                f"it was not declared on it, or is discharged"
            )
        return transaction

    def of_link(self, link: Link) -> list[Transaction]:
        """Return the transactions that a coordinator link has declared."""
        return [transaction for transaction in self._live.values() if transaction.link is link]

    def remove(self, transaction: Transaction) -> None:
        """Remove a transaction that has ended."""
        self._live.pop(transaction.txn_id, None)

    def end_session(self, session: AmqpSession) -> None:
        """Roll back the transactions that a session took part in.

        The rollback precedes the return of the session's deliveries.
        """
        for transaction in list(self._live.values()):
            if transaction.involves(session):
                transaction.end_session(session)

    def schedule(self, transaction: Transaction) -> None:
        """Schedule the provisional outcomes of a transaction, which are written when the output is taken."""
        self._unwritten.append(transaction)

    def write_provisional(self) -> None:
        """Write the provisional outcomes that are due."""
        unwritten = self._unwritten
        self._unwritten = []
        for transaction in unwritten:
            transaction.write_provisional()


def _settle_by_default(retirement: Retirement) -> None:
    session, number = retirement.session, retirement.number
    if retirement.default is None:
        session.settler.settle_by_default(number, number)
    else:
        settle_in_slices(session.broker, session, number, number, retirement.default)


def _follows(before: Retirement, after: Retirement) -> bool:
    return after.session is before.session and after.number == before.number + 1 and after.outcome is before.outcome


def _write_settled(run: list[Retirement]) -> None:
    """Report to a receiver that the broker has settled consecutive deliveries."""
    if not run:
        return
    session = run[0].session
    if session.is_open() and session.links.has_receivers():  # A detached link reports this when it is resumed.
        is_accepted = run[0].outcome is Outcome.ACCEPTED
        session.settler.write_settled(run[0].delivery_id, run[len(run) - 1].delivery_id, is_accepted)
