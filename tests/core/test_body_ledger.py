"""Ledger of the bodies in the store: handles and bytes of each."""

from __future__ import annotations

from penstock.core.body_ledger import BodyLedger
from penstock.core.large_bodies import LargeBodies, PieceBudget
from tests.support.arrived_bodies import arrived

OCTETS = bytes(600_000)


def test_body_is_unreferenced_when_as_many_handles_have_ended_as_there_were() -> None:
    ledger = BodyLedger()
    for number in (1, 2, 1):
        ledger.add(number)
    ledger.ended += [1, 2]
    assert (ledger.take_unreferenced(), ledger.holds(1), ledger.holds(2)) == ([2], True, False)
    ledger.ended.append(1)
    assert (ledger.take_unreferenced(), ledger.holds(1)) == ([1], False)


def test_body_is_whole_when_all_bytes_are_counted() -> None:
    ledger = BodyLedger()
    ledger.count(1, 10)
    assert not ledger.is_whole(1, 15)
    ledger.count(1, 5)
    assert ledger.is_whole(1, 15)


def test_last_handle_of_a_body_deletes_the_body() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    body = arrived(bodies, OCTETS)
    number = int(body.number)
    bodies.written(bodies.take_writes())
    handle = bodies.restore(number, body.octets, body.spans)
    del body
    assert bodies.take_unreferenced() == []
    assert bodies.ledger.holds(number)
    del handle
    assert bodies.take_unreferenced() == [number]
    assert bodies.is_idle()


def test_arrival_whose_pieces_were_written_is_deleted_when_dropped() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    arrival = bodies.begin(PieceBudget(bodies, None))
    arrival.append(OCTETS)
    assert not bodies.has_writes()
    bodies.crowded.append(PieceBudget(bodies, None))
    bodies.written(bodies.take_writes())
    number = int(arrival.body.number)
    del arrival
    assert bodies.take_unreferenced() == [number]


def test_arrival_dropped_before_completion_is_not_written() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    arrival = bodies.begin(PieceBudget(bodies, None))
    arrival.append(OCTETS)
    assert bodies.take_writes() == []
    del arrival
    assert bodies.take_unreferenced() == []
    assert (bodies.unwritten, bodies.writes) == (0, [])
