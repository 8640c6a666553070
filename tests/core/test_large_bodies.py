"""Large bodies in pieces: cut, written, read and deleted, within bounds."""

from __future__ import annotations

import re
import sys

from librt.strings import BytesWriter

from penstock.core.large_bodies import (
    PIECE_OCTETS,
    UNWRITTEN_OF_A_CONNECTION,
    LargeBodies,
    LargeBody,
    LargeReader,
    PieceBudget,
    PieceListener,
    RoomListener,
    Span,
)
from tests.support.arrived_bodies import arrived

OCTETS = bytes(range(251)) * 3000  # Three pieces; the last one is incomplete.


class Listener(PieceListener):
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def on_piece(self, reader: LargeReader) -> None:
        self.calls += 1


class Room(RoomListener):
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def on_room(self) -> None:
        self.calls += 1


def stored(bodies: LargeBodies, store: dict[tuple[int, int], bytes], cached: int = 0) -> None:
    """Run a transaction of a store in memory; so many octets of written pieces stay in the memory of the bodies."""
    writes = bodies.take_writes()
    for write in writes:
        store[int(write.number), int(write.index)] = write.octets
    most, bodies.in_memory_max = bodies.in_memory_max, bodies.deferred + cached
    bodies.written(writes)
    bodies.in_memory_max = most


def everything(reader: LargeReader, bodies: LargeBodies, store: dict[tuple[int, int], bytes], most: int) -> bytes:
    """Read a body to its end, with a store in memory."""
    parts = []
    while reader.left:
        part = reader.take(most)
        assert len(part) <= most
        parts.append(part)
        if not part:
            assert bodies.reads
            for read in bodies.take_reads():
                read.on_read(store.get((int(read.number), int(read.index))))
    assert reader.take(most) == b""
    return b"".join(parts)


def test_large_body_without_a_store_stays_in_pieces() -> None:
    bodies = LargeBodies()
    body = arrived(bodies, OCTETS)
    assert [len(body.pieces[index]) for index in range(3)] == [PIECE_OCTETS, PIECE_OCTETS, len(OCTETS) % PIECE_OCTETS]
    assert (body.octets, body.data_octets(), body.piece_count()) == (len(OCTETS), len(OCTETS), 3)
    assert bodies.is_idle()
    assert everything(LargeReader(bodies, body, body.spans, Listener()), bodies, {}, 1000) == OCTETS
    del body
    assert bodies.take_unreferenced() == []


def test_large_body_of_exactly_two_pieces_has_no_third() -> None:
    bodies = LargeBodies()
    body = arrived(bodies, bytes(2 * PIECE_OCTETS), 2 * PIECE_OCTETS)
    assert body.piece_count() == len(body.pieces) == 2
    assert body.is_in_memory()


def test_pieces_leave_the_memory_when_written_and_come_back_singly() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    store: dict[tuple[int, int], bytes] = {}
    body = arrived(bodies, OCTETS)
    assert bodies.unwritten == len(OCTETS)
    stored(bodies, store)
    assert bodies.unwritten == 0
    assert body.pieces == {}
    listener = Listener()
    assert everything(LargeReader(bodies, body, body.spans, listener), bodies, store, 131072) == OCTETS
    assert listener.calls == 3


def test_next_piece_is_read_ahead_and_no_more() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    store: dict[tuple[int, int], bytes] = {}
    body = arrived(bodies, OCTETS)
    stored(bodies, store)
    listener = Listener()
    reader = LargeReader(bodies, body, body.spans, listener)
    assert reader.take(1000) == b""
    bodies.take_reads()[0].on_read(store[1, 0])
    assert reader.take(1000) == OCTETS[:1000]
    (ahead,) = bodies.take_reads()
    assert ahead.index == 1
    ahead.on_read(store[1, 1])
    assert listener.calls == 1
    assert reader.take(PIECE_OCTETS) == OCTETS[1000:PIECE_OCTETS]
    assert bodies.reads == []
    assert reader.take(10) == OCTETS[PIECE_OCTETS : PIECE_OCTETS + 10]
    assert [read.index for read in bodies.take_reads()] == [2]


