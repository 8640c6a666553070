"""Loading of large bodies: piece by piece, for the moment in which they are needed."""

from __future__ import annotations

from penstock.core.large_bodies import PIECE_OCTETS, LargeBodies
from penstock.core.large_content import BodyLoad, LoadListener
from tests.support.arrived_bodies import arrived
from tests.support.piece_store import PieceStore


class Listener(LoadListener):
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def on_loaded(self) -> None:
        self.calls += 1


def test_bodies_in_memory_need_no_load() -> None:
    bodies = LargeBodies()
    listener = Listener()
    assert BodyLoad(bodies, [arrived(bodies, b"x"), arrived(bodies, bytes(PIECE_OCTETS + 1))], listener).begin()
    assert listener.calls == 0


def test_pieces_are_there_between_insert_and_release() -> None:
    bodies = LargeBodies()
    store = PieceStore(bodies)
    wanted = [arrived(bodies, b"first"), arrived(bodies, bytes(PIECE_OCTETS) + b"second")]
    store.write()
    listener = Listener()
    load = BodyLoad(bodies, wanted, listener)
    assert not load.begin()
    reads = 0
    while store.read():
        reads += 1
    assert (reads, listener.calls, load.fault) == (3, 1, "")
    assert [each.pieces for each in wanted] == [{}, {}]
    load.insert()
    assert wanted[0].pieces == {0: b"first"}
    assert wanted[1].pieces == {0: bytes(PIECE_OCTETS), 1: b"second"}
    load.release()
    assert [each.pieces for each in wanted] == [{}, {}]


def test_loads_of_the_same_body_do_not_disturb_each_other() -> None:
    bodies = LargeBodies()
    store = PieceStore(bodies)
    wanted = arrived(bodies, b"octets")
    store.write()
    loads = [BodyLoad(bodies, [wanted], Listener()) for _ in range(2)]
    for load in loads:
        load.begin()
    store.read()
    loads[0].insert()
    loads[0].release()
    loads[1].insert()
    assert wanted.is_in_memory()


def test_unreadable_piece_is_a_fault_of_the_load() -> None:
    bodies = LargeBodies()
    store = PieceStore(bodies)
    wanted = [arrived(bodies, b"first"), arrived(bodies, b"second")]
    store.write()
    store.fault = "disk I/O error"
    listener = Listener()
    load = BodyLoad(bodies, wanted, listener)
    load.begin()
    assert store.read() == 1
    assert (load.fault, listener.calls) == ("disk I/O error", 1)


def test_cancelled_load_is_not_notified() -> None:
    bodies = LargeBodies()
    store = PieceStore(bodies)
    wanted = arrived(bodies, b"octets")
    store.write()
    listener = Listener()
    load = BodyLoad(bodies, [wanted], listener)
    load.begin()
    load.cancel()
    store.read()
    assert listener.calls == 0
