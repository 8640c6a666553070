"""Batches of queries that publish: repeated, staged, promoted and aborted over the control operations."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.protocols.amqp091.content_frames import body_of, make_content
from penstock.settings.pools import MARKS
from tests.profiles import examples
from tests.support.block_encoder import encode_published
from tests.support.control_requests import known_to
from tests.support.driven_connection import Dialogue, make_driver, publish


class Task:
    """A task, or the driver, of a query: one connection with a reply queue of its own."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        sink.clients += 1
        self.answers_to = f"answers {sink.clients}"
        self.client = Dialogue(sink.driver)
        self.client.declare(self.answers_to)
        self.sent: list[str] = []
        self.got: dict[str, Any] = {}

    def _publish(self, key: str, body: bytes, content_type: str = "application/json") -> str:
        number = str(len(self.sent))
        self.sent.append(number)
        properties = Properties(content_type=content_type, reply_to=self.answers_to, correlation_id=number)
        self.client.say(publish(key, body, properties=properties, exchange="penstock.control"))
        return number

    def ask(self, operation: str, **fields: object) -> Any:
        given = {"query": "q", "batch": 0, "run": "r", "write": "w", "exchange": "", "routing_key": "out"}
        asked = {**known_to(operation, **given, delivery="dedup"), **fields}
        return self.answer(self._publish(operation, json.dumps(asked).encode()))

    def block(self, kind: str, first: int, rows: list[bytes], **ids: object) -> str:
        given = {"query": "q", "batch": 0, "run": "r", "write": "w", "exchange": "", "routing_key": "out"}
        header = {kind: {**given, "partition": 0, "attempt": 0, "row": first, "digest": f"d{first + len(rows)}", **ids}}
        data = encode_published([{"value": row} for row in rows], {"routing_key": "out"}, **header)
        return self._publish("publish.block", data, "application/vnd.penstock.block")

    def send(self, kind: str, first: int, rows: list[bytes], **ids: object) -> Any:
        return self.answer(self.block(kind, first, rows, **ids))

    def answer(self, number: str) -> Any:
        """Return the answer to a request; None while there is none."""
        self.client.listen()
        queue = self.sink.vhost.queues[self.answers_to]
        for message in queue.ready_queue.messages():
            properties = self.sink.driver.broker.formats.of(message.content).properties(message.content)
            if properties.correlation_id == number:
                body = body_of(message.content)
                return body if body.startswith(b"PSB1") else json.loads(body)
        return None

    def die(self) -> None:
        self.sink.driver.disconnect(self.client.connection)

    def stage_all(self, rows: int, **ids: object) -> None:
        self.ask("sink.begin", delivery="transactional", partition=0, **{"attempt": 0, **ids})
        assert self.send("stage", 0, numbered(0, rows), **ids)["taken"] == rows


class Sink:
    """A broker with a target queue."""

    def __init__(self, **arguments: object) -> None:
        self.driver: BrokerDriver = make_driver()
        self.vhost = self.driver.broker.vhosts["/"]
        self.clients = 0
        self.consumer = Dialogue(self.driver)
        self.consumer.declare("out", **arguments)
        self.taken: list[bytes] = []

    def later(self, seconds: float) -> None:
        self.consumer.listen(self.driver.broker.now + seconds)

    def take(self, count: int) -> None:
        session = self.consumer.connection.engine.channels[1]
        queue = self.vhost.queues["out"]
        for _ in range(min(count, int(queue.messages))):
            self.taken.append(body_of(queue.ready_queue.messages()[0].content))
            session.get(queue, True, self.driver.broker.now)
        self.consumer.listen()

    def depth(self) -> int:
        return int(self.vhost.queues["out"].messages)

    def rows(self) -> list[bytes]:
        """Return everything that has come, in order."""
        return self.taken + [body_of(message.content) for message in self.vhost.queues["out"].ready_queue.messages()]

    def reading(self, queue: str) -> Task:
        """Let query q read a queue."""
        task = Task(self)
        task.ask("cursor.attach", cursor="c", queues=[queue])
        task.client.say(publish(queue, b"x"))
        task.ask("cursor.plan", cursor="c", token=1)
        task.ask("cursor.range", cursor="c", token=1, lo=0, hi=1, queue=queue)
        return task


