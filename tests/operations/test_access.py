"""Control operations without the permission that they need: refused with 403, and permitted with it."""

from __future__ import annotations

import json

import pytest

from penstock.access.permission import Permission
from penstock.content.properties import Properties
from penstock.operations.table import CONTROL
from penstock.protocols.amqp091.content_frames import body_of, make_content
from tests.ranges.test_refused_attach import Desk, Fields
from tests.support.access_of import access_of

BATCH = {"query": "q", "batch": 0, "run": "r", "write": "w", "exchange": "", "routing_key": "b"}
REQUESTS: dict[str, dict[str, object]] = {
    "cursor.attach": {"cursor": "new", "queues": ["b"]},
    "cursor.plan": {"cursor": "c"},
    "cursor.range": {"cursor": "c", "queue": "a", "lo": 0, "hi": 1},
    "cursor.settle": {"cursor": "c", "end": {"a": 0}},
    "cursor.show": {"cursor": "c"},
    "cursor.move": {"cursor": "c", "to": "latest", "dry_run": True},
    "cursor.release": {"cursor": "c", "queues": ["a"]},
    "cursor.find": {"queues": ["a"], "timestamp": 0},
    "lease.open": {"queues": ["a"]},
    "lease.narrow": {"lease": 1, "token": None, "borders": {"a": [0, 0]}},
    "lease.close": {"lease": 1, "token": None},
    "sink.begin": {**BATCH, "partition": 0, "attempt": 0, "delivery": "dedup"},
    "sink.commit": {**BATCH, "partitions": {}, "delivery": "dedup"},
    "sink.abort": BATCH,
    "cursor.delete": {"cursor": "c"},
    "messages.browse": {"queue": "a"},
    "queue.move": {"queue": "a", "target": "b"},
    "queue.copy": {"queue": "a", "target": "b"},
    "queue.redrive": {"queue": "a"},
    "queue.redrive-preview": {"queue": "a"},
    "messages.delete": {"queue": "a", "key": "x"},
    "federation.look": {"queue": "a"},
    "message.delayed": {"queue": "a"},
    "message.send-now": {"queue": "a", "id": "all"},
    "message.cancel": {"queue": "a", "id": "all"},
}
FILTERED = {"cursor.queues", "query.progress", "sink.waiting"}
"""Operations that answer with what may be seen."""
IN_BLOCKS = {"publish.block"}
"""Operations whose requests are no objects; see test_block_rows.py."""


class Restricted(Desk):
    """A desk whose user `reader` has the permissions given, and cursor and lease of somebody else."""

    def __init__(self, write: str, read: str) -> None:
        super().__init__()
        table = self.driver.broker.access
        attached = self.ask("cursor.attach", {"cursor": "c", "queues": ["a"]})
        self.token = attached["token"]
        self.ask("lease.open", {"queues": ["a"]})
        table.put_user("reader", None, ["management"])
        table.set_permission("reader", "/", Permission("", write, read))
        self.connection.access = access_of(self.driver.broker, "reader")
        self.vhost.queues["answers"].owner = self.connection

    def ask(self, operation: str, fields: Fields) -> dict[str, object]:
        """Ask and wait for the answer; that of a block is empty."""
        answers = self.vhost.queues["answers"].ready_queue
        before = len(answers.messages())
        content = make_content(Properties(reply_to="answers"), json.dumps(fields).encode())
        self.driver.control.request(self.vhost, self.connection, operation, content)
        while len(answers.messages()) == before and self.driver.run_turn():
            pass
        if len(answers.messages()) == before:
            return {"dropped": True}
        body = body_of(answers.messages()[-1].content)
        found: dict[str, object] = json.loads(body) if body.startswith(b"{") else {}
        return found

    def code(self, operation: str) -> object:
        token: Fields = {"token": self.token} if "token" in CONTROL[operation].fields else {}
        return self.ask(operation, {**token, **REQUESTS[operation]}).get("code")


def test_operations_that_need_a_permission_are_all_tried() -> None:
    assert {name for name, row in CONTROL.items() if row.permissions} == {*REQUESTS} | FILTERED | IN_BLOCKS


@pytest.mark.parametrize("operation", REQUESTS)
def test_operation_without_its_permission_is_403(operation: str) -> None:
    assert Restricted("", "").code(operation) == 403


@pytest.mark.parametrize("operation", REQUESTS)
def test_operation_with_its_permission_alone_is_carried_out(operation: str) -> None:
    kinds = {permission.partition(" ")[0] for permission in CONTROL[operation].permissions}
    desk = Restricted("^(amq[.]default|b)$" if "write" in kinds else "", "^(a|b)$" if "read" in kinds else "")
    if operation == "sink.commit":
        desk.code("sink.begin")
    assert desk.code(operation) != 403


def test_queues_are_listed_that_may_be_read() -> None:
    assert Restricted("", "^(a|b)$").ask("cursor.queues", {})["queues"] == ["a", "b"]
    assert Restricted("", "").ask("cursor.queues", {})["queues"] == []


def test_answers_go_to_queues_that_their_requester_may_publish_to() -> None:
    for write, dropped in (("", True), ("^amq[.]default$", False)):
        desk = Restricted(write, "^a$")
        desk.vhost.queues["answers"].owner = None
        assert ("dropped" in desk.ask("cursor.queues", {})) == dropped
