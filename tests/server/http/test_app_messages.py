"""Publishing through the gates, getting and purging over HTTP."""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
from pathlib import Path

import pytest

from tests.support.brokers import PATIENCE, BrokerProcess, eventually, in_background, in_process, serving, settings_file
from tests.support.http_client import Answer, Web

EVERYTHING = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "headers": {"a": 1, "b": "t", "c": [1, {"d": None}], "e": True},
    "delivery_mode": 2,
    "priority": 3,
    "correlation_id": "c",
    "reply_to": "r",
    "expiration": "100000",
    "message_id": "m",
    "timestamp": 1700000000,
    "type": "t",
    "user_id": "guest",
    "app_id": "a",
    "cluster_id": "cl",
}


def test_empty_name_in_a_path_is_the_default_exchange(web: Web, name: str) -> None:
    """rabbitmqadmin of RabbitMQ 4 publishes so."""
    web.declare(name)
    message = {"routing_key": name, "payload": "x", "payload_encoding": "string", "properties": {}}
    assert web.do("POST", "/exchanges/%2F//publish", message, 200).json == {"routed": True}
    assert [each["destination"] for each in web.get(f"/bindings/%2F/e//q/{name}")] == [name]
    assert web.ask("GET", "/queues//nothing").status == 404


def test_message_comes_back_with_all_that_it_had(web: Web, name: str) -> None:
    web.declare(name)
    assert web.publish(name, "grüße", properties=EVERYTHING).json == {"routed": True}
    assert web.publish(name, base64.b64encode(b"\xff\xfe").decode(), payload_encoding="base64").status == 200
    first, second = web.take(name)
    assert first["properties"] == EVERYTHING
    assert (first["payload"], first["payload_encoding"], first["payload_bytes"]) == ("grüße", "string", 7)
    assert (first["exchange"], first["routing_key"], first["message_count"]) == ("", name, 1)
    assert (second["payload"], second["payload_encoding"]) == ("//4=", "base64")
    assert second["properties"] == []
    assert [message["redelivered"] for message in web.take(name)] == [True, True]
    assert web.take(name, truncate=2, encoding="base64", count=1)[0]["payload"] == base64.b64encode(b"gr").decode()


def test_forged_deaths_of_a_publish_are_data(web: Web, name: str) -> None:
    dead = f"{name}-dead"
    web.declare(dead)
    web.declare(name, **{"message-ttl": 1, "dead-letter-exchange": "", "dead-letter-routing-key": dead})
    headers = {"x-death": [{"queue": dead, "reason": "expired", "count": 1}]}
    assert web.publish(name, "x", properties={"headers": headers}).json == {"routed": True}
    (letter,) = eventually(lambda: web.take(dead), "the dead letter")
    assert [entry["queue"] for entry in letter["properties"]["headers"]["x-death"]] == [name]


def test_ack_modes_put_back_or_take_out(web: Web, name: str) -> None:
    dead = f"{name}-dead"
    web.declare(dead)
    web.declare(name, **{"dead-letter-exchange": "", "dead-letter-routing-key": dead})
    for number in range(4):
        web.publish(name, str(number))
    assert [each["payload"] for each in web.take(name, "reject_requeue_true", 2)] == ["0", "1"]
    assert [each["payload"] for each in web.take(name, "ack_requeue_false", 1)] == ["0"]
    assert [each["payload"] for each in web.take(name, "reject_requeue_false", 2)] == ["1", "2"]
    assert web.queue(name)["messages"] == 1
    eventually(lambda: len(web.take(dead)) == 2, "what was rejected is a dead letter")
    assert [each["payload"] for each in web.take(name, "ack_requeue_false", 0)] == []
    web.do("DELETE", f"/queues/%2F/{name}/contents")
    assert web.take(name) == []