def numbered(first: int, end: int, partition: int = 0) -> list[bytes]:
    return [b"%d/%d" % (partition, row) for row in range(first, end)]


# Dedup


@pytest.fixture
def sink() -> Sink:
    return Sink()


def test_task_that_runs_again_gets_the_taken_rows_and_sends_the_rest(sink: Sink) -> None:
    first = Task(sink)
    assert first.ask("sink.begin", partition=0, attempt=0) == {"rows": 0, "checked": 0, "digest": ""}
    assert first.send("mark", 0, numbered(0, 5)) == {"rows": 5, "taken": 5}
    first.die()
    again = Task(sink)
    assert again.ask("sink.begin", partition=0, attempt=1) == {"rows": 5, "checked": 5, "digest": "d5"}
    assert again.send("mark", 3, numbered(3, 8), attempt=1) == {"rows": 5, "taken": 5}
    assert sink.rows() == numbered(0, 8)
    assert again.ask("sink.commit", partitions={"0": 8}) == {"promoted": False}
    assert "has 9 rows, and 8 of them were taken" in again.ask("sink.commit", partitions={"0": 9})["text"]


def test_beginning_with_sequences_answers_the_last_one(sink: Sink) -> None:
    task = Task(sink)
    begun = task.ask("sink.begin", partition=0, attempt=0, run="", sequences=True)
    assert begun == {"rows": 0, "checked": 0, "digest": "", "reached": 0}
    sink.driver.control.ranges.batches.marks.of_query("/", "q")[0].marks[0].reached = 7
    assert task.ask("sink.begin", partition=0, attempt=2, run="", write="x", sequences=True)["reached"] == 7
    assert "reached" not in task.ask("sink.begin", partition=0, attempt=3, run="", write="y")


def test_beginning_of_a_query_without_marks_is_refused_if_it_was_begun_before(sink: Sink) -> None:
    task = Task(sink)
    refused = task.ask("sink.begin", partition=0, attempt=0, sequences=True, known=True)
    assert (refused["code"], "query 'q' at queue \"out\" has no marks here" in refused["text"]) == (404, True)
    assert sink.driver.control.ranges.sinks_of("/") == [], "nothing was begun"
    task.ask("sink.begin", partition=0, attempt=0, sequences=True)
    assert task.ask("sink.begin", partition=0, attempt=1, sequences=True, known=True)["rows"] == 0


def test_rows_of_a_block_of_contents_move_the_mark_to_their_sequence(sink: Sink) -> None:
    task = Task(sink)
    task.ask("sink.begin", partition=0, attempt=0, run="", sequences=True)
    ids = {"query": "q", "batch": 0, "run": "", "write": "w", "exchange": "", "routing_key": "out"}
    mark = {**ids, "partition": 0, "attempt": 0, "row": 0, "digest": ""}
    rows: list[dict[str, object]] = [
        {"content": make_content(Properties(), b"%d" % each), "sequence": each} for each in (3, 5)
    ]
    data = encode_published([*rows, {"content": b"\x09", "sequence": 8}], {"routing_key": "out"}, mark=mark)
    answer = task.answer(task._publish("publish.block", data, "application/vnd.penstock.block"))
    assert (answer["taken"], answer["cause"], answer["retriable"]) == (2, "invalid", False)
    assert sink.rows() == [b"3", b"5"]
    found = task.ask("sink.begin", partition=0, attempt=1, run="", sequences=True)
    assert (found["rows"], found["reached"]) == (2, 5)


