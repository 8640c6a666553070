"""Counts of a session as a tally, and their addition to totals when the session or its connection ends.

Theory of operation. The hot path counts nothing for a session that can be derived. Deliveries to be acknowledged are
counted by batch when they become unsettled. Acknowledged deliveries are those that are neither unsettled nor settled
otherwise. Confirms are the numbers that were taken.

A connection that ends leaves its counts to its virtual host and its user at once, although its sessions are torn down
in slices: `counted` is the part of a session that was added already. So the sums never fall.
"""

from __future__ import annotations

from penstock.core.consume.session import Session
from penstock.core.publish.connection_gates import ConnectionGates, add_counts, take_counts
from penstock.core.publish.producer import Producer
from penstock.flow.series import Tally


def producers_of(session: Session) -> list[Producer]:
    """Return the producers of a session."""
    return [each for each in session.producers() if isinstance(each, Producer)]


def consumed(session: Session) -> Tally:
    """Return the counts of the consuming side of a session."""
    tally, own = Tally(), session.tally
    unsettled = session.unsettled
    tally.deliver = unsettled.added - own.get
    tally.deliver_no_ack = own.deliver_no_ack
    tally.get = own.get
    tally.get_no_ack = own.get_no_ack
    tally.get_empty = own.get_empty
    tally.ack = unsettled.accepted()
    tally.redeliver = own.redeliver
    return tally


def tally_of(session: Session) -> Tally:
    """Return the counts of a session: of its consumers, and of its publishers, ended ones included."""
    tally, own = consumed(session), session.tally
    tally.publish = own.publish
    tally.confirm = own.confirm
    tally.return_unroutable = own.return_unroutable
    tally.drop_unroutable = own.drop_unroutable
    for producer in producers_of(session):
        add_counts(producer, tally)
    return tally


def count_ended(session: Session, origin: ConnectionGates | None) -> None:
    """Add the counts of a session's consumers to the totals, because the session or its connection ends."""
    if origin is None:
        return
    counted = consumed(session)
    origin.count(counted if session.counted is None else counted.less(session.counted))
    session.counted = counted


def leave_counts(sessions: list[Session], origin: ConnectionGates, sinks: list[Tally]) -> None:
    """Add the counts of a closing connection to these tallies: of its virtual host and of its user."""
    taken = Tally()
    for producer in origin.producers:
        take_counts(producer, taken)
    origin.count(taken)
    for session in sessions:
        count_ended(session, origin)
    before = origin.counts
    origin.counts = Tally()
    origin.sinks = sinks
    origin.count(before)
