"""Reading of the slices of a task: in order, as far as blocks reach, with the holes of each slice."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyspark_penstock.blocks import Block, Read
from pyspark_penstock.errors import BlockError, CursorError
from pyspark_penstock.fetch import RANGES_MAX, Progress, rows_after
from pyspark_penstock.parsing import Address
from pyspark_penstock.reader import PenstockStreamReader
from pyspark_penstock.slices import Slice
from tests.support.spark_readers import ALL, batches, bodies, rows

FAST = {"fetchBlockRows": "1"}


def filled(broker, *counts: int) -> list[str]:
    queues = sorted(broker.declare() for _ in counts)
    for queue, count in zip(queues, counts, strict=True):
        broker.publish(queue, [f"{queue}/{number}".encode() for number in range(1, count + 1)])
    return queues


def reader_of(open_reader, broker, queues: list[str], **others: str) -> PenstockStreamReader:
    return open_reader(broker, subscribe=",".join(queues), cursor=f"fetch-{queues[0]}", **others)


@pytest.mark.parametrize("block_rows", ["1", "2", "7", "10000"])
def test_slices_of_a_task_are_read_in_order_for_any_size_of_blocks(broker, open_reader, block_rows):
    queues = filled(broker, 3, 1, 4, 2)
    reader = reader_of(open_reader, broker, queues, fetchBlockRows=block_rows)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert len(reader.partitions(start, end)) == 1
    found = rows(reader, start, end)
    expected = [
        (queue, number) for queue, count in zip(queues, (3, 1, 4, 2), strict=True) for number in range(1, count + 1)
    ]
    assert [(row["queue"], row["sequence"]) for row in found] == expected
    assert [row["value"] for row in found] == [f"{queue}/{number}".encode() for queue, number in expected]


def test_large_message_among_small_queues_is_read_in_its_place(broker, open_reader):
    queues = filled(broker, 1, 0, 1)
    broker.publish(queues[1], [b"x" * (1 << 20)])
    reader = reader_of(open_reader, broker, queues)
    start = reader.initialOffset()
    found = bodies(reader, start, reader.latestOffset(start, ALL))
    assert [len(body) for body in found] == [len(queues[0]) + 2, 1 << 20, len(queues[2]) + 2]


def test_columns_of_several_queues_are_those_asked_for(broker, open_reader):
    queues = filled(broker, 1, 2)
    reader = reader_of(open_reader, broker, queues, columns="queue,routing_key")
    start = reader.initialOffset()
    found = rows(reader, start, reader.latestOffset(start, ALL))
    assert found == [{"queue": queue, "routing_key": queue} for queue in (queues[0], queues[1], queues[1])]


@pytest.mark.slow
def test_hole_of_one_slice_is_reported_with_its_queue(restarts, open_reader, caplog):
    broker = restarts()
    queues = sorted(broker.declare(durable=True) for _ in range(3))
    for queue in queues:
        broker.publish(queue, [b"stays"], persistent=True)
        broker.publish(queue, [b"goes"] if queue == queues[1] else [])
        broker.publish(queue, [b"stays"], persistent=True)
    first = reader_of(open_reader, broker, queues)
    start = first.initialOffset()
    end = first.latestOffset(start, ALL)
    assert [len(task.value) for task in first.partitions(start, end)] == [3]
    broker = restarts()
    reader = reader_of(open_reader, broker, queues)
    with pytest.raises(CursorError, match=f"1 of the 3 planned messages 1 to 3 of '{queues[1]}' are gone"):
        bodies(reader, start, end)
    reader.stop()
    tolerant = reader_of(open_reader, broker, queues, failOnDataLoss="false")
    assert bodies(tolerant, start, end) == [b"stays"] * 6
    assert caplog.text.count("planned messages") == 1


def test_reading_of_several_queues_that_stops_early_leaves_the_connection_in_order(broker, open_reader):
    queues = filled(broker, 3, 3)
    reader = reader_of(open_reader, broker, queues, **FAST)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    partitions = reader.partitions(start, end)
    reading = batches(reader, partitions)
    assert next(reading).num_rows == 1
    reading.close()
    assert [row["sequence"] for row in rows(reader, start, end)] == [1, 2, 3, 1, 2, 3]


def test_more_queues_than_a_request_may_have_are_read(broker, open_reader):
    with broker.connect() as connection:
        channel = connection.channel()
        names = [f"ranges-{number:04d}" for number in range(RANGES_MAX + 5)]
        for name in names:
            channel.queue_declare(name)
            channel.basic_publish("", name, name.encode())
    reader = open_reader(broker, subscribe=",".join(names), cursor="more-than-a-request")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(10_000))
    assert len(reader.partitions(start, end)) == 1
    assert bodies(reader, start, end) == [name.encode() for name in names]
    broker.control("cursor.delete", cursor="more-than-a-request")
    with broker.connect() as connection:
        channel = connection.channel()
        for name in names:
            channel.queue_delete(name)


def test_block_with_a_wrong_answer_is_refused():
    task = (Slice(Address("a", 1), "q", 1, 0, 3, 3), Slice(Address("a", 1), "r", 1, 5, 6, 1))

    def reads(*found: tuple[str, int, int]) -> Block:
        return Block(sum(rows for _, rows, _ in found), 0, None, tuple(Read(*each) for each in found))

    wrong = [
        reads(),
        Block(3, 3, None),
        reads(("r", 1, 6)),
        reads(("q", 4, 4)),
        reads(("q", 0, 0)),
        reads(("q", 3, 3), ("r", 1, 6), ("q", 1, 1)),
    ]
    for block in wrong:
        with pytest.raises(BlockError):
            Progress(task).advance(block)
    progress = Progress(task)
    progress.advance(reads(("q", 2, 2)))
    assert progress.ranges() == [("q", 2, 3), ("r", 5, 6)]
    progress.advance(reads(("q", 1, 3), ("r", 1, 6)))
    assert progress.complete
    assert progress.holes == []


def test_slice_of_a_lease_ends_with_its_last_message_or_an_empty_block():
    slice_ = Slice(Address("a", 1), "q", 1, 0, 9, 5, lease=7)
    progress = Progress((slice_,))
    progress.advance(Block(2, 4, None))
    assert (progress.ranges(), progress.found, progress.complete) == ([("q", 4, 9)], 2, False)
    progress.advance(Block(0, 0, None))
    assert progress.complete
    assert progress.holes == [(slice_, 2)]
    whole = Progress((slice_,))
    whole.advance(Block(5, 9, None))
    assert whole.complete
    assert whole.holes == []
    with pytest.raises(BlockError, match=r"the broker sent 'q' up to 10 where \(0, 9\] of 'q' was due"):
        Progress((slice_,)).advance(Block(5, 10, None))


@pytest.mark.parametrize(
    ("rows", "most", "asked"),
    [(5_000, 20_000, 6_250), (20_000, 20_000, 20_000), (17_000, 20_000, 20_000), (1, 20_000, 2_000), (3, 7, 7)],
)
def test_request_after_a_block_names_little_more_rows_than_came(rows, most, asked):
    assert rows_after(rows, most) == asked