def test_pipelined_block_behind_a_refused_block_is_to_be_sent_again() -> None:
    sink = Sink(**{"capacity-messages": 3, "stop-messages": 3, "overflow": "reject"})
    task = Task(sink)
    task.ask("sink.begin", partition=0, attempt=0)
    first = task.block("mark", 0, numbered(0, 5))
    second = task.block("mark", 5, numbered(5, 8))
    answer = task.answer(first)
    assert (answer["taken"], answer["cause"], answer["retriable"]) == (3, "reject", True)
    answer = task.answer(second)
    assert (answer["taken"], answer["cause"], answer["retriable"]) == (0, "rows-missing", True)
    sink.take(3)
    assert task.send("mark", 3, numbered(3, 5))["taken"] == 2
    sink.take(2)
    assert task.send("mark", 5, numbered(5, 8))["taken"] == 3
    assert sink.rows() == numbered(0, 8)


def test_block_that_waits_when_a_newer_attempt_begins_is_ended_without_doubles() -> None:
    sink = Sink(**{"capacity-messages": 4, "stop-messages": 4, "resume-messages": 3})
    old, new = Task(sink), Task(sink)
    old.ask("sink.begin", partition=0, attempt=0)
    waits = old.block("mark", 0, numbered(0, 6))
    assert old.answer(waits) is None
    assert new.ask("sink.begin", partition=0, attempt=1)["rows"] == 4
    ours = new.block("mark", 4, numbered(4, 6), attempt=1)
    sink.take(4)
    sink.take(4)
    sink.later(0.1)
    assert old.answer(waits)["code"] == 409
    assert new.answer(ours) == {"rows": 2, "taken": 2}
    assert sink.rows() == numbered(0, 6)


def test_older_batch_other_writer_and_unknown_batch_are_refused(sink: Sink) -> None:
    task = Task(sink)
    assert task.send("mark", 0, numbered(0, 1))["code"] == 409, "it was not begun"
    task.ask("sink.begin", partition=0, attempt=0, batch=5)
    assert "batch 4 is older" in task.ask("sink.begin", partition=0, attempt=0, batch=4)["text"]
    assert task.send("mark", 0, numbered(0, 1), batch=5, write="other")["code"] == 409
    text = task.ask("sink.begin", partition=0, attempt=0, batch=5, write="other")["text"]
    assert 'writes to queue "out" twice' in text
    assert sink.depth() == 0


def test_batch_begins_without_a_partition_at_a_broker_without_rows(sink: Sink) -> None:
    spread = "servers a:5672, b:5672 by partition"
    task = Task(sink)
    for _ in range(2):
        assert task.ask("sink.begin", spread=spread) == {}
    (shown,) = sink.driver.control.ranges.sinks_of("/")
    assert (shown.spread, shown.records()) == (spread, 1)
    assert task.ask("sink.commit", spread=spread, partitions={"0": 0, "1": 0}) == {"promoted": False}
    assert "was begun with servers a" in task.ask("sink.begin", spread="servers a:5672 by partition")["text"]
    assert "was begun with servers a" in task.ask("sink.begin", partition=0, attempt=0)["text"]
    assert "'spread' must have at most 160" in task.ask("sink.begin", spread="s" * 161)["text"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"query": ""}, "'query' must not be empty"),
        ({"query": "é"}, "printable ASCII"),
        ({"query": "x" * 129}, "at most 128"),
        ({"batch": -1}, "'batch' must be a whole number"),
        ({"partition": 1 << 31}, "'partition' must be below"),
        ({"delivery": "exactly-once"}, "'delivery' must be dedup or transactional"),
        ({"write": None}, "'write' must be a string"),
    ],
)
def test_wrong_id_is_refused_by_name(wrong: dict[str, object], said: str) -> None:
    task = Task(Sink())
    assert said in task.ask("sink.begin", **{"partition": 0, "attempt": 0, **wrong})["text"]


# Source and sink


