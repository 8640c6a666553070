"""The object and the metrics of a stream."""

from __future__ import annotations

from penstock.describe.queue import QUEUE
from penstock.describe.stream import stream_number, stream_row, stream_words
from penstock.describe.table import Reading
from tests.support.paging_broker import house_with
from tests.support.stream_house import StreamHouse


def test_row_of_a_stream_has_offsets_segments_and_limits() -> None:
    house = StreamHouse(x_max_age="80s", x_max_length_bytes=5000)
    house.append(0, 9, 30)
    house.step(20)
    house.append(10, 14, 30)
    house.publish("s", b"x", 300)
    assert stream_row(house.stream, Reading(house.now)) == {
        "first": 0,
        "next": 16,
        "messages": 16,
        "bytes": int(house.log.bytes),
        "retained_bytes": int(house.log.retained_bytes()),
        "unwritten": {"messages": 1, "bytes": 300},
        "segments": 2,
        "oldest_s": 20.0,
        "dropped_messages": 0,
        "overtaken": 0,
        "max_length_bytes": 5000,
        "max_age_s": 80.0,
    }
    house.write()
    house.step(70)
    row = QUEUE.row(house.stream, Reading(house.now), QUEUE.select(["penstock.stream", "messages", "penstock.paged"]))
    own = row["penstock"]
    assert isinstance(own, dict)
    assert (own["stream"]["first"], own["stream"]["dropped_messages"], own["paged"]) == (10, 10, None)
    assert [stream_number(house.stream, name) for name in ("first", "segments", "dropped", "overtaken")] == [
        10,
        1,
        10,
        0,
    ]
    assert stream_words(house.stream) == "6 messages are retained, from offset 10 to 15"


def test_age_of_segments_from_before_a_restart_is_unknown() -> None:
    house = StreamHouse()
    house.append(0, 9)
    row = stream_row(house.restarted().stream, Reading(house.now))
    assert isinstance(row, dict)
    assert row["oldest_s"] is None


def test_stream_without_messages_says_its_next_offset() -> None:
    assert stream_words(StreamHouse().stream) == "nothing is retained, and the next offset is 0"


def test_other_queues_have_no_row() -> None:
    queue = house_with().queues["q"]
    assert stream_row(queue, Reading(0.0)) is None
    assert stream_number(queue, "first") is None
