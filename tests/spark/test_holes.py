"""Batches that yield fewer messages than were planned: reported by the driver or by a task, also on replay."""

import json

import pytest

from pyspark_penstock.errors import CursorError
from tests.support.spark_readers import ALL, bodies, values


@pytest.fixture
def reader_of(open_reader):
    def make(broker, queue, **others):
        return open_reader(broker, subscribe=queue, cursor=f"c-{queue}", **others)

    return make


def mixed(broker):
    """Return a queue of ten messages, of which a restart loses the 4th, 5th and 6th."""
    queue = broker.declare(durable=True)
    broker.publish(queue, [b"1", b"2", b"3"], persistent=True)
    broker.publish(queue, [b"4", b"5", b"6"])
    broker.publish(queue, [b"7", b"8", b"9", b"10"], persistent=True)
    return queue


LEFT = [b"1", b"2", b"3", b"7", b"8", b"9", b"10"]


@pytest.mark.slow
@pytest.mark.parametrize("drained", [0, 2], ids=["from the beginning", "behind a gap"])
def test_replay_of_a_batch_that_has_lost_messages_ends_with_the_range(restarts, reader_of, drained):
    broker = restarts()
    queue = mixed(broker)
    if drained:
        with broker.connect() as connection:
            channel = connection.channel()
            tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(drained)]
            channel.basic_ack(tags[-1])  # The second alone: the first returns, and there is a gap.
    first = reader_of(broker, queue)
    start = first.initialOffset()
    end = json.loads(json.dumps(first.latestOffset(start, ALL)))
    assert end.get("rows", {}) == ({queue: 9} if drained else {})
    assert len(bodies(first, start, end)) == (9 if drained else 10)
    reader = reader_of(restarts(), queue)
    planned = 9 if drained else 10
    with pytest.raises(CursorError, match=f"3 of the {planned} planned messages 1 to 10 of '{queue}' are gone"):
        bodies(reader, start, end)


def test_replay_goes_on_with_a_warning_where_data_loss_is_no_failure(restarts, reader_of, caplog):
    broker = restarts()
    queue = mixed(broker)
    first = reader_of(broker, queue)
    start = first.initialOffset()
    end = first.latestOffset(start, ALL)
    reader = reader_of(restarts(), queue, failOnDataLoss="false")
    assert bodies(reader, start, end) == LEFT
    assert f"penstock: 3 of the 10 planned messages 1 to 10 of '{queue}' are gone" in caplog.text
    assert reader.latestOffset(end, ALL) == end


@pytest.mark.slow
def test_task_detects_messages_lost_after_the_plan(restarts, reader_of):
    broker = restarts()
    queue = mixed(broker)
    reader = reader_of(broker, queue, maxRecordsPerPartition="5")
    start = reader.initialOffset()
    partitions = reader.partitions(start, reader.latestOffset(start, ALL))
    restarts()
    with pytest.raises(CursorError, match=f"2 of the 5 planned messages 1 to 5 of '{queue}' are gone"):
        values(reader, partitions[:1])
    with pytest.raises(CursorError, match=f"1 of the 5 planned messages 6 to 10 of '{queue}' are gone"):
        values(reader, partitions[1:])


def test_batch_that_is_planned_after_a_restart_has_no_hole(restarts, reader_of):
    queue = mixed(restarts())
    reader = reader_of(restarts(), queue)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert (end["q"], end["rows"]) == ({queue: 10}, {queue: 7})
    assert bodies(reader, start, end) == LEFT