def test_query_that_reads_the_target_is_refused_before_and_while_sending(sink: Sink) -> None:
    task = sink.reading("out")
    for routing_key in ("out", None):
        answer = task.ask("sink.begin", partition=0, attempt=0, routing_key=routing_key)
        assert ("reads queue 'out' (cursor 'c')" in answer.get("text", "")) == (routing_key is not None)
    other = Dialogue(sink.driver)
    other.connection.peer.properties["penstock_query"] = "q"
    task.client = other
    other.declare(task.answers_to)
    answer = task.send("mark", 0, numbered(0, 1), routing_key=None)
    assert answer["taken"] == 0
    assert "would publish to it" in answer["text"]


# Stages


def test_batch_is_published_by_the_commit_and_not_again_by_a_repeated_commit(sink: Sink) -> None:
    task = Task(sink)
    task.stage_all(5)
    assert sink.depth() == 0
    for _ in range(2):
        assert task.ask("sink.commit", delivery="transactional", partitions={"0": 0}) == {"promoted": True}
    assert sink.rows() == numbered(0, 5)
    again = Task(sink)
    ids: dict[str, object] = {"run": "r2", "write": "w2"}
    begun = again.ask("sink.begin", delivery="transactional", partition=0, attempt=0, **ids)
    assert begun == {"promoted": True, "rows": 0}
    assert again.send("stage", 0, numbered(0, 5), **ids) == {"rows": 5, "taken": 5}
    assert again.ask("sink.commit", delivery="transactional", partitions={"0": 0}, **ids) == {"promoted": True}
    assert sink.rows() == numbered(0, 5)


def test_commit_names_the_attempts_that_count(sink: Sink) -> None:
    task = Task(sink)
    task.stage_all(5)
    task.stage_all(3, attempt=7)
    text = task.ask("sink.commit", delivery="transactional", partitions={"0": 3})["text"]
    assert "nothing is staged for partition 0 (attempt 3)" in text
    assert task.ask("sink.commit", delivery="transactional", partitions={"0": 7}) == {"promoted": True}
    assert sink.rows() == numbered(0, 3)


def test_aborted_batch_leaves_no_rows_and_may_be_run_again_by_the_same_run(sink: Sink) -> None:
    task = Task(sink)
    task.stage_all(5)
    assert task.ask("sink.abort") == {}
    assert task.send("stage", 5, numbered(5, 6))["code"] == 409
    task.stage_all(4, write="w2")
    assert task.ask("sink.commit", delivery="transactional", partitions={"0": 0}, write="w2") == {"promoted": True}
    assert sink.rows() == numbered(0, 4)


def test_commit_waits_for_room_and_ends_with_the_connection() -> None:
    sink = Sink(**{"capacity-messages": 6})
    other = Task(sink)
    other.client.say(b"".join([publish("out", b"before") for _ in range(4)]))
    task, driver = Task(sink), Task(sink)
    task.stage_all(5)
    assert driver.ask("sink.commit", delivery="transactional", partitions={"0": 0}) is None
    driver.die()
    sink.take(4)
    assert sink.depth() == 0, "nobody waits for the commit any more"
    again = Task(sink)
    assert again.ask("sink.commit", delivery="transactional", partitions={"0": 0}) in ({"promoted": True}, None)
    assert sink.depth() == 5


def test_batch_larger_than_the_capacity_of_the_target_is_refused() -> None:
    sink = Sink(**{"capacity-messages": 6})
    task = Task(sink)
    task.ask("sink.begin", delivery="transactional", partition=0, attempt=0)
    assert task.send("stage", 0, numbered(0, 5))["taken"] == 5
    answer = task.send("stage", 5, numbered(5, 8))
    assert "whose capacity is 6 messages" in answer["text"]
    assert answer["code"] == 311


