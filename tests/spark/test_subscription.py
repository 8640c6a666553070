"""Subscriptions that grow and shrink under a checkpoint, without a JVM, on a real broker."""

from collections.abc import Callable

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from pyspark_penstock import attachment
from pyspark_penstock.errors import CursorError
from pyspark_penstock.reader import PenstockStreamReader
from tests.support.spark_readers import ALL, bodies


@pytest.fixture
def reader_of(broker, open_reader) -> Callable[..., PenstockStreamReader]:
    def make(cursor: str, **others: str) -> PenstockStreamReader:
        return open_reader(broker, cursor=cursor, **others)

    return make


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch):
    """Look for queues of a pattern at every plan after a change."""
    monkeypatch.setattr(attachment, "LIST_SECONDS", 0.0)


def queue_of(broker, count: int = 0, **arguments) -> str:
    queue = broker.declare(**arguments)
    broker.publish(queue, [b"%s-%d" % (queue.encode(), number) for number in range(1, count + 1)])
    return queue


def read(reader, start: dict, end: dict) -> list[str]:
    return [body.decode() for body in bodies(reader, start, end)]


def positions(offset: dict) -> dict:
    return offset["q"]


# Growing and shrinking


def test_added_queue_begins_at_the_start_and_other_queues_continue(broker, reader_of):
    one, two, three = queue_of(broker, 5), queue_of(broker, 4), queue_of(broker, 3)
    first = reader_of("grows-1", subscribe=one)
    end = first.latestOffset(first.initialOffset(), ReadMaxRows(2))
    first.stop()
    grown = reader_of("grows-1", subscribe=f"{one},{two},{three}", startingOffsets=f'{{"{two}": 1, "{three}": -1}}')
    more = grown.latestOffset(end, ALL)
    assert positions(more) == {one: 5, two: 4, three: 3}
    assert read(grown, end, more) == [f"{one}-{n}" for n in (3, 4, 5)] + [f"{two}-{n}" for n in (2, 3, 4)]
    restarted = reader_of("grows-1", subscribe=f"{one},{two},{three}")
    assert read(restarted, end, more) == read(grown_again(reader_of, one, two, three), end, more)


def grown_again(reader_of, *queues):
    return reader_of("grows-1", subscribe=",".join(queues))


def test_left_queue_keeps_its_position_is_reported_and_may_be_resumed(broker, reader_of, caplog):
    one, two = queue_of(broker, 5), queue_of(broker, 5)
    both = reader_of("leaves", subscribe=f"{one},{two}")
    end = both.latestOffset(both.initialOffset(), ReadMaxRows(4))
    both.latestOffset(end, ReadMaxRows(1))
    both.stop()
    assert positions(end) == {one: 2, two: 2}
    less = reader_of("leaves", subscribe=one)
    more = less.latestOffset(end, ALL)
    assert positions(more) == {one: 5, two: 2}, "its key stays in the offset"
    assert f"has left queue '{two}', to which the query no longer subscribes, at 2 of 5: the messages from 3" in (
        caplog.text
    )
    assert "onLeftQueue=release" in caplog.text
    assert broker.depth(two) == 3
    less.stop()
    again = reader_of("leaves", subscribe=f"{two},{one}")
    last = again.latestOffset(more, ALL)
    assert read(again, more, last) == [f"{two}-{n}" for n in (3, 4, 5)]


def test_left_queue_is_settled_up_to_the_read_position(broker, reader_of):
    one, two = queue_of(broker, 5), queue_of(broker, 5)
    both = reader_of("leaves-settled", subscribe=f"{one},{two}")
    end = both.latestOffset(both.initialOffset(), ReadMaxRows(4))
    reader_of("leaves-settled", subscribe=one).latestOffset(end, ALL)
    assert broker.depth(two) == 3


def test_batch_that_was_planned_with_a_queue_is_replayed_after_it_was_left(broker, reader_of):
    one, two = queue_of(broker, 2), queue_of(broker, 2)
    both = reader_of("replays", subscribe=f"{one},{two}")
    start = both.initialOffset()
    end = both.latestOffset(start, ALL)
    less = reader_of("replays", subscribe=one)
    assert read(less, start, end) == [f"{one}-1", f"{one}-2", f"{two}-1", f"{two}-2"]


def test_left_queue_is_released_on_request(broker, reader_of, caplog):
    one, two = queue_of(broker, 2), queue_of(broker, 2)
    both = reader_of("releases", subscribe=f"{one},{two}")
    end = both.latestOffset(both.initialOffset(), ALL)
    both.commit(end)
    broker.publish(two, [b"late"])
    less = reader_of("releases", subscribe=one, onLeftQueue="release")
    assert less.latestOffset(end, ALL) == end
    assert broker.drain(two, 1) == [b"late"]
    assert "has left queue" not in caplog.text


