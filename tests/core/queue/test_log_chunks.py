"""Decoded pages of streams: shared, bounded, and read again."""

from __future__ import annotations

import pytest

import penstock
from penstock.core.message import Envelope, StoredMessage
from penstock.core.queue import log_chunks
from penstock.core.queue.log_chunks import READS_MOST, ChunkCache, ChunkHolder, LogChunk
from tests.support.stream_house import FORMAT, StreamHouse

pytestmark = pytest.mark.skipif(penstock.compiled(), reason="a log of the test is no compiled class")


def chunk(first: int, count: int, charge: int = 100, step: int = 1) -> LogChunk:
    envelope = Envelope("", "s")
    sequences = range(first, first + count * step, step)
    messages = [StoredMessage(envelope, b"x", charge, sequence, 0.0) for sequence in sequences]
    return LogChunk(first, first + count * step, messages)


class Holder(ChunkHolder):
    """A log that notes what the cache tells it."""

    def __init__(self) -> None:
        self.dropped: list[LogChunk] = []
        self.begun: list[int] = []

    def drop_chunk(self, chunk: LogChunk) -> None:
        self.dropped.append(chunk)

    def begin_read(self, position: int) -> None:
        self.begun.append(int(position))


def test_index_of_a_position_is_that_of_the_next_message() -> None:
    whole, gaps = chunk(11, 5), chunk(11, 5, step=3)
    assert [whole.index_of(position) for position in (11, 13, 15, 16)] == [0, 2, 4, 5]
    assert [gaps.index_of(position) for position in (11, 12, 14, 15, 23, 24)] == [0, 1, 1, 2, 4, 5]


def test_chunk_grows_by_the_next_page_and_keeps_prepared_messages() -> None:
    one = chunk(1, 2)
    prepared = one.prepared(FORMAT)
    prepared[0] = one.messages[0]
    assert one.extend(chunk(3, 2).messages, 5) == 400
    assert one.prepared(FORMAT) == [one.messages[0], None, None, None]
    assert (one.first, one.end, one.bytes) == (1, 5, 800)


def test_least_recently_used_chunk_is_dropped_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_chunks, "CHUNK_BYTES", 1000)
    cache, holder = ChunkCache(), Holder()
    chunks = [chunk(first, 2) for first in (1, 3, 5)]
    cache.add(chunks[0], holder)
    cache.add(chunks[1], holder)
    cache.use(chunks[0])
    cache.add(chunks[2], holder)
    assert holder.dropped == [chunks[1]]
    assert cache.bytes == 800


def test_newest_chunk_stays_however_large(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, holder = ChunkCache(), Holder()
    large = chunk(1, 1, log_chunks.CHUNK_BYTES)
    cache.add(chunk(2, 1), holder)
    cache.add(large, holder)
    assert len(holder.dropped) == 1
    assert cache.bytes == large.bytes


def test_reads_beyond_the_bound_wait_in_order() -> None:
    cache, holder = ChunkCache(), Holder()
    for position in range(READS_MOST + 3):
        cache.request(holder, position)
    assert holder.begun == list(range(READS_MOST))
    cache.finish_read()
    assert holder.begun[READS_MOST:] == [READS_MOST]
    cache.forget(holder)
    for _ in range(READS_MOST):
        cache.finish_read()
    assert len(holder.begun) == READS_MOST + 1
    assert cache.reading == 0


def test_many_consumers_at_different_places_all_get_everything() -> None:
    house = StreamHouse()
    for page in range(60):
        house.append(page * 10, page * 10 + 9, 100)
    house.forget_chunks()
    for at in range(0, 600, 20):
        house.consume(f"c{at}", at)
    house.deliver()
    for at in range(0, 600, 20):
        assert house.offsets(f"c{at}") == list(range(at, 600))
    assert house.broker.log_chunks.reading == 0


def test_chunk_is_read_once_for_all_consumers_at_the_same_place() -> None:
    house = StreamHouse()
    house.append(0, 99)
    house.forget_chunks()
    for number in range(10):
        house.consume(f"c{number}")
    house.broker.begin(house.now)
    while house.take() is not None:
        pass
    house.ask()
    assert len(house.reads) == 1
    house.deliver()
    assert all(house.offsets(f"c{number}") == list(range(100)) for number in range(10))
