"""Sinks whose user loses a permission while rows of theirs are under way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.access.permission import Permission, TopicPermission
from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.operations.users import drop_user
from penstock.protocols.amqp091.content_frames import body_of
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.access_of import access_of
from tests.support.block_encoder import encode_published
from tests.support.control_requests import known_to
from tests.support.driven_connection import Dialogue, make_driver, methods, publish
from tests.support.operation_calls import ask

BATCH = {"query": "q", "batch": 0, "run": "r", "write": "w", "exchange": "", "routing_key": "q"}
REFUSED = "write access to exchange 'amq.default' in vhost '/' refused for user 'app'"


class AppSink:
    """A queue, and the user `app` with a connection that publishes blocks to it."""

    def __init__(self, **arguments: object) -> None:
        self.driver: BrokerDriver = make_driver()
        self.driver.audit.enabled = True
        self.table = self.driver.broker.access
        self.vhost = self.driver.broker.vhosts["/"]
        self.operator = Dialogue(self.driver)
        self.operator.declare("q", **arguments)
        self.table.put_user("app", None, [])
        self.permit(".*")
        self.client = Dialogue(self.driver)
        answers = method_frame(1, spec.QUEUE_DECLARE, queue="answers", exclusive=True)
        assert self.client.names(answers) == ["queue.declare-ok"]
        connection = self.client.connection
        connection.user = "app"
        connection.access = access_of(self.driver.broker, "app")

    def permit(self, write: str) -> None:
        self.table.set_permission("app", "/", Permission(".*", write, ".*"))

    def become(self, user: str) -> None:
        """Give the connection to another user, who may do as much."""
        self.table.put_user(user, None, [])
        self.table.set_permission(user, "/", Permission(".*", ".*", ".*"))
        self.client.connection.access = access_of(self.driver.broker, user)

    def request(self, operation: str, body: bytes, content_type: str = "application/json") -> bytes:
        properties = Properties(content_type=content_type, reply_to="answers")
        return publish(operation, body, properties=properties, exchange="penstock.control")

    def block(self, count: int, fixed: dict[str, object] | None = None, **header: object) -> bytes:
        rows: list[dict[str, object]] = [{"value": b"%d" % number} for number in range(count)]
        data = encode_published(rows, fixed or {"routing_key": "q"}, **header)
        return self.request("publish.block", data, "application/vnd.penstock.block")

    def ask(self, operation: str, **fields: object) -> Any:
        self.client.say(self.request(operation, json.dumps({**known_to(operation, **BATCH), **fields}).encode()))
        return self.answer()

    def answer(self) -> Any:
        """Return the newest answer; None if there is none."""
        self.client.listen()
        found = self.vhost.queues["answers"].ready_queue.messages()
        return json.loads(body_of(found[-1].content)) if found else None

    def depth(self) -> int:
        return int(self.vhost.queues["q"].messages)

    def take(self, count: int) -> None:
        session = self.operator.connection.engine.channels[1]
        for _ in range(count):
            assert session.get(self.vhost.queues["q"], True, self.driver.broker.now) is not None
        self.operator.listen()

    def refusals(self) -> list[tuple[object, object, object]]:
        """Return user, operation and reason of each refusal in the audit log."""
        found = self.driver.audit.take()
        return [
            (each["user"], each["operation"], each["reason"]) for each in found if each["event"] == "access-refused"
        ]


def test_row_that_waits_is_refused_when_the_user_may_no_longer_write() -> None:
    sink = AppSink(capacity_messages=3)
    sink.client.say(sink.block(8))
    assert sink.answer() is None
    sink.permit("")
    sink.take(3)
    answer = sink.answer()
    assert sink.depth() == 0, "not even the row that was looked at before the change"
    assert (answer["rows"], answer["taken"], answer["code"], answer["retriable"]) == (8, 3, 403, False)
    assert answer["text"] == REFUSED
    assert sink.refusals() == [("app", "publish.block", REFUSED)]


def test_slice_after_the_change_takes_no_row() -> None:
    sink = AppSink()
    sink.driver.scheduler.begin_turn()
    sink.client.connection.receive(sink.block(20_000))
    before = sink.depth()
    assert 0 < before < 20_000
    sink.permit("^other$")
    answer = sink.answer()
    assert sink.depth() == before
    assert (answer["taken"], answer["code"]) == (before, 403)


def test_block_continues_after_a_change_that_leaves_the_permission() -> None:
    sink = AppSink(capacity_messages=3)
    sink.client.say(sink.block(8))
    sink.permit("^amq[.]default$")
    sink.take(3)
    sink.take(3)
    sink.take(2)
    assert sink.answer() == {"rows": 8, "taken": 8}


def test_revoked_topic_permission_refuses_the_waiting_row() -> None:
    sink = AppSink(capacity_messages=2)
    sink.operator.say(method_frame(1, spec.QUEUE_BIND, queue="q", exchange="amq.topic", routing_key="#"))
    sink.client.say(sink.block(4, {"exchange": "amq.topic", "routing_key": "a.b"}))
    sink.table.set_topic_permission("app", "/", "amq.topic", TopicPermission("^b", ".*"))
    sink.take(2)
    answer = sink.answer()
    assert (answer["taken"], answer["code"]) == (2, 403)
    assert "write access to topic 'a.b' in exchange 'amq.topic'" in answer["text"]
    assert sink.depth() == 0


@pytest.mark.parametrize("whole", [True, False])
def test_user_or_permission_deletion_ends_the_connection_with_the_block(whole: bool) -> None:
    sink = AppSink(capacity_messages=3)
    sink.client.say(sink.block(8))
    if whole:
        drop_user(sink.driver, "app")
    else:
        ask(sink.driver, "permission.clear", {"user": "app", "vhost": "/"})
    (close,) = [each for each in methods(sink.client.listen()) if each.name == "connection.close"]
    assert close.args["reply_code"] == 320
    sink.take(3)
    assert sink.depth() == 0


def test_rows_are_staged_only_as_far_as_permitted() -> None:
    sink = AppSink()
    transactional = {"partition": 0, "attempt": 0, "delivery": "transactional"}
    sink.ask("sink.begin", **transactional)
    stage = {**BATCH, "partition": 0, "attempt": 0, "row": 0, "digest": ""}
    sink.driver.scheduler.begin_turn()
    sink.client.connection.receive(sink.block(20_000, stage=stage))
    sink.permit("")
    answer = sink.answer()
    assert 0 <= answer["taken"] < 20_000
    assert (answer["code"], answer["text"]) == (403, f"row {answer['taken']}: {REFUSED}")
    assert sink.refusals() == [("app", "publish.block", REFUSED)]
    assert sink.ask("sink.commit", delivery="transactional", partitions={"0": 0})["code"] == 403


def test_commit_that_waits_for_room_is_refused_when_the_user_may_no_longer_write() -> None:
    sink = AppSink(capacity_messages=9)
    transactional = {"partition": 0, "attempt": 0, "delivery": "transactional"}
    sink.ask("sink.begin", **transactional)
    stage = {**BATCH, "partition": 0, "attempt": 0, "row": 0, "digest": ""}
    sink.client.say(sink.block(4, stage=stage))
    assert sink.answer() == {"rows": 4, "taken": 4}
    for _ in range(6):
        sink.operator.say(publish("q", b"x"))
    assert sink.ask("sink.commit", delivery="transactional", partitions={"0": 0}) == {"rows": 4, "taken": 4}, "it waits"
    sink.permit("")
    sink.take(6)
    answer = sink.answer()
    assert (answer["code"], answer["text"]) == (403, REFUSED)
    assert sink.depth() == 0
    assert sink.refusals() == [("app", "sink.commit", REFUSED)]
    sink.permit(".*")
    assert sink.ask("sink.commit", delivery="transactional", partitions={"0": 0}) == {"promoted": True}
    assert sink.depth() == 4


def test_query_is_not_fenced_by_another_user_before_an_operator_assigns_the_query() -> None:
    sink = AppSink()
    dedup: dict[str, object] = {"partition": 0, "attempt": 0, "delivery": "dedup"}
    sink.ask("sink.begin", **dedup)
    mark = {**BATCH, "partition": 0, "attempt": 0, "row": 0, "digest": "d"}
    sink.client.say(sink.block(3, mark=mark))
    access = sink.client.connection.access
    sink.become("mallory")
    for operation, fields in (
        ("sink.begin", {**dedup, "batch": 9, "write": "x"}),
        ("sink.begin", {**dedup, "write": "x"}),
        ("sink.commit", {"delivery": "dedup", "batch": 9, "partitions": {}}),
        ("sink.abort", {}),
    ):
        answer = sink.ask(operation, **fields)
        assert (answer["code"], "belongs to user 'app'" in answer["text"]) == (403, True), operation
    sink.client.say(sink.block(3, mark={**mark, "row": 3}))
    assert sink.answer()["code"] == 403
    refused = sink.ask("sink.assign", query="q", user="mallory")
    assert (refused["code"], "needs the tag policymaker" in refused["text"]) == (403, True)
    sink.client.connection.access = access
    sink.client.say(sink.block(3, mark={**mark, "row": 3}))
    assert sink.answer() == {"rows": 3, "taken": 3}, "the query was not disturbed"
    sink.table.set_tags("app", ["policymaker"])
    assert sink.ask("sink.assign", query="q", user="mallory") == {"query": "q", "user": "mallory", "targets": 1}
    (change,) = [each for each in sink.driver.audit.take() if each.get("operation") == "sink.assign"][1:]
    assert (change["event"], change["subject"].strip()) == ("change", "q mallory")
    assert json.loads(change["before"]) == {"users": ["app"]}
    assert sink.ask("sink.assign", query="q", user="nosuch")["text"] == "no user 'nosuch'"
    assert "no query 'none' has published" in sink.ask("sink.assign", query="none", user="mallory")["text"]
    assert sink.ask("sink.begin", **dedup)["code"] == 403
    sink.become("mallory")
    assert sink.ask("sink.begin", **dedup) == {"rows": 6, "checked": 6, "digest": "d"}


def test_stage_of_another_user_is_neither_filled_nor_published() -> None:
    sink = AppSink()
    transactional: dict[str, object] = {"partition": 0, "attempt": 0, "delivery": "transactional"}
    sink.ask("sink.begin", **transactional)
    stage = {**BATCH, "partition": 0, "attempt": 0, "row": 0, "digest": ""}
    sink.client.say(sink.block(3, stage=stage))
    sink.become("mallory")
    sink.client.say(sink.block(3, stage={**stage, "row": 3}))
    assert sink.answer()["code"] == 403
    assert sink.ask("sink.commit", delivery="transactional", partitions={"0": 0})["code"] == 403
    assert sink.depth() == 0
