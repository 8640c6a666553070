"""The log of a stream: what is written stays, until retention drops it from the oldest end."""

from __future__ import annotations

import pytest

from penstock.core.effects import Paging
from penstock.core.queue.pager import UNWRITTEN_BYTES
from penstock.flow.level import OVERHEAD
from tests.support.memory_store import Shelf, some_large
from tests.support.stream_house import StreamHouse


def bounds(house: StreamHouse) -> tuple[int, int]:
    """Return the first retained and the next offset."""
    return int(house.log.next) - 1, int(house.stream.tail)


def test_depth_of_a_stream_is_what_is_not_written_yet() -> None:
    house = StreamHouse()
    house.publish("s", b"one", 300)
    house.publish("s", b"two", 300)
    assert (house.stream.depth_messages(), house.stream.depth_bytes()) == (2, 600)
    assert house.stream.messages == 0
    house.settle()
    assert (house.stream.depth_messages(), house.stream.depth_bytes()) == (0, 0)
    assert (house.log.messages, house.log.bytes) == (2, 600)
    assert house.broker.gates.disk.vhost_usage("/").bytes() == 600


def test_transient_message_is_stored_and_confirmed_when_it_is_written() -> None:
    house = StreamHouse()
    for persistent in (True, False):
        house.publish("s", b"x", 300, persistent=persistent)
    assert house.producers["s"].confirms.take() == []
    house.write()
    confirmed = [(int(each.first), int(each.last), each.confirmed) for each in house.producers["s"].confirms.take()]
    assert confirmed == [(1, 2, True)]
    assert [row.messages for row in house.shelf.rows.values()] == [2], "transient ones survive a restart"


def test_stream_reports_no_paging() -> None:
    house = StreamHouse()
    house.append(0, 5)
    house.restarted()
    assert not [each for each in house.broker.effects() if isinstance(each, Paging)]


def test_publisher_waits_for_unwritten_bytes_and_goes_on() -> None:
    house = StreamHouse()
    part = UNWRITTEN_BYTES // 4
    for _ in range(6):
        house.publish("s", b"x", part)
    assert house.stream.tail == 4
    assert house.stream.depth_bytes() == UNWRITTEN_BYTES
    house.settle()
    assert house.stream.tail == 6


def test_message_larger_than_the_unwritten_bytes_passes_alone() -> None:
    house = StreamHouse()
    house.publish("s", b"x", 2 * UNWRITTEN_BYTES)
    house.publish("s", b"y", 300)
    assert house.stream.tail == 1
    house.settle()
    assert house.stream.tail == 2


def test_quota_of_the_disk_holds_publishers_of_a_stream() -> None:
    house = StreamHouse()
    house.append(0, 9, 1000)
    house.broker.gates.disk.measured(0, 0, 1, house.now)  # No free space is known to be left.
    disk = house.broker.gates.disk
    assert [gate.open for gate in disk.gates()] == [gate.open for gate in house.log.storage.vhost_usage.gates]


def test_bytes_beyond_max_length_drop_the_oldest_segments() -> None:
    limit = 1_000_000
    house = StreamHouse(x_max_length_bytes=limit)
    for page in range(40):
        house.append(page * 10, page * 10 + 9, 5000)
        assert house.log.retained_bytes() <= limit
    first, following = bounds(house)
    assert following == 400
    assert first > 0
    assert house.log.retained_bytes() > limit * 3 // 4, "no more than a segment is dropped at once"
    assert house.log.messages == following - first
    house.settle()
    kept = [row.first for row in house.shelf.pages(int(house.log.storage.number), 0)]
    assert kept[0] == first + 1
    stored = sum(row.size for row in house.shelf.rows.values())
    assert stored == house.log.bytes == house.broker.gates.disk.vhost_usage("/").bytes()


def test_retained_bytes_count_without_overhead() -> None:
    house = StreamHouse()
    house.append(0, 9, 100)
    assert house.log.retained_bytes() == house.log.bytes - 10 * OVERHEAD


