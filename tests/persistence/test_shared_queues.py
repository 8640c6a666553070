"""Cursors beside consumers through crashes: a planned range stays as it was, whatever consumers had."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connections.connection import Peer
from penstock.content.properties import Properties
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.core.queue.shared_ready_queue import SharedReadyQueue
from penstock.protocols.amqp091.content_frames import body_of, make_content
from penstock.ranges.cursors import Cursor
from tests.profiles import examples
from tests.support.access_of import access_of
from tests.support.restored_broker import Declared, journaled, queue_of

ALL = 1 << 62


class Desk:
    """A driver with a durable queue, two cursors and a consumer, and what the store has of it."""

    def __init__(self) -> None:
        self.driver = journaled()
        self.store = Declared(self.driver)
        queue_of(self.driver.broker.vhosts["/"], "kept")
        self.begin()
        self.known: dict[str, int] = {}
        """The end of each cursor's last plan whose answer was sent."""
        for name in ("a", "b"):
            self.ask("cursor.attach", name, queues=["kept"])
            self.known[name] = 0
        self.plans: dict[str, dict[int, int]] = {"a": {}, "b": {}}
        """Messages of plans that were answered, with the end of the plan."""
        self.unsent: list[tuple[str, list[int], int]] = []
        """Plans whose answer waits for the disk."""
        self.written: set[int] = set()
        """Messages that are in the store."""
        self.acknowledged: set[int] = set()
        """Messages whose acknowledgement is in the store."""
        self.unwritten: set[int] = set()
        self.store.write()

    def begin(self) -> None:
        vhost = self.driver.broker.vhosts["/"]
        vhost.declare_queue("answers", {}, False, False, None, None)
        self.queue: Queue = vhost.queues["kept"]
        self.session = Session()
        self.unacked: dict[int, int] = {}
        self.taken = 0

    def cursor(self, name: str) -> Cursor:
        return self.driver.broker.vhosts["/"].cursors[name]

    def ask(self, operation: str, cursor: str, **fields: object) -> dict[str, object]:
        vhost = self.driver.broker.vhosts["/"]
        found = vhost.cursors.get(cursor)
        request = {"cursor": cursor, "token": found.token if found else 0, **fields}
        connection = self.driver.connect(Peer("127.0.0.1:1", True))
        connection.user = "guest"
        connection.access = access_of(self.driver.broker)
        content = make_content(Properties(reply_to="answers"), json.dumps(request).encode())
        self.driver.control.request(vhost, connection, operation, content)
        self.driver.disconnect(connection)
        answers = vhost.queues["answers"]
        answer: dict[str, object] = json.loads(body_of(answers.ready_queue.messages()[-1].content))
        answers.purge(0.0)
        assert "code" not in answer, answer
        return answer

    # Steps

    def put(self, count: int) -> None:
        for _ in range(count):
            self.queue.enqueue(Envelope("", "kept", persistent=True), make_content(Properties(), b""), 10, 0.0)

    def get(self) -> None:
        batch = self.session.get(self.queue, False, 0.0)
        if batch is not None and batch.messages[0] is not None:
            sequence = int(batch.messages[0].sequence)
            self.taken += 1
            self.unacked[self.taken] = sequence
            for _, planned, _ in self.unsent:
                assert sequence not in planned
            assert not any(sequence in planned for planned in self.plans.values()), "it belongs to the cursors"

    def settle_one(self, which: int, acknowledge: bool) -> None:
        if self.unacked:
            tag = sorted(self.unacked)[which % len(self.unacked)]
            sequence = self.unacked.pop(tag)
            if acknowledge:
                self.session.unsettled.acknowledge(tag, False, 0.0)
                self.unwritten.add(sequence)
            else:
                self.session.unsettled.settle_tag(tag, False, Outcome.FAILED, 0.0)

    def plan(self, name: str, rows: int) -> None:
        start = max([end for cursor, _, end in self.unsent if cursor == name], default=self.known[name])
        answer = self.ask("cursor.plan", name, start={"kept": start}, rows=rows)
        ends = answer["end"]
        messages = self.cursor(name).read("kept", start, ends["kept"], ALL, ALL)
        found = [int(message.sequence) for message in messages]
        assert answer["rows"] == len(found)
        assert not set(found) & self.acknowledged
        self.unsent.append((name, found, ends["kept"]))

    def settle(self, name: str, count: int) -> None:
        end = min(self.known[name], int(self.cursor(name).positions["kept"].settled) + count)
        self.ask("cursor.settle", name, end={"kept": end})

    def write(self) -> None:
        self.store.write()
        for name, found, end in self.unsent:
            self.plans[name] |= dict.fromkeys(found, end)
            self.known[name] = max(self.known[name], end)
        self.unsent.clear()
        self.written = set(range(1, int(self.queue.tail) + 1))
        self.acknowledged |= self.unwritten
        self.unwritten.clear()

    def crash(self) -> None:
        """Begin again with what is in the store."""
        self.driver, told = self.store.restored()
        assert told == []
        self.store.driver = self.driver
        journal = self.driver.broker.journal
        assert journal is not None
        self.store.shelf.recover(self.driver.broker, journal)
        self.begin()
        self.unsent.clear()
        self.unwritten.clear()

    def check(self) -> None:
        for name, planned in self.plans.items():
            lo, hi = int(self.cursor(name).positions["kept"].settled), self.known[name]
            if lo < hi:
                found = [int(message.sequence) for message in self.cursor(name).read("kept", lo, hi, ALL, ALL)]
                assert found == [sequence for sequence in planned if sequence > lo], "as it was planned"

    def finish(self) -> None:
        """Let consumers and cursors have all that is left, and compare."""
        self.write()
        self.check()
        left = [self.session.get(self.queue, False, 0.0) for _ in range(self.queue.messages)]
        consumed = {int(batch.messages[0].sequence) for batch in left if batch is not None and batch.messages[0]}
        for name in ("a", "b"):
            self.plan(name, 1_000)
        self.write()
        planned = self.plans["a"].keys() | self.plans["b"].keys()
        assert not consumed & planned
        assert self.written <= consumed | planned | self.acknowledged | set(self.unacked.values())
        common = min(self.known.values())
        both = [{sequence for sequence in self.plans[name] if sequence <= common} for name in ("a", "b")]
        assert both[0] == both[1]


