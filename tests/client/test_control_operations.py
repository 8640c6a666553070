"""Control operations: explanations, settings, policies, transfers and definitions, over both protocols."""

from __future__ import annotations

import json

import pytest

import penstock
import penstock.sync
from penstock.client.engine.connection import REQUESTS_MAX
from tests.client.conversations import fresh, url_of


def test_definitions_come_back_after_the_queue_was_deleted(client: penstock.sync.Connection) -> None:
    queue = client.declare_queue(fresh("defined"), capacity_messages=3)
    exported = client.export_definitions(everywhere=False)
    text = json.dumps(exported)
    exported["queues"] = [{**exported["queues"][0], "name": f"{queue}-{number}"} for number in range(2_000)]
    tried = client.import_definitions(json.dumps(exported), everywhere=False, dry_run=True)  # Several frames.
    assert {each["change"] for each in tried["differences"]} == {"created"}
    assert len(tried["differences"]) == 2_000
    client.delete_queue(queue)
    assert client.import_definitions(text, everywhere=False)["made"]["queues"] == 1
    assert client.why(queue).raw["capacity"]["messages"] == 3
    client.delete_queue(queue)


def test_why_reports_the_closed_gate_and_the_time_of_the_closing(
    client: penstock.sync.Connection, client_queue: str
) -> None:
    client.block("queue", client_queue, "maintenance")
    answer = client.why(client_queue)
    own, closed = answer.gates[0], next(gate for gate in answer.gates if not gate.open)
    assert (answer.kind, own.kind, own.name, own.scope, own.open) == ("queue", "queue", client_queue, "/", True)
    assert (own.since, own.capacity.messages, own.depth) == (None, 10, answer.depth)
    assert closed.kind == "operator"
    assert closed.since is not None
    assert closed.since >= 0
    assert any("maintenance" in sentence for sentence in answer.sentences)
    assert answer.raw["sentences"] == list(answer.sentences) == str(answer).split("\n")
    assert client.why().kind == ""
    client.unblock("queue", client_queue)
    with pytest.raises(penstock.ControlError, match="user 'nobody'") as refused:
        client.why(user="nobody")
    assert refused.value.code == 404


def test_operator_blocks_and_unblocks(client: penstock.sync.Connection, client_queue: str) -> None:
    client.block("queue", client_queue, "maintenance")
    with pytest.raises((penstock.FlowControlTimeout, penstock.ConfirmTimeout)):
        client.publisher(client_queue, window=1).send(b"held", timeout=0.3)
    assert client.why(client_queue).depth.messages == 0
    client.unblock("queue", client_queue)
    with pytest.raises(penstock.ControlError) as refused:
        client.unblock("queue", client_queue)
    assert refused.value.code == 404


def test_settings_are_set_shown_and_unset(client: penstock.sync.Connection, client_queue: str) -> None:
    client.set("queue", client_queue, {"hold_deadline": 7})
    assert {"hold-deadline": "7"} in [each.get("command") for each in client.settings()]
    assert {each["setting"]: each["value"] for each in client.show("queue", client_queue)}["hold-deadline"] == 7
    client.unset("queue", client_queue, ["hold-deadline"])
    with pytest.raises(penstock.ControlError):
        client.unset("queue", client_queue)
    with pytest.raises(penstock.ControlError, match="did you mean") as refused:
        client.set("queue", client_queue, {"hold_deadlin": 7})
    assert refused.value.code == 406


def test_policies_are_set_listed_and_cleared(client: penstock.sync.Connection, client_queue: str) -> None:
    answer = client.set_policy("short", f"^{client_queue}$", {"max-length": 3}, priority=2, apply_to="queues")
    assert (answer["queues"], answer["created"]) == (1, True)
    client.set_policy("limit", f"^{client_queue}$", {"max-length": 2}, operator=True)
    assert [each["name"] for each in client.policies()] == ["short"]
    assert [each["name"] for each in client.policies(operator=True, everywhere=True)] == ["limit"]
    client.clear_policy("limit", operator=True)
    client.clear_policy("short")
    assert client.policies() == []


def test_operation_is_requested_by_name(client: penstock.sync.Connection, client_queue: str) -> None:
    assert client.request("status")["vhost"] == client.status()["vhost"] == "/"
    with pytest.raises(penstock.ControlError, match="did you mean"):
        client.request("why", quue=client_queue)


def test_late_answer_is_dropped_and_leaves_no_request_open(client: penstock.sync.Connection, client_queue: str) -> None:
    engine = client.core()
    for _ in range(REQUESTS_MAX + 1):
        steps = engine.requesting("status", {})
        next(steps)
        steps.close()  # As a cancelled call does.
    assert engine.requests == {}
    assert client.status()["vhost"] == "/"


def test_setting_for_all_queues_locks_no_operator_out(client: penstock.sync.Connection) -> None:
    with penstock.sync.connect(url_of(f"amqp://{client.options.hosts[0]}", client.protocol)) as other:
        client.set("queue", "#", {"capacity-messages": 1, "message-ttl": 1})
        try:
            assert other.status()["version"] == penstock.__version__
            assert len(other.settings()) > 0
        finally:
            client.unset("queue", "#")


def test_messages_are_copied_and_moved_by_their_filter(client: penstock.sync.Connection, client_queue: str) -> None:
    target = client.declare_queue(fresh())
    with client.publisher(routing_key=client_queue) as publisher:
        publisher.send_many([penstock.Message(b"x", headers={"n": number}) for number in range(4)])
    assert client.copy_messages(client_queue, target, count=1)["copied"] == 1
    moved = client.move_messages(client_queue, target, filter="n > 1")
    assert (moved["moved"], moved["unmatched"]) == (2, 2)
    assert client.why(target).depth.messages == 3
    with pytest.raises(penstock.ControlError, match="cannot be moved onto itself"):
        client.move_messages(target, target)
    client.delete_queue(target)


def test_redrive_of_a_queue_without_dead_letters_leaves_its_messages(
    client: penstock.sync.Connection, client_queue: str
) -> None:
    with client.publisher(routing_key=client_queue) as publisher:
        publisher.send(b"never died")
    answer = client.redrive_messages(client_queue)
    assert (answer["redriven"], answer["left"]) == (0, 1)
    job = client.redrive_messages(client_queue, detach=True)
    assert job["kind"] == "queue.redrive"