def test_age_drops_segments_when_it_is_due_without_a_publish() -> None:
    house = StreamHouse(x_max_age="80s")
    house.append(0, 4)
    house.step(11)
    house.append(5, 9)
    house.step(68)
    assert bounds(house) == (0, 10)
    house.step(2)
    assert bounds(house) == (5, 10)
    house.step(11)
    assert bounds(house) == (10, 10)
    assert house.log.messages == 0
    house.settle()
    assert not house.shelf.rows
    house.append(10, 11)
    assert bounds(house) == (10, 12)


def test_offsets_go_on_after_a_restart_with_all_segments_dropped() -> None:
    house = StreamHouse(x_max_age="80s")
    house.append(0, 4)
    house.step(100)
    house.settle()
    later = house.restarted(x_max_age="80s")
    assert bounds(later) == (5, 5)
    later.append(5, 6)
    later.consume("c")
    later.deliver()
    assert later.offsets("c") == [5, 6]


def test_stream_is_the_same_after_a_crash() -> None:
    house = StreamHouse()
    house.append(0, 49, 500)
    house.append(50, 99, 500)
    for content in (b"lost", b"too"):
        house.publish("s", content)
    later = house.restarted()
    assert bounds(later) == (0, 100)
    assert (later.log.messages, later.log.bytes) == (100, house.log.bytes - 600)
    later.consume("c", 40)
    later.deliver()
    assert later.offsets("c") == list(range(40, 100))


def test_age_of_segments_before_a_restart_is_read_from_their_pages() -> None:
    house = StreamHouse(x_max_age="80s")
    house.append(0, 4)
    house.step(30)
    house.append(5, 9)
    later = house.restarted(x_max_age="80s")
    assert len(later.log.segments.line) == 1, "the age of segments is not known before a page is read"
    later.settle()
    assert bounds(later) == (0, 10)
    later.step(200)
    later.settle()
    assert bounds(later) == (10, 10)


def test_limit_set_later_drops_segments_at_once() -> None:
    house = StreamHouse()
    for page in range(20):
        house.append(page * 10, page * 10 + 9, 20_000)
    house.set("s", **{"stream-max-segment-size-bytes": 100_000})
    assert bounds(house)[0] == 0
    house.set("s", **{"max-length-bytes": 1_000_000})
    house.append(200, 209, 20_000)
    assert bounds(house)[0] > 0


@pytest.mark.parametrize("restart", [False, True])
def test_deleted_stream_leaves_nothing_in_the_store(restart: bool) -> None:
    house = StreamHouse()
    house.append(0, 9)
    if restart:
        house = house.restarted()
    house.publish("s", b"unwritten")
    assert house.broker.delete_queue(house.stream) == 11
    house.settle()
    assert not house.shelf.rows
    assert house.broker.gates.disk.vhost_usage("/").bytes() == 0
    assert house.broker.log_chunks.bytes == 0


def test_bodies_of_large_messages_live_as_long_as_their_segment() -> None:
    house = StreamHouse(x_max_length_bytes=600_000)
    house.publish("s", some_large(house.broker, b"body"), 300_000)
    house.settle()
    assert house.shelf.pieces
    later = house.restarted(x_max_length_bytes=600_000)
    later.settle()
    assert later.shelf.pieces
    for page in range(3):
        later.append(page, page, 290_000)
    later.settle()
    assert later.log.next > 1
    assert not later.shelf.pieces


def test_lost_page_is_passed_over_and_the_offsets_stay() -> None:
    house = StreamHouse()
    for page in range(4):
        house.append(page * 5, page * 5 + 4)
    shelf = Shelf()
    shelf.__dict__.update(house.shelf.__dict__)
    number = int(house.log.storage.number)
    del shelf.rows[shelf.pages(number, 6)[0].number]
    house.forget_chunks()
    for at, expected in ((0, [*range(5), *range(10, 20)]), (7, [*range(10, 20)]), (5, [*range(10, 20)])):
        house.consume(f"c{at}", at)
        house.deliver()
        assert house.offsets(f"c{at}") == expected