def test_unroutable_rows_are_reported_with_the_number(sink: Sink) -> None:
    task = Task(sink)
    task.ask("sink.begin", delivery="transactional", partition=0, attempt=0)
    data = {"partition": 0, "attempt": 0, "row": 0, "query": "q", "batch": 0, "run": "r", "write": "w"}
    header = {"stage": {**data, "exchange": "", "routing_key": "out", "digest": ""}}
    rows: list[dict[str, object]] = [{"value": b"a", "routing_key": "out"}, {"value": b"b", "routing_key": "nowhere"}]
    number = task._publish("publish.block", encode_published(rows, {}, **header), "application/vnd.penstock.block")
    answer = task.answer(number)
    assert (answer["taken"], answer["cause"], answer["retriable"]) == (1, "unroutable", False)
    assert "row 1" in answer["text"]


# Waiting tasks


def test_lease_of_a_batch_read_is_no_reader_without_cores(sink: Sink) -> None:
    task = Task(sink)
    task.ask("sink.begin", delivery="dedup", partition=0, attempt=0)
    task.send("mark", 0, numbered(0, 3))
    assert task.ask("lease.open", queues=["out"])["queues"]["out"]["tail"] == 3
    waits: dict[str, object] = {"application": "app", "cores": 1, "queue": "out"}
    sink.later(60)
    assert task.ask("sink.waiting", task="1", **waits) == {}


def test_reader_without_cores_is_reported_to_the_tasks_that_hold_the_cores(sink: Sink) -> None:
    reader = sink.reading("out")
    waits: dict[str, object] = {"application": "app", "cores": 2, "queue": "out"}
    assert reader.ask("sink.waiting", task="1", **waits) == {}
    sink.later(10)
    assert reader.ask("sink.waiting", task="1", **waits) == {}, "one of two cores is free"
    text = reader.ask("sink.waiting", task="2", **waits)["warning"]
    assert "cursor 'c' reads it but has asked for nothing for 10 s" in text
    assert "2 of 2 cores" in text
    assert "more cores" in text
    sink.later(20)
    assert reader.ask("sink.waiting", task="1", **waits) == {}, "the other one has not said so for long"
    reader.ask("cursor.range", cursor="c", token=1, lo=0, hi=1, queue="out")
    assert reader.ask("sink.waiting", task="2", **waits) == {}


def test_waiting_task_gets_the_state_of_the_connection() -> None:
    sink = Sink(**{"capacity-messages": 4, "stop-messages": 4, "resume-messages": 3})
    task, asker = Task(sink), Task(sink)
    task.client.connection.peer.properties["connection_name"] = "sink of task 1"

    def state(name: str = "sink of task 1") -> dict[str, Any]:
        fields: dict[str, object] = {"application": "app", "task": "1", "cores": 0, "queue": "out"}
        found: dict[str, Any] = asker.ask("sink.waiting", **fields, connection=name)["connection"]
        return found

    task.ask("sink.begin", partition=0, attempt=0)
    idle = state()
    assert {**idle, "received": 0} == {"open": True, "blocks": 0, "received": 0, "paused": False, "waits": []}
    assert state() == idle, "nothing more has come"
    block = task.block("mark", 0, numbered(0, 6))
    assert task.answer(block) is None
    full = state()
    assert full["blocks"] == 1
    assert full["received"] > idle["received"]
    assert len(full["waits"]) == 1
    assert full["waits"][0].startswith("queue out: 4 of 4 messages: no room for the next message")
    sink.take(4)
    sink.later(0.1)
    assert task.answer(block) == {"rows": 6, "taken": 6}
    assert (state()["blocks"], state()["waits"]) == (0, [])
    assert state("sink of another task") == {"open": False}
    task.ask("sink.begin", delivery="transactional", batch=1, partition=0, attempt=0)
    assert task.send("stage", 0, numbered(0, 4), batch=1)["taken"] == 4
    commit = {"delivery": "transactional", "batch": 1, "partitions": {"0": 0}}
    assert task.ask("sink.commit", **commit) is None
    assert state()["blocks"] == 1, "a commit that waits is under way, too"
    assert state()["waits"]
    task.die()
    assert state() == {"open": False}


# A model: tasks that die, repeat and overtake each other