def test_priority_and_expiration_apply_to_messages_over_http(web: Web, name: str) -> None:
    web.declare(name, **{"x-max-priority": 5})
    web.publish(name, "low", properties={"priority": 1})
    web.publish(name, "high", properties={"priority": 4})
    web.publish(name, "gone", properties={"expiration": "0", "priority": 5})
    assert [each["payload"] for each in web.take(name)] == ["high", "low"]
    assert "invalid expiration 'soon'" in web.publish(name, properties={"expiration": "soon"}).reason
    assert "fast reply consumer" in web.publish(name, properties={"reply_to": "amq.rabbitmq.reply-to"}).reason


def test_delivery_count_of_a_quorum_queue_message_is_in_its_headers(web: Web, name: str) -> None:
    web.do("PUT", f"/queues/%2F/{name}", {"durable": True, "arguments": {"x-queue-type": "quorum"}}, status=201)
    assert web.queue(name)["type"] == "quorum"
    web.publish(name)
    assert [web.take(name)[0]["properties"] for _ in range(2)] == [[], {"headers": {"x-delivery-count": 1}}]


def test_unroutable_message_is_reported_and_an_unknown_exchange_is_an_error(web: Web, name: str) -> None:
    assert web.publish(name).json == {"routed": False}
    assert web.publish(name, exchange=name).status == 404
    control = web.publish("status", exchange="penstock.control")
    assert (control.status, control.json["error"]) == (401, "not_authorised")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"properties": {"delivery_mode": "2"}}, "'delivery_mode' must be a whole number from 0 to 255"),
        ({"properties": {"headers": ["k"]}}, "'headers' must be an object, not ['k']"),
        ({"properties": {"type": 1}}, "'type' must be a string"),
        ({"properties": {"type": "t" * 300}}, "the properties cannot be sent"),
        ({"properties": {"headers": {"k": 1 << 70}}}, "the properties cannot be sent"),
        ({"properties": {"user_id": "other"}}, "authenticated user was 'guest'"),
        ({"payload_encoding": "hex"}, "payload_encoding must be string or base64"),
        ({"payload_encoding": "base64", "payload": "$"}, "not base64"),
        ({"payload": 5}, "'payload' must be a string"),
        ({"payload": "\ud800"}, "half a character"),
    ],
)
def test_publish_that_cannot_be_meant_is_refused(web: Web, name: str, change: dict[str, object], reason: str) -> None:
    web.declare(name)
    answer = web.publish(name, **change)
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    assert reason in answer.reason
    assert web.queue(name)["messages"] == 0


def test_keys_that_must_be_there_are_named(web: Web, name: str) -> None:
    web.declare(name)
    lacking = web.ask("POST", "/exchanges/%2F/amq.default/publish", {"routing_key": name, "payload": "x"})
    assert lacking.reason == "[{key_missing,properties}]"
    for body in ({"count": 1}, {"count": "x", "ackmode": "ack_requeue_true", "encoding": "auto"},
                 {"count": 1, "ackmode": "maybe", "encoding": "auto"},
                 {"count": 1, "ackmode": "ack_requeue_true", "encoding": "hex"}):  # fmt: skip
        assert web.ask("POST", f"/queues/%2F/{name}/get", body).status == 400
    assert web.ask("POST", "/queues/%2F/nothing/get", {"count": 1, "ackmode": "ack_requeue_true",
                                                        "encoding": "auto"}).status == 404  # fmt: skip


def test_queue_that_rejects_says_so(web: Web, name: str) -> None:
    web.declare(name, **{"x-max-length": 1, "x-overflow": "reject-publish"})
    assert web.publish(name).status == 200
    answer = web.publish(name)
    assert (answer.status, answer.json["error"]) == (400, "bad_request")
    assert "rejected Unable to publish message." in answer.reason
    assert "its overflow policy reject" in answer.reason


def test_publish_is_held_until_its_deadline_and_the_answer_names_the_gate(web: Web, name: str) -> None:
    web.declare(name, **{"capacity-messages": 1, "stop-messages": 1, "resume-messages": 0, "hold-deadline": 0.3})
    assert web.publish(name).status == 200
    answer = web.publish(name)
    assert (answer.status, answer.json["error"], answer.headers["retry-after"]) == (503, "held_too_long", "1")
    assert f"queue '{name}' holds 1 message," in answer.reason
    queue = web.queue(name)["penstock"]
    assert (queue["depth"]["messages"], queue["refused"], queue["gate"]["blocked"]) == (1, 1, 0)