def test_fault_of_a_read_ahead_counts_when_the_piece_is_needed() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    store: dict[tuple[int, int], bytes] = {}
    body = arrived(bodies, OCTETS)
    stored(bodies, store)
    listener = Listener()
    reader = LargeReader(bodies, body, body.spans, listener)
    reader.take(10)
    bodies.take_reads()[0].on_read(store[1, 0])
    assert len(reader.take(PIECE_OCTETS)) == PIECE_OCTETS
    bodies.take_reads()[0].on_read(None, "disk I/O error")
    assert (reader.fault, listener.calls) == ("", 1)
    assert reader.take(10) == b""
    bodies.take_reads()[0].on_read(store[1, 1])
    assert reader.take(10) == OCTETS[PIECE_OCTETS : PIECE_OCTETS + 10]


def test_written_pieces_stay_in_memory_while_there_is_room() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    store: dict[tuple[int, int], bytes] = {}
    first = arrived(bodies, OCTETS)
    stored(bodies, store, 2 * len(OCTETS))
    listener = Listener()
    assert everything(LargeReader(bodies, first, first.spans, listener), bodies, {}, 10**6) == OCTETS
    assert (listener.calls, bodies.cached, bodies.unwritten) == (0, len(OCTETS), 0)
    second, third = arrived(bodies, OCTETS), arrived(bodies, OCTETS)
    stored(bodies, store, 2 * len(OCTETS))
    assert [len(body.pieces) for body in (first, second, third)] == [0, 3, 3]
    assert everything(LargeReader(bodies, first, first.spans, listener), bodies, store, 10**6) == OCTETS
    del second
    assert bodies.take_unreferenced() == [2]
    assert bodies.cached == len(OCTETS)


def test_deferred_pieces_take_the_memory_of_written_pieces_first() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    persistent = arrived(bodies, OCTETS)
    stored(bodies, {}, len(OCTETS))
    bodies.in_memory_max = len(OCTETS) + PIECE_OCTETS
    held = [transient(bodies, OCTETS)]
    assert (persistent.pieces, bodies.cached, bodies.deferred, bodies.unwritten) == ({}, 0, len(OCTETS), 0)
    held.append(transient(bodies, OCTETS))
    assert bodies.unwritten > 0


