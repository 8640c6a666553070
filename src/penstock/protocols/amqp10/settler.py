"""Settler: applies the outcomes that the receivers of a session's outgoing links send for deliveries (section 2.7.6).

A delivery that a transaction has settled is skipped until the transaction ends (`Settler.retired`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.consume.bulk_requeue import settle_batches
from penstock.core.consume.consumer import Batch
from penstock.core.consume.outcome import EXCLUDED_MAX, Outcome, excluded
from penstock.core.consume.session import settle_in_slices
from penstock.errors import NotAllowed, ResourceError
from penstock.protocols.amqp10.delivery_outcomes import headers_of, outcome_of
from penstock.wire.amqp10.composite import Composite
from penstock.wire.amqp10.spec import ACCEPTED, MODIFIED, REJECTED, RELEASED, TRANSACTIONAL_STATE
from penstock.wire.amqp10.transfer import ACCEPTED_STATE, NO_STATE, Disposition, write_disposition

if TYPE_CHECKING:
    from penstock.protocols.amqp10.session import AmqpSession
    from penstock.protocols.amqp10.transactions import Retirement


RETIREMENTS_A_UNIT: Final = 4
"""Deliveries settled by transactions that are examined per unit of work."""


class Settler:
    """Settlement of the deliveries of one session."""

    __deletable__ = ("_session",)

    def __init__(self, session: AmqpSession) -> None:
        self._session = session
        self.retired: dict[int, Retirement] = {}
        """Deliveries that transactions have settled, by number; they stay unsettled until the transactions end."""

    def unlink(self) -> None:
        """Drop the session: it has ended."""
        del self._session

    def on_disposition(self, disposition: Disposition) -> bool:
        """Settle a range of deliveries. Deliveries that are settled already are skipped.

        A receiver that settles second sends its outcome unsettled: the broker answers that it has settled. Returns
        False if the disposition is to be repeated for the remaining deliveries. Raises NotAllowed for a delivery that
        was not sent yet.
        """
        session = self._session
        ids = session.writer.ids
        if ids.is_future(disposition.last):
            raise NotAllowed(f"disposition of delivery {disposition.last}, which was not sent yet")
        first, last = ids.number_of(disposition.first), ids.number_of(disposition.last)
        code = disposition.state_code
        if code == TRANSACTIONAL_STATE:
            return self._retire(first, last, disposition)
        if code != ACCEPTED and code != REJECTED and code != RELEASED and code != MODIFIED and not disposition.settled:
            return True  # No outcome yet: the deliveries stay unsettled.
        if self.retired:
            self._settle_around(first, last, disposition)
            return True
        self._settle(first, last, disposition)
        if not disposition.settled:
            self.write_settled(disposition.first, disposition.last, code == ACCEPTED)
        return True

    def _settle_around(self, first: i64, last: i64, disposition: Disposition) -> None:
        """Settle a range except the deliveries that a transaction has settled."""
        session = self._session
        for begin, end in self.free_ranges(first, last, disposition.settled):
            numbers: list[i64] = []
            if not disposition.settled:
                for number, _, _ in session.unsettled.deliveries(begin, end):
                    numbers.append(session.writer.ids.id_of(number))
            self._settle(begin, end, disposition)
            for delivery_id in numbers:
                self.write_settled(delivery_id, delivery_id, disposition.state_code == ACCEPTED)

    def write_settled(self, first: i64, last: i64, is_accepted: bool) -> None:
        """Report to the receiver that the broker has settled deliveries as asked."""
        session = self._session
        octets = ACCEPTED_STATE if is_accepted else NO_STATE
        write_disposition(session.connection.output.buffer, session.number, False, first, last, True, octets)
        session.connection.request_flush()

    def _settle(self, first: i64, last: i64, disposition: Disposition) -> None:
        session = self._session
        code = disposition.state_code
        if code == ACCEPTED:
            self._accept(first, last)
        elif code == REJECTED or code == RELEASED or code == MODIFIED:
            state = disposition.state
            added = headers_of(code, state, session.broker.formats)
            outcome = outcome_of(code, state)
            settle_in_slices(session.broker, session, first, last, outcome, added)
            if outcome is Outcome.UNDELIVERABLE:
                self._detach_full()
        else:
            self.settle_by_default(first, last)

    def _detach_full(self) -> None:
        """Detach links that have called more messages undeliverable than can be remembered."""
        session = self._session
        for consumer in list(session.consumers.values()):
            link = session.links.receiver_of(consumer)
            if link is not None and excluded(consumer) >= EXCLUDED_MAX:
                link.detach(
                    ResourceError(f"link '{link.link_name}' has called {EXCLUDED_MAX:,} messages undeliverable-here")
                )

    def _retire(self, first: i64, last: i64, disposition: Disposition) -> bool:
        """Settle deliveries in the transaction that a transactional-state names; see `Transaction.retire`.

        Raises UnknownTransaction.
        """
        state = disposition.state
        assert isinstance(state, Composite)
        transaction = self._session.endpoint.transactions().find(state.octets("txn_id"))
        ranges = self.free_ranges(first, last, disposition.settled)
        outcome = state.inner("outcome")
        if outcome is None and not disposition.settled:
            return True
        return transaction.retire(self._session, ranges, outcome, disposition.settled)

    def free_ranges(
        self, first: i64, last: i64, settled: bool, default: Outcome | None = None
    ) -> list[tuple[int, int]]:
        """Return the ranges between first and last without the deliveries that a transaction has settled.

        If the receiver has settled them now (`settled`), that is recorded, and the default outcome of an ending link.
        """
        retired = self.retired
        if first == last:
            numbers = [int(first)] if int(first) in retired else []
        else:
            numbers = sorted(number for number in retired if first <= number <= last)
            self._session.broker.work.done += len(retired) // RETIREMENTS_A_UNIT
        ranges: list[tuple[int, int]] = []
        begin = int(first)
        for number in numbers:
            if settled:
                retired[number].settled = True
                retired[number].default = default
            if begin < number:
                ranges.append((begin, number - 1))
            begin = number + 1
        if begin <= last:
            ranges.append((begin, int(last)))
        return ranges

    def _accept(self, first: i64, last: i64) -> None:
        session = self._session
        if session.unsettled.is_front(first):
            session.unsettled.settle(first, last, Outcome.ACCEPTED, session.broker.now)
        else:
            settle_in_slices(session.broker, session, first, last, Outcome.ACCEPTED)

    def settle_by_default(self, first: i64, last: i64) -> None:
        """Settle deliveries without an outcome of their receiver: each gets the default of its link's source."""
        session = self._session
        by_outcome: dict[Outcome, list[Batch]] = {}
        for batch in session.unsettled.detach(first, last):
            link = session.links.receiver_of(batch.consumer)
            outcome = Outcome.RELEASED if link is None else link.default_outcome
            batches = by_outcome.get(outcome)
            if batches is None:
                by_outcome[outcome] = [batch]
            else:
                batches.append(batch)
        for outcome in by_outcome:
            settle_batches(session.broker, by_outcome[outcome], outcome)
