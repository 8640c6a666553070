"""Consumers of a stream: each at its own place, with offsets, credit, and nobody else in its way."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.content.properties import Properties
from penstock.content.selector.selector import parse_selector
from penstock.core.consume.scan import SLICE, MessageFilter
from penstock.core.consume.session import Session
from penstock.core.consume.stream_scan import StreamScan, with_offset
from penstock.core.effects import Overtaken
from penstock.core.large_content import body_of, head_of, with_head
from penstock.core.message import Envelope, Message
from penstock.protocols.amqp091.content_frames import make_content, properties_of
from tests.support.memory_store import WALL, some_large
from tests.support.stream_house import FORMAT, StreamHouse


def overtaken(house: StreamHouse) -> list[tuple[str, int, int, bool]]:
    found = [each for each in house.broker.effects() if isinstance(each, Overtaken)]
    return [(each.consumer.tag, each.position - 1, each.first - 1, each.at_start) for each in found]


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("first", range(30)),
        ("last", range(20, 30)),
        ("next", ()),
        (None, ()),
        (0, range(30)),
        (17, range(17, 30)),
        (29, range(29, 30)),
        (30, ()),
        ("25s", range(10, 30)),
        ("15s", range(20, 30)),
        ("5s", ()),
        ("1h", range(30)),
        (datetime.fromtimestamp(WALL + 110, UTC), range(10, 30)),
        (datetime.fromtimestamp(WALL + 500, UTC), ()),
    ],
)
@pytest.mark.parametrize("in_memory", [True, False])
def test_consumer_begins_where_it_asks(at: object, expected: object, in_memory: bool) -> None:
    house = StreamHouse()
    for page in range(3):
        house.append(page * 10, page * 10 + 9)
        house.step(10)
    if in_memory:
        house.consume("other")
        house.deliver()
    house.consume("c", at)
    house.deliver()
    assert house.offsets("c") == list(expected)  # type: ignore[call-overload]
    house.append(30, 34)
    house.deliver()
    assert house.offsets("c") == list(range(30, 35))


def test_offset_in_the_future_waits_for_its_message() -> None:
    house = StreamHouse()
    house.append(0, 4)
    consumer = house.consume("c", 8)
    house.deliver()
    assert house.offsets("c") == []
    assert consumer.obstacles(house.now) == ["waits for offset 8; the next one is 5"]
    house.append(5, 9)
    house.deliver()
    assert house.offsets("c") == [8, 9]


def test_offset_before_the_first_retained_message_begins_there_and_is_told() -> None:
    house = StreamHouse(x_max_age="80s")
    house.append(0, 9)
    house.step(100)
    house.append(10, 14)
    house.consume("c", 3)
    house.deliver()
    assert house.offsets("c") == [10, 11, 12, 13, 14]
    assert overtaken(house) == [("c", 3, 10, True)]
    assert house.log.overtaken == 0


def test_consumer_that_retention_overtakes_goes_on_and_is_counted() -> None:
    house = StreamHouse(x_max_age="80s")
    house.append(0, 9)
    house.consume("c", prefetch=3)
    house.deliver()
    assert house.offsets("c") == [0, 1, 2]
    house.step(100)
    house.append(10, 14)
    house.acknowledge()
    house.deliver()
    assert house.offsets("c") == [10, 11, 12]
    assert overtaken(house) == [("c", 3, 10, False)]
    assert house.log.overtaken == 1


def test_consumers_do_not_take_from_each_other_and_a_slow_one_holds_nobody() -> None:
    house = StreamHouse()
    sessions = {tag: Session() for tag in ("fast", "slow", "idle")}
    for tag, session in sessions.items():
        house.consume(tag, prefetch={"fast": 1000, "slow": 1, "idle": 5}[tag], session=session)
    for page in range(20):
        house.append(page * 10, page * 10 + 9)
        house.deliver()
    assert house.offsets("fast") == list(range(200))
    assert house.offsets("slow") == [0]
    assert house.offsets("idle") == list(range(5))
    assert house.stream.depth_messages() == 0
    assert house.stream.gate.open


def test_delivery_waits_until_its_message_is_on_the_disk() -> None:
    house = StreamHouse()
    house.consume("c")
    house.publish("s", make_content(Properties(), b"0"), 241)
    house.broker.begin(house.now)
    assert house.take() is None
    house.begin_write()
    assert house.take() is None
    house.journal.written()
    house.deliver()
    assert house.offsets("c") == [0]


def test_byte_window_of_a_consumer_counts_copies() -> None:
    house = StreamHouse()
    house.append(0, 9, 1000)
    consumer = house.consume("c")
    consumer.credit.window_bytes = 2600
    house.deliver()
    assert house.offsets("c") == [0, 1]
    house.acknowledge()
    house.deliver()
    assert house.offsets("c") == [2, 3]


def test_selector_of_a_consumer_sees_messages_as_published() -> None:
    house = StreamHouse()
    house.append(0, 4, app_id="a")
    house.append(5, 9, app_id="b")
    consumer = house.consume("c")
    assert consumer.scan is not None
    consumer.scan.filter = MessageFilter(house.broker.formats, parse_selector("JMSXGroupID = 'b'"))
    house.deliver()
    assert house.offsets("c") == list(range(5, 10))


def test_filter_that_matches_nothing_goes_on_in_slices_and_copies_nothing() -> None:
    house = StreamHouse()
    count = 3 * SLICE
    house.append(0, count - 1, app_id="a")
    consumer = house.consume("c")
    scan = consumer.scan
    assert isinstance(scan, StreamScan)
    scan.filter = MessageFilter(house.broker.formats, parse_selector("JMSXGroupID = 'b'"))
    house.settle()
    work = house.broker.work
    takes = 0
    while scan.position <= count:
        before, at = int(work.done), int(scan.position)
        if scan.take(100, house.now) is None and scan.position == at:
            house.settle()  # The next chunk is read.
            continue
        takes += 1
        assert int(work.done) - before <= SLICE + scan.filter.work
    assert takes >= 3
    assert not scan.has_more()
    chunk = scan.log.chunk_at(count)
    assert chunk is not None
    assert {*chunk.prepared(FORMAT)} == {None}


def test_cancelled_consumer_gets_nothing_more() -> None:
    house = StreamHouse()
    house.append(0, 9)
    house.consume("c", prefetch=2)
    house.deliver()
    house.broker.cancel(house.session, "c")
    house.acknowledge()
    house.deliver()
    assert house.offsets("c") == [0, 1]
    assert not house.stream.consumers


def test_reads_of_a_deleted_stream_end_without_deliveries() -> None:
    house = StreamHouse()
    house.append(0, 9)
    house.forget_chunks()
    house.consume("c")
    house.consume("d", "1h")
    house.broker.begin(house.now)
    house.take()
    house.ask()
    assert house.reads
    house.broker.delete_queue(house.stream)
    house.settle()
    house.deliver()
    assert house.offsets("c") == house.offsets("d") == []
    assert house.broker.log_chunks.reading == 0


HEADERS: list[dict[str, object] | None] = [
    None,
    {},
    {"a": 5},
    {"x-stream-offset": "no"},
    {"x-stream-offset": 7, "b": "c"},
]


@pytest.mark.parametrize("headers", HEADERS)
@pytest.mark.parametrize("others", [{}, {"content_type": "t/x", "message_id": "m", "delivery_mode": 2}])
@pytest.mark.parametrize("body", [b"", b"x" * 1000])
def test_offset_is_added_to_headers_and_nothing_else_changes(
    headers: dict[str, object] | None, others: dict[str, object], body: bytes
) -> None:
    properties = Properties()
    properties.headers = headers
    for name, value in others.items():
        setattr(properties, name, value)
    house = StreamHouse()
    message = Message(Envelope("", "s"), make_content(properties, body), 300, 1 << 40, 0.0)
    found = with_offset(house.broker.formats, FORMAT, message)
    changed = properties_of(found.content)
    assert changed.headers == {**(headers or {}), "x-stream-offset": (1 << 40) - 1}
    changed.headers = headers
    assert changed == properties
    assert FORMAT.body(found.content) == body
    assert (found.charge, found.sequence) == (message.charge, message.sequence)


def test_offset_of_a_large_message_is_in_its_head() -> None:
    house = StreamHouse()
    content = with_head(some_large(house.broker, b"body"), make_content(Properties(), b""))
    found = with_offset(house.broker.formats, FORMAT, Message(Envelope("", "s"), content, 300, 5, 0.0))
    assert properties_of(head_of(found.content)).headers == {"x-stream-offset": 4}
    assert body_of(found.content) is body_of(content)