# Times


def arrival(reader, start: dict, end: dict) -> list[int]:
    """Return the arrivals of a batch in milliseconds since the epoch, rounded up."""
    found = []
    for partition in reader.partitions(start, end):
        for batch in reader.read(partition):
            found += [-(-time.value // 1000) for time in batch.column("timestamp")]
    return found


@pytest.mark.parametrize("overflow", ["block", "page"])
def test_new_queue_begins_at_the_first_message_from_a_time_on(restarts, open_reader, overflow, caplog):
    broker = restarts()
    queue = broker.declare(durable=True, overflow=overflow, capacity_messages=40 if overflow == "block" else 4)
    for number in range(3):
        broker.publish(queue, [b"%d" % (5 * number + each) for each in range(5)], persistent=True)
    look = open_reader(broker, subscribe=queue, cursor="look")
    end = look.latestOffset(look.initialOffset(), ALL)
    times = arrival(look, look.initialOffset(), end)
    assert len(times) == 15
    wanted = times[5]
    expected = next(index for index, time in enumerate(times) if time >= wanted)
    reader = open_reader(broker, subscribe=queue, cursor="since", startingTimestamp=str(wanted))
    start = reader.initialOffset()
    # The column has microseconds: a message of the same millisecond may be before the time.
    assert expected <= positions(start)[queue] <= expected + times.count(wanted)
    assert f"queue '{queue}' begins at sequence {positions(start)[queue] + 1}, which arrived at" in caplog.text
    again = open_reader(broker, subscribe=queue, cursor="since", startingTimestamp="1")
    assert again.initialOffset() == start, "the queue is not new to the cursor any more"


def test_times_before_the_oldest_message_and_after_all_are_reported(broker, reader_of, caplog):
    queue = queue_of(broker, 3)
    broker.drain(queue, 1)
    reader = reader_of("since-ever", subscribe=queue, startingTimestamp="2020-01-01T00:00:00Z")
    assert positions(reader.initialOffset()) == {queue: 1}
    assert f"queue '{queue}' begins at its oldest message, sequence 2, which arrived at" in caplog.text
    assert "2020-01-01T00:00:00.000Z is before that" in caplog.text
    reader = reader_of("since-then", subscribe=queue, startingTimestamp="2199-01-01T00:00:00Z")
    assert positions(reader.initialOffset()) == {queue: 3}
    assert f"queue '{queue}' begins at sequence 4, its next message: none has arrived since 2199" in caplog.text


# Patterns


def test_queue_that_matches_joins_while_the_query_runs_without_fencing(broker, reader_of):
    one = queue_of(broker, 2)
    prefix = f"{one}-part"
    reader = reader_of("pattern", subscribePattern=f"{one}(-.*)?", startingOffsets="latest")
    start = reader.initialOffset()
    assert positions(start) == {one: 2}
    broker.declare(name=prefix)
    broker.publish(prefix, [b"a", b"b"])
    broker.publish(one, [b"c"])
    first = reader.latestOffset(start, ALL)
    second = reader.latestOffset(first, ALL)
    assert positions(second) == {one: 3, prefix: 2}, "all of its messages are new, also with startingOffsets=latest"
    assert read(reader, first, second) == ["a", "b"]
    partitions = reader.partitions(first, second)
    broker.declare(name=f"{prefix}-2")
    reader.latestOffset(first, ALL)
    reader.latestOffset(first, ALL)
    assert f"{prefix}-2" in reader.latestOffset(first, ALL)["q"]
    assert [batch.num_rows for partition in partitions for batch in reader.read(partition)] == [2], "the token stays"
    restarted = reader_of("pattern", subscribePattern=f"{one}(-.*)?")
    assert read(restarted, first, second) == ["a", "b"]


def test_queue_of_a_pattern_that_is_deleted_leaves_and_the_query_goes_on(broker, reader_of, caplog):
    one, two = queue_of(broker, 2), queue_of(broker, 2)
    reader = reader_of("pattern-deleted", subscribePattern=f"{one}|{two}")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    broker.delete(two)
    broker.publish(one, [b"more"])
    more = reader.latestOffset(end, ALL)
    assert positions(more) == {one: 3}
    assert f"the checkpoint names '{two}', which cursor 'pattern-deleted' has no position on; left out" in caplog.text
    broker.declare(name=two)
    broker.publish(two, [b"anew", b"2", b"3"])
    reader.latestOffset(more, ALL)
    last = reader.latestOffset(more, ALL)
    assert read(reader, more, last) == ["anew", "2", "3"]
    assert last["gen"] == {two: 1}
    restarted = reader_of("pattern-deleted", subscribePattern=f"{one}|{two}")
    assert read(restarted, more, last) == ["anew", "2", "3"]
    # A restart from the checkpoint of the old queue: its position means nothing in the new one.
    old = {"v": 1, "q": {one: 3, two: 2}, "id": last["id"]}
    assert positions(reader_of("pattern-deleted", subscribePattern=f"{one}|{two}").latestOffset(old, ALL))[two] == 3
    assert f"queue '{two}', which the checkpoint has read up to 2, was deleted and declared anew" in caplog.text


def test_batch_of_a_queue_that_was_deleted_is_an_error_or_left_out_on_replay(broker, reader_of):
    one, two = queue_of(broker, 2), queue_of(broker, 2)
    pattern = f"{one}|{two}"
    reader = reader_of("pattern-replay", subscribePattern=pattern)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    broker.delete(two)
    with pytest.raises(CursorError, match=f"a batch to be replayed reads '{two}', to which the query no longer"):
        reader_of("pattern-replay", subscribePattern=pattern).partitions(start, end)
    tolerant = reader_of("pattern-replay", subscribePattern=pattern, failOnDataLoss="false")
    assert read(tolerant, start, end) == [f"{one}-1", f"{one}-2"]


def test_reader_of_a_pattern_remembers_present_queues_alone(broker, reader_of):
    one = queue_of(broker, 1)
    reader = reader_of("pattern-churn", subscribePattern=f"{one}.*")
    start = reader.initialOffset()
    for number in range(3):
        name = f"{one}-{number}"
        broker.declare(name=name)
        reader.latestOffset(start, ALL)
        assert name in reader.latestOffset(start, ALL)["q"]
        broker.delete(name)
        assert name not in reader.latestOffset(start, ALL)["q"]
        assert reader.reportLatestOffset()["q"] == {one: 1}
    assert set(reader._planner._attachment.tail) == {one}


def test_pattern_that_matches_no_queue_is_reported_and_waits(broker, reader_of, caplog):
    reader = reader_of("pattern-empty", subscribePattern="no-such-queue-yet")
    start = reader.initialOffset()
    assert positions(start) == {}
    assert reader.latestOffset(start, ALL) == start
    assert "subscribePattern 'no-such-queue-yet' matches none of the " in caplog.text
    broker.declare(name="no-such-queue-yet")
    broker.publish("no-such-queue-yet", [b"x"])
    reader.latestOffset(start, ALL)
    end = reader.latestOffset(start, ALL)
    assert read(reader, start, end) == ["x"]


def test_queue_of_a_pattern_that_no_cursor_can_read_is_omitted_and_reported(broker, reader_of, caplog):
    one, drops = queue_of(broker, 1), broker.declare(x_max_length=5)
    reader = reader_of("pattern-refused", subscribePattern=f"{one}|{drops}")
    assert positions(reader.latestOffset(reader.initialOffset(), ALL)) == {one: 1}
    assert f"queue '{drops}' of {broker.address} matches subscribePattern and is left out" in caplog.text
    assert "drop-head" in caplog.text


def test_older_query_with_a_pattern_does_not_take_its_cursor_back(broker, reader_of):
    one = queue_of(broker, 1)
    older = reader_of("pattern-fenced", subscribePattern=f"{one}.*")
    start = older.initialOffset()
    older.latestOffset(start, ALL)
    newer = reader_of("pattern-fenced", subscribePattern=f"{one}.*", takeover="true")
    newer.latestOffset(start, ALL)
    broker.declare(name=f"{one}-2")
    for _ in range(2):
        with pytest.raises(CursorError, match="was attached by another query"):
            older.latestOffset(start, ALL)
    newer.latestOffset(start, ALL)


# Several servers


def test_queues_and_starts_are_given_by_server(broker, second_broker, reader_of):
    one, two = queue_of(broker, 5), broker.declare()
    second_broker.declare(name=two)
    second_broker.publish(two, [b"1", b"2", b"3"])
    servers = f"{broker.address},{second_broker.address}"
    starting = f'{{"{one}": {{"{broker.address}": 3}}, "{two}": {{"{second_broker.address}": -1}}}}'
    assign = f'{{"{broker.address}": ["{one}"], "{second_broker.address}": ["{two}"]}}'
    reader = reader_of("assigned", servers=servers, assign=assign, startingOffsets=starting)
    start = reader.initialOffset()
    assert positions(start) == {f"{one}@{broker.address}": 3, f"{two}@{second_broker.address}": 3}
    end = reader.latestOffset(start, ALL)
    assert read(reader, start, end) == [f"{one}-4", f"{one}-5"]


def test_server_added_to_a_checkpoint_of_one_is_refused_and_the_other_way_round(broker, second_broker, reader_of):
    queue = queue_of(broker, 2)
    second_broker.declare(name=queue)
    single = reader_of("server-added", subscribe=queue)
    end = single.latestOffset(single.initialOffset(), ALL)
    servers = f"{broker.address},{second_broker.address}"
    with pytest.raises(CursorError, match=f"names '{queue}' without a server, as for one server, and option servers"):
        reader_of("server-added", subscribe=queue, servers=servers).latestOffset(end, ALL)
    double = reader_of("server-taken", subscribe=queue, servers=servers)
    end = double.latestOffset(double.initialOffset(), ALL)
    with pytest.raises(CursorError, match="with their servers, as for several, and option servers names one"):
        reader_of("server-taken", subscribe=queue).latestOffset(end, ALL)


# Checkpoints of other queues


def test_queue_declared_again_ends_the_query_also_if_it_is_longer(broker, reader_of, caplog):
    one, two = queue_of(broker, 3), queue_of(broker, 3)
    reader = reader_of("anew", subscribe=f"{one},{two}")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    broker.delete(two)
    broker.declare(name=two)
    broker.publish(two, [b"%d" % number for number in range(7)])
    for _ in range(2):
        with pytest.raises(CursorError, match=f"queue '{two}', which the checkpoint has read up to 3, was deleted and"):
            reader_of("anew", subscribe=f"{one},{two}").latestOffset(end, ALL)
    tolerant = reader_of("anew", subscribe=f"{one},{two}", failOnDataLoss="false")
    more = tolerant.latestOffset(end, ALL)
    assert (positions(more), more["gen"]) == ({one: 3, two: 7}, {two: 1})
    assert read(tolerant, end, more) == [str(number) for number in range(7)]
    assert reader_of("anew", subscribe=f"{one},{two}").latestOffset(more, ALL) == more


def test_checkpoint_of_another_query_is_refused(broker, reader_of):
    one = queue_of(broker, 3)
    with pytest.raises(CursorError, match="names 'audit', which cursor 'foreign' has no position on: it is of another"):
        reader_of("foreign", subscribe=one).latestOffset({"v": 1, "q": {"audit": 2}}, ALL)


def test_foreign_name_in_a_checkpoint_is_reported_and_omitted(broker, reader_of, caplog):
    one = queue_of(broker, 3)
    reader = reader_of("partly-foreign", subscribe=one)
    assert positions(reader.latestOffset({"v": 1, "q": {"audit": 2, one: 1}}, ALL)) == {one: 3}
    assert "the checkpoint names 'audit', which cursor 'partly-foreign' has no position on" in caplog.text


@pytest.mark.parametrize("wrong", [-1, -2, "7", None, 1.5, True])
def test_offset_edited_by_hand_is_refused_with_its_queue_and_value(broker, reader_of, wrong):
    with pytest.raises(CursorError, match="for 'orders', which is not a sequence from 0 up; restore it") as refusal:
        reader_of("edited", subscribe=queue_of(broker)).latestOffset({"v": 1, "q": {"orders": wrong}}, ALL)
    assert repr(wrong) in str(refusal.value)


def test_new_checkpoint_of_an_old_cursor_fails_or_continues_as_asked(broker, reader_of):
    one = queue_of(broker, 5)
    old = reader_of("refresh", subscribe=one)
    old.commit(old.latestOffset(old.initialOffset(), ReadMaxRows(2)))
    old.stop()
    new = reader_of("refresh", subscribe=one)
    with pytest.raises(CursorError, match=r"messages 1 to 2 .* are gone.*onNewCheckpoint=continue begins a new"):
        new.latestOffset(new.initialOffset(), ALL)
    new = reader_of("refresh", subscribe=one, onNewCheckpoint="continue")
    start = new.initialOffset()
    end = new.latestOffset(start, ALL)
    assert new.initialOffset() == start == {"v": 1, "q": {one: 2}}
    assert read(new, start, end) == [f"{one}-{number}" for number in (3, 4, 5)]
    again = reader_of("refresh", subscribe=one, onNewCheckpoint="continue")
    assert again.initialOffset() == start, "until its first batch is settled"