@settings(max_examples=examples(300))
@given(
    st.sampled_from(["block", "reject"]),
    st.lists(
        st.one_of(
            st.tuples(st.just("send"), st.integers(0, 1), st.integers(1, 6)),
            st.tuples(st.just("take"), st.integers(1, 5), st.just(0)),
            st.tuples(st.just("again"), st.integers(0, 1), st.just(0)),
            st.tuples(st.just("die"), st.integers(0, 1), st.just(0)),
            st.tuples(st.just("wait"), st.integers(1, 8), st.just(0)),
        ),
        max_size=40,
    ),
)
def test_rows_are_in_the_target_once_and_in_order_with_any_failures_of_tasks(
    overflow: str, history: list[tuple[str, int, int]]
) -> None:
    total = 20
    sink = Sink(**{"capacity-messages": 5, "stop-messages": 4, "overflow": overflow, "hold-deadline": 5})
    tasks: list[Task] = []
    where: list[int] = []
    attempts: list[int] = []

    def begin(slot: int) -> None:
        task = Task(sink)
        attempt = max(attempts, default=-1) + 1
        rows = task.ask("sink.begin", partition=0, attempt=attempt)["rows"]
        while len(tasks) <= slot:
            tasks.append(task)
            where.append(rows)
            attempts.append(attempt)
        tasks[slot], where[slot], attempts[slot] = task, rows, attempt

    begin(0)
    begin(1)
    for step, first, second in history:
        if step == "send":
            end = min(where[first] + second, total)
            if end > where[first]:
                tasks[first].block("mark", where[first], numbered(where[first], end), attempt=attempts[first])
                where[first] = end
        elif step == "take":
            sink.take(first)
        elif step == "again":
            begin(first)
        elif step == "die":
            tasks[first].die()
            begin(first)
        else:
            sink.later(first)
        found = sink.rows()
        assert found == numbered(0, len(found))
    for _ in range(3 * total):
        begin(0)
        rows = where[0]
        if rows == total:
            break
        tasks[0].block("mark", rows, numbered(rows, min(rows + 3, total)), attempt=attempts[0])
        sink.take(5)
        sink.later(0.1)
    assert sink.rows() == numbered(0, total)


# The end of a query


def test_ended_query_leaves_no_staged_rows_and_no_marks_and_the_tasks_are_fenced() -> None:
    sink = Sink()
    staged, marked = Task(sink), Task(sink)
    staged.stage_all(3)
    ids = {"exchange": "", "routing_key": "in"}
    sink.consumer.declare("in")
    marked.ask("sink.begin", delivery="dedup", partition=0, attempt=0, **ids)
    pool = sink.driver.broker.pools.of(MARKS)
    assert int(pool.taken) > 0
    assert Task(sink).ask("sink.end", query="q") == {"query": "q", "targets": 2, "staged": 3}
    assert (int(pool.taken), sink.driver.broker.ranges.sinks_of("/")) == (0, [])
    assert "no query 'q' has published batches" in Task(sink).ask("sink.end", query="q")["text"]
    assert "was not begun by this writer" in staged.send("stage", 3, numbered(3, 5))["text"]
    assert "nothing is staged" in staged.ask("sink.commit", delivery="transactional", partitions={"0": 0})["text"]


def test_block_under_way_when_the_query_is_ended_is_refused() -> None:
    sink = Sink(x_capacity_messages=1)
    task = Task(sink)
    task.ask("sink.begin", delivery="dedup", partition=0, attempt=0)
    number = task.block("mark", 0, numbered(0, 6))
    assert task.answer(number) is None, "it waits for room"
    Task(sink).ask("sink.end", query="q")
    sink.vhost.purge_queue(sink.vhost.queues["out"], sink.driver.broker.now)
    sink.driver.run_turn()
    assert "begun again by a newer run" in task.answer(number)["text"]
    assert sink.driver.broker.ranges.sinks_of("/") == []