STEPS = st.one_of(
    st.tuples(st.sampled_from(["put", "get", "get", "write", "write", "crash"]), st.integers(1, 5), st.just("")),
    st.tuples(st.sampled_from(["ack", "return"]), st.integers(0, 9), st.just("")),
    st.tuples(st.sampled_from(["plan", "settle"]), st.integers(1, 6), st.sampled_from(["a", "b"])),
)


@settings(max_examples=examples(1000), derandomize=True, database=None)
@given(st.lists(STEPS, min_size=15, max_size=60))
def test_planned_ranges_are_unchanged_by_a_crash(steps: list[tuple[str, int, str]]) -> None:
    desk = Desk()
    desk.put(6)
    for step, number, name in steps:
        if step == "put":
            desk.put(number)
        elif step == "get":
            desk.get()
        elif step in ("ack", "return"):
            desk.settle_one(number, step == "ack")
        elif step == "plan":
            desk.plan(name, number)
        elif step == "settle":
            desk.settle(name, number)
        elif step == "write":
            desk.write()
        else:
            desk.crash()
        desk.check()
    desk.finish()


def test_unacknowledged_message_at_a_crash_goes_to_consumers_again() -> None:
    desk = Desk()
    desk.put(10)
    desk.get()
    desk.get()
    desk.plan("a", 5)
    desk.plan("b", 5)
    desk.write()
    desk.crash()
    desk.check()
    assert desk.plans["a"].keys() == {3, 4, 5, 6, 7}
    batch = desk.session.get(desk.queue, False, 0.0)
    assert batch.messages[0] is not None
    assert (batch.messages[0].sequence, batch.messages[0].redelivered) == (1, True)
    for name in ("a", "b"):
        desk.settle(name, 7)
    desk.write()
    shared = desk.queue.ready_queue
    assert isinstance(shared, SharedReadyQueue)
    assert (shared.dropped, shared.gaps, shared.aside.available()) == (7, [], 1)
    desk.ask("cursor.settle", "a", end={"kept": 7})
    desk.crash()
    again = [desk.session.get(desk.queue, True, 0.0) for _ in range(6)]
    found = [int(each.messages[0].sequence) for each in again if each is not None and each.messages[0]]
    assert found == [1, 2, 8, 9, 10]
