"""Messages of a queue in lists: of a stream what it retains, of other queues the depth."""

from __future__ import annotations

from penstock.describe.listed import listed_bytes, listed_messages, listed_ready, listed_unacknowledged, log_in
from tests.support.paging_broker import house_with
from tests.support.stream_house import StreamHouse


def test_stream_lists_all_retained_messages_as_ready() -> None:
    house = StreamHouse()
    house.append(0, 9, 100)
    house.consume("c", prefetch=4)
    house.deliver()
    house.publish("s", b"unwritten", 300)
    stream = house.stream
    assert (listed_messages(stream), listed_ready(stream), listed_unacknowledged(stream)) == (11, 11, 4)
    assert listed_bytes(stream) == house.log.bytes
    assert log_in(stream) is house.log


def test_queue_lists_its_depth() -> None:
    house = house_with(messages=6)
    queue = house.queues["q"]
    assert house.get("q", no_ack=False) is not None
    assert (listed_messages(queue), listed_ready(queue), listed_unacknowledged(queue)) == (6, 5, 1)
    assert listed_bytes(queue) == 6 * 300
    assert log_in(queue) is None