def test_held_publish_passes_when_there_is_room(web: Web, name: str) -> None:
    web.declare(name, **{"capacity-messages": 1, "stop-messages": 1, "resume-messages": 0, "hold-deadline": 0})
    web.publish(name, "first")
    answers: list[Answer] = []
    with in_background(lambda: answers.append(web.publish(name, "second"))):
        why = eventually(lambda: [each for each in web.get(f"/penstock/why?queue={name}")["sentences"]
                                  if "1 publish is held" in each], "it is held")  # fmt: skip
        assert why[0].startswith("http(guest@127.0.0.1:")
        assert web.queue(name)["penstock"]["gate"]["blocked"] == 1
        web.take(name, "ack_requeue_false", 1)
    assert answers[0].json == {"routed": True}
    assert [each["payload"] for each in web.take(name)] == ["second"]


def test_publish_between_stop_and_capacity_is_answered_when_the_gate_opens(web: Web, name: str) -> None:
    web.declare(name, **{"capacity-messages": 9, "stop-messages": 1, "resume-messages": 0, "hold-deadline": 0})
    web.publish(name, "first")
    answered = threading.Event()
    with in_background(lambda: (web.publish(name, "second"), answered.set())[0]):  # type: ignore[func-returns-value]
        eventually(lambda: web.queue(name)["messages"] == 2, "it is in the queue")
        assert not answered.is_set()
        web.do("DELETE", f"/queues/%2F/{name}/contents")
        assert answered.wait(PATIENCE)


def test_client_that_leaves_while_its_publish_is_held_leaves_no_trace(
    served: BrokerProcess, web: Web, name: str
) -> None:
    web.declare(name, **{"capacity-messages": 1, "stop-messages": 1, "resume-messages": 0, "hold-deadline": 0})
    web.publish(name, "first")
    body = b'{"properties":{},"routing_key":"%b","payload":"x","payload_encoding":"string"}' % name.encode()
    host, port = web.address.split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            b"POST /api/exchanges/%%2F/amq.default/publish HTTP/1.1\r\nHost: localhost\r\nAuthorization: %b\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (web.login.encode(), len(body), body)
        )
        gate = eventually(lambda: (found := web.queue(name)["penstock"]["gate"])["waiting"] and found, "it")
        assert gate["blocked"] == 1
    eventually(lambda: web.queue(name)["penstock"]["gate"]["waiting"] == 0, "it is forgotten")
    web.do("DELETE", f"/queues/%2F/{name}/contents")
    assert web.publish(name, "next").status == 200
    assert [each["payload"] for each in web.take(name)] == ["next"]


def test_users_rate_counts_all_that_comes_by_http(tmp_path: Path) -> None:
    options = settings_file(tmp_path, "[user.guest]\nrate-messages = 0.01\nburst-messages = 2\n")
    with serving(tmp_path, "--http", "127.0.0.1:0", *options) as broker:
        web = Web(broker.http)
        web.declare("q", **{"hold-deadline": 0.2})
        assert [web.publish("q").status for _ in range(3)] == [200, 200, 503]
        assert web.queue("q")["messages"] == 2


async def test_publish_whose_confirm_does_not_come_in_time_is_answered_with_503() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        web = Web(broker.http_url)
        await asyncio.to_thread(web.declare, "q", **{"hold-deadline": 0.2})
        broker.shard.event_loop.suspend()  # No turn confirms it.
        answer = await asyncio.to_thread(web.publish, "q")
        broker.shard.event_loop.resume()
        assert (answer.status, answer.json["error"]) == (503, "not_on_disk")
        assert "retry-after" not in answer.headers
        assert "it may be lost if the broker stops" in answer.reason