def test_body_that_arrives_keeps_no_input_in_memory_beyond_twice_the_own_part() -> None:
    arrival = LargeBodies().begin(PieceBudget(LargeBodies(), None))
    read = bytes(range(256)) * 400
    references = sys.getrefcount(read)
    arrival.append(read, 0, len(read) // 2 - 1)
    assert sys.getrefcount(read) == references
    arrival.append(read, 0, len(read) // 2)
    assert sys.getrefcount(read) > references
    arrival.append(bytes(PIECE_OCTETS))
    assert sys.getrefcount(read) == references
    body = arrival.finish([])
    assert body.pieces[0].startswith(read[: len(read) // 2 - 1] + read[: len(read) // 2])


def test_unwritten_piece_is_read_from_memory() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    body = arrived(bodies, OCTETS)
    listener = Listener()
    assert everything(LargeReader(bodies, body, body.spans, listener), bodies, {}, 10**6) == OCTETS
    assert listener.calls == 0


def test_long_part_of_a_piece_is_written_in_place_and_a_short_part_copied() -> None:
    bodies = LargeBodies()
    body = arrived(bodies, OCTETS)
    reader = body.open(bodies, body.spans, Listener())
    out, parts = BytesWriter(), list[bytes | memoryview]()
    while reader.left:
        out.write(b"<%d>" % reader.ready(200_000 if reader.left > 300_000 else 9_000))
        reader.write(out, parts)
    sizes = [200_000, PIECE_OCTETS - 200_000, 200_000]
    assert [len(part) for part in parts[1::2]] == sizes
    assert all(isinstance(part, memoryview) and part.obj in body.pieces.values() for part in parts[1::2])
    assert out.getvalue().startswith(b"<9000>")
    written = b"".join([*parts, out.getvalue()])
    assert re.sub(rb"<(200000|62144|9000|\d+)>", b"", written) == OCTETS


def test_spans_of_data_are_all_that_a_reader_reads() -> None:
    bodies = LargeBodies()
    spans = [Span(5, 10), Span(PIECE_OCTETS - 3, 8), Span(len(OCTETS) - 1, 1)]
    body = arrived(bodies, OCTETS, spans=spans)
    assert body.data_octets() == 19
    expected = b"".join(OCTETS[span.start : span.start + span.octets] for span in spans)
    assert everything(LargeReader(bodies, body, spans, Listener()), bodies, {}, 6) == expected


def test_unreadable_piece_is_a_fault() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    body = arrived(bodies, OCTETS)
    stored(bodies, {})
    listener = Listener()
    reader = LargeReader(bodies, body, body.spans, listener)
    assert reader.take(10) == b""
    bodies.take_reads()[0].on_read(None, "disk I/O error")
    assert (reader.fault, listener.calls) == ("disk I/O error", 1)
    assert reader.take(10) == b""
    assert bodies.reads == []


def test_reader_that_has_ended_is_not_notified() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    body = arrived(bodies, OCTETS)
    stored(bodies, {})
    listener = Listener()
    reader = LargeReader(bodies, body, body.spans, listener)
    reader.take(10)
    reader.end()
    bodies.take_reads()[0].on_read(OCTETS)
    assert listener.calls == 0


def transient(bodies: LargeBodies, octets: bytes) -> LargeBody:
    """Return a body that has come with a message which is not persistent."""
    arrival = bodies.begin(PieceBudget(bodies, None), is_persistent=False)
    arrival.append(octets)
    return arrival.finish([])


def test_body_of_a_transient_message_is_deferred_and_ends_without_the_store() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    body = transient(bodies, OCTETS)
    assert (bodies.deferred, bodies.unwritten, bodies.is_idle()) == (len(OCTETS), 0, True)
    assert everything(LargeReader(bodies, body, body.spans, Listener()), bodies, {}, 1000) == OCTETS
    del body
    assert bodies.is_idle()
    assert bodies.deferred == 0


def test_oldest_deferred_pieces_go_to_the_store_when_there_are_too_many() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    store: dict[tuple[int, int], bytes] = {}
    oldest, gone = transient(bodies, OCTETS), transient(bodies, OCTETS)
    del gone
    budget = PieceBudget(bodies, None)
    arrival = bodies.begin(budget, is_persistent=False)
    bodies.in_memory_max = 20 * PIECE_OCTETS
    arrival.append(bytes(19 * PIECE_OCTETS))
    stored(bodies, store)
    assert sorted(store) == [(1, 0), (1, 1)]
    assert sorted(oldest.pieces) == [2]
    assert everything(LargeReader(bodies, oldest, oldest.spans, Listener()), bodies, store, 131072) == OCTETS
    arrival.append(bytes(2 * PIECE_OCTETS))
    assert (bodies.deferred, budget.unwritten) == (20 * PIECE_OCTETS, len(OCTETS) % PIECE_OCTETS + PIECE_OCTETS)
    stored(bodies, store)
    assert sorted(store) == [(1, 0), (1, 1), (1, 2), (3, 0)]
    del oldest, arrival
    assert sorted(bodies.take_unreferenced()) == [1, 3]
    assert bodies.deferred == 0


def test_deferred_body_whose_message_is_paged_goes_to_the_store() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    store: dict[tuple[int, int], bytes] = {}
    body = transient(bodies, OCTETS)
    bodies.store(body)
    bodies.store(body)
    assert bodies.take_unreferenced() == []
    stored(bodies, store)
    assert b"".join(store[1, index] for index in range(3)) == OCTETS
    del body
    assert (bodies.deferred, bodies.unwritten, bodies.take_unreferenced()) == (0, 0, [1])


def test_deferred_pieces_wait_for_the_disk_only_when_there_are_too_many() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    bodies.disk_short = True
    arrival = bodies.begin(PieceBudget(bodies, Room()), is_persistent=False)
    bodies.in_memory_max = 8 * PIECE_OCTETS
    arrival.append(bytes(8 * PIECE_OCTETS))
    assert not arrival.must_wait()
    arrival.append(bytes(PIECE_OCTETS))
    assert arrival.must_wait()
    assert bodies.begin(PieceBudget(bodies, Room())).must_wait()


def test_connection_waits_while_too_many_pieces_are_unwritten() -> None:
    bodies = LargeBodies()
    bodies.stores = True
    room = Room()
    budget = PieceBudget(bodies, room)
    arrival = bodies.begin(budget)
    arrival.append(bytes(UNWRITTEN_OF_A_CONNECTION - 1))
    assert not budget.is_full()
    arrival.append(b"\x00")
    assert budget.is_full()
    assert budget.is_full()
    writes = bodies.take_writes()
    bodies.written(writes[:1])
    assert room.calls == 0
    bodies.written(writes[1:])
    assert room.calls == 1
    assert not budget.is_full()
