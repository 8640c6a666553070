"""A refused attach changes nothing: an error of one queue leaves the others unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connections.connection import Peer
from penstock.content.properties import Properties
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.journal.journal import Journal
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.driver.driver import BrokerDriver
from penstock.protocols.amqp091.content_frames import body_of, make_content
from penstock.settings.pools import CURSORS
from tests.profiles import examples
from tests.support.access_of import access_of
from tests.support.restored_broker import journaled

CONTENT = make_content(Properties(), b"")
Fields = dict[str, object]


class Desk:
    """A driver whose virtual host has queues of ten messages, good and bad ones."""

    def __init__(self) -> None:
        self.driver: BrokerDriver = journaled()
        self.vhost: VirtualHost = self.driver.broker.vhosts["/"]
        self.connection = self.driver.connect(Peer("127.0.0.1:1", True))
        self.connection.user = "guest"
        self.connection.access = access_of(self.driver.broker)
        other = self.driver.connect(Peer("127.0.0.1:2", True))
        self.declare("answers")
        for name in ("a", "b", "c"):
            self.declare(name)
        self.declare("drops", {"x-max-length": 100})
        self.declare("priorities", {"x-max-priority": 5})
        self.vhost.declare_queue("exclusive", {}, False, True, other, None)
        session = Session()
        consumed = self.declare("consumed")
        self.driver.broker.consume(session, Consumer("t", session, consumed, False, True, 0))
        session.get(self.declare("unacked"), False, 0.0)

    def declare(self, name: str, arguments: dict[str, object] | None = None) -> Queue:
        queue = self.vhost.declare_queue(name, arguments or {}, name in ("a", "consumed"), False, None, None)
        if name != "answers":
            for _ in range(10):
                queue.enqueue(Envelope("", name, persistent=True), CONTENT, 10, 0.0)
        return queue

    def ask(self, operation: str, fields: Fields) -> dict[str, object]:
        """Ask; return the answer, which has a `code` if it is a refusal."""
        content = make_content(Properties(reply_to="answers"), json.dumps(fields).encode())
        self.driver.control.request(self.vhost, self.connection, operation, content)
        answers = self.vhost.queues["answers"].ready_queue
        found: dict[str, object] = json.loads(body_of(answers.messages()[-1].content))
        return found

    def seen(self) -> dict[str, object]:
        """Return all that an attach could change."""
        journal = self.driver.broker.journal
        assert isinstance(journal, Journal)
        found: dict[str, object] = {"journal": (len(journal.open.changes), len(journal.open.progressed))}
        for name, queue in self.vhost.queues.items():
            if name != "answers":
                there = [(int(each.sequence), each.redelivered) for each in queue.ready_queue.messages()]
                depth = (int(queue.messages), int(queue.bytes), int(queue.unacked_messages))
                found[name] = (sorted(there), depth, [cursor.name for cursor in queue.cursors], queue.gate.open)
                found[f"{name}'s line"] = type(queue.ready_queue).__name__
        for name, cursor in self.vhost.cursors.items():
            found[f"cursor {name}"] = (
                cursor.token,
                [(key, int(p.initial), int(p.settled), int(p.planned)) for key, p in cursor.positions.items()],
            )
        return found

    def attach(self, *queues: str) -> dict[str, object]:
        return self.ask("cursor.attach", {"cursor": "cur", "queues": list(queues)})


def nothing(desk: Desk) -> None:
    """Leave everything as it is."""


def with_other_queues(desk: Desk) -> None:
    """Let the cursor exist, on other queues than any attach names."""
    assert "code" not in desk.attach("c")


def with_a_lost_queue(desk: Desk) -> None:
    """Let the cursor have settled a part of a queue, and lose another, which is declared again."""
    token = desk.attach("a", "b")["token"]
    assert "code" not in desk.ask("cursor.settle", {"cursor": "cur", "token": token, "end": {"a": 4}})
    desk.driver.broker.delete_queue(desk.vhost.queues["b"])
    desk.declare("b")


def with_another_cursor(desk: Desk) -> None:
    """Let another cursor have settled a part of a queue."""
    token = desk.ask("cursor.attach", {"cursor": "other", "queues": ["a"]})["token"]
    assert "code" not in desk.ask("cursor.settle", {"cursor": "other", "token": token, "end": {"a": 3}})


def without_room(desk: Desk) -> None:
    """Let there be as many cursors as there may be."""
    desk.declare("z")
    assert "code" not in desk.ask("cursor.attach", {"cursor": "last", "queues": ["z"]})


HISTORIES: list[Callable[[Desk], None]] = [
    nothing,
    with_other_queues,
    with_a_lost_queue,
    with_another_cursor,
    without_room,
]
NAMES = ["a", "b", "drops", "priorities", "exclusive", "consumed", "unacked", "none"]
SEQUENCES = st.one_of(st.integers(-2, 12), st.sampled_from([99, 1 << 63, None, "earliest", "first"]))
STARTING = st.one_of(
    st.sampled_from(["earliest", "latest", "first", 7, None]), st.dictionaries(st.sampled_from(NAMES), SEQUENCES)
)


@settings(max_examples=examples(400), derandomize=True, database=None)
@given(
    st.sampled_from(HISTORIES),
    st.lists(st.sampled_from(NAMES), max_size=3),
    STARTING,
    st.sampled_from(["cur", "", None]),
    st.booleans(),
)
def test_refused_attach_changes_nothing(
    history: Callable[[Desk], None], queues: list[str], starting: object, name: str | None, dry_run: bool
) -> None:
    desk = Desk()
    history(desk)
    pool = desk.vhost.broker.pools.of(CURSORS)
    pool.set_limit(0 if history is without_room else CURSORS.limit)
    try:
        before = desk.seen()
        fields: Fields = {"cursor": name, "queues": queues, "starting": starting, "dry_run": dry_run}
        checked = desk.ask("cursor.attach", {**fields, "dry_run": True})
        assert desk.seen() == before, "a dry run changes nothing"
        answer = desk.ask("cursor.attach", fields)
    finally:
        pool.set_limit(CURSORS.limit)
    assert checked.get("text") == answer.get("text"), "a dry run is refused for what an attach is refused for"
    if "code" in answer or dry_run:
        assert desk.seen() == before
    else:
        assert name is not None
        positions = desk.vhost.cursors[name].positions
        assert {each for each, position in positions.items() if not position.left} == set(queues)
        assert all(desk.vhost.cursors[name] in desk.vhost.queues[queue].cursors for queue in queues)


@pytest.mark.parametrize(
    ("queues", "starting", "reason"),
    [
        (["a", "b"], {"a": 0, "b": 99}, "cannot be read from 99"),
        (["a", "consumed"], "earliest", "exclusive consumer"),
        (["a", "drops"], "earliest", "drop-head"),
        (["a", "none"], "earliest", "no queue 'none'"),
        (["a"], {"a": 0, "x": 1}, "'x'"),
    ],
)
def test_queue_of_a_refused_attach_is_free(queues: list[str], starting: object, reason: str) -> None:
    desk = Desk()
    answer = desk.ask("cursor.attach", {"cursor": "cur", "queues": queues, "starting": starting})
    assert reason in str(answer["text"])
    assert desk.vhost.cursors == {}
    assert desk.vhost.queues["a"].cursors == []
    session = Session()
    desk.driver.broker.consume(session, Consumer("t", session, desk.vhost.queues["a"], True, False, 0))


def test_refused_attach_of_a_cursor_that_has_lost_a_queue_leaves_the_positions() -> None:
    desk = Desk()
    with_a_lost_queue(desk)
    assert "cannot be read from 99" in str(
        desk.ask("cursor.attach", {"cursor": "cur", "queues": ["a", "b"], "starting": {"b": 99}})["text"]
    )
    assert int(desk.vhost.cursors["cur"].positions["a"].settled) == 4
    again = desk.attach("a", "b")
    assert (again["settled"], again["generation"]) == ({"a": 4, "b": 0}, {"b": 1}), "only the lost one begins again"


def test_refused_dry_run_names_the_invalid_boolean() -> None:
    desk = Desk()
    answer = desk.ask("cursor.attach", {"cursor": "cur", "queues": ["a"], "dry_run": 1})
    assert "'dry_run' must be true or false, not 1" in str(answer["text"])
