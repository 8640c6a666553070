"""The same topology over HTTP: our answers have the names and types of RabbitMQ's.

With PENSTOCK_BESIDE=rabbitmq both brokers answer, and each field of our answer must be in the other one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pika
import pytest

from bench.brokers import RABBITMQ, start_rabbitmq
from bench.processes import free_port
from tests.support.brokers import eventually, serving
from tests.support.http_client import Web

BESIDE = RABBITMQ in os.environ.get("PENSTOCK_BESIDE", "").split()

SAMPLED = "msg_rates_age=60&msg_rates_incr=5&lengths_age=60&lengths_incr=5"
OURS_ALONE = {
    "penstock", "user_provided_name", "product_name", "product_version", "consumer_timeout", "being_drained",
    "settings",
}  # fmt: skip
"""Fields that RabbitMQ 3.10 has not, or only where there is something to be told; `settings` is of definitions."""
OTHER_TYPES = {
    "socket_opts": "theirs is an empty list, or an object",
    "auth_mechanisms": "each has its own",
    "arguments": "theirs are whatever was declared",
    "sample_retention_policies": "ours are kept for other times",
    "timeout": "what was agreed",
    "cluster_state": "its key is the node's name",
}


class Side:
    """A broker, and the topology that was made in it over HTTP."""

    def __init__(self, url: str, web: Web) -> None:
        self.url = url
        self.web = web
        self.connection = pika.BlockingConnection(pika.URLParameters(url))
        web.do("PUT", "/vhosts/other", status=201)
        web.do("PUT", "/exchanges/%2F/shapes", {"type": "topic", "durable": True}, status=201)
        web.do("PUT", "/queues/%2F/shapes", {"durable": True, "arguments": {"x-max-length": 100}}, status=201)
        web.do("POST", "/bindings/%2F/e/shapes/q/shapes", {"routing_key": "a.#", "arguments": {"k": 1}}, status=201)
        channel = self.connection.channel()
        channel.basic_qos(prefetch_count=2)
        channel.confirm_delivery()
        for _ in range(5):
            channel.basic_publish("shapes", "a.b", b"x")
        channel.queue_declare("shapes-mine", exclusive=True)
        channel.basic_consume("shapes", lambda *_: None)
        self.connection.process_data_events(0.2)
        eventually(self.settled, "RabbitMQ gathers what it tells every half second")

    def settled(self) -> bool:
        self.connection.process_data_events(0)
        queue = self.web.get("/queues/%2F/shapes")
        there = self.web.get("/connections") and self.web.get("/channels") and self.web.get("/consumers")
        channel = (self.web.get("/channels") or [{}])[0]
        return (
            bool(there)
            and queue.get("messages_unacknowledged") == 2
            and "deliver_get" in channel.get("message_stats", {})
        )

    def counts(self) -> dict[str, dict[str, int]]:
        """Return what a side has counted, without rates."""
        channels = [each for each in self.web.get("/channels") if each.get("message_stats", {}).get("publish") == 13]
        found = {
            "queue": self.web.get("/queues/%2F/counted"),
            "exchange": self.web.get("/exchanges/%2F/counted"),
            "channel": channels[0] if channels else {},
        }
        return {
            name: {key: value for key, value in each.get("message_stats", {}).items() if not key.endswith("_details")}
            for name, each in found.items()
        }


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Side]]:
    """Ours, and RabbitMQ's where it was asked for."""
    with ExitStack() as stack:
        process = stack.enter_context(serving(tmp_path_factory.mktemp("ours"), "--http", "127.0.0.1:0"))
        found = [Side(process.url, Web(process.http))]
        if BESIDE:
            port = free_port()
            broker = start_rabbitmq(RABBITMQ, tmp_path_factory.mktemp("theirs"), port)
            stack.callback(broker.stop)
            web = Web(f"http://127.0.0.1:{port}")
            eventually(lambda: web.answers(), "its management plugin answers", 60)
            found.append(Side(f"amqp://guest:guest@127.0.0.1:{broker.port}/", web))
        yield found
        for side in found:
            side.connection.close()


def kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return type(value).__name__


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Name the fields of ours that are not there, or are of another type; None stands for any."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return [each for one in ours[:1] for other in theirs[:1] for each in differences(one, other, path + "[]")]
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        same = ours is None or theirs is None or kind_of(ours) == kind_of(theirs)
        return [] if same else [f"{path}: {kind_of(ours)}, theirs is {kind_of(theirs)}"]
    found: list[str] = []
    for name, value in ours.items():
        if name in OURS_ALONE or name in OTHER_TYPES:
            continue
        if name not in theirs:
            found.append(f"{path}.{name}: not in theirs")
        else:
            found += differences(value, theirs[name], f"{path}.{name}")
    return found


@pytest.mark.parametrize(
    "path",
    [
        "/overview", "/cluster-name", "/nodes", "/whoami", "/vhosts", "/vhosts/%2F", "/queues", "/queues/%2F",
        "/queues/%2F/shapes", "/queues/%2F/shapes-mine", f"/queues/%2F/shapes?{SAMPLED}", f"/overview?{SAMPLED}",
        f"/exchanges/%2F/shapes?{SAMPLED}", f"/channels?{SAMPLED}", f"/vhosts?{SAMPLED}",
        "/queues/%2F/shapes/bindings", "/queues?page=1&page_size=1",
        "/exchanges", "/exchanges/%2F/shapes", "/exchanges/%2F/amq.default", "/exchanges/%2F/shapes/bindings/source",
        "/bindings", "/bindings/%2F", "/bindings/%2F/e/shapes/q/shapes", "/connections", "/channels", "/consumers",
        "/consumers/%2F", "/vhosts/%2F/connections", "/vhosts/%2F/channels", "/definitions", "/definitions/%2F",
        "/users", "/users/guest", "/permissions", "/permissions/%2F/guest", "/users/guest/permissions",
        "/topic-permissions", "/parameters", "/policies", "/operator-policies", "/vhost-limits",
        "/aliveness-test/%2F", "/health/checks/alarms", "/health/checks/local-alarms", "/health/checks/virtual-hosts",
        "/health/checks/protocol-listener/amqp091", "/health/checks/node-is-quorum-critical", "/healthchecks/node",
    ],
)  # fmt: skip
def test_http_fields_have_the_names_and_types_of_rabbitmq(sides: list[Side], path: str) -> None:
    answers = [side.web.get(path) for side in sides]
    if "/connections" in path:
        for each in answers[0]:
            del each["message_stats"]  # Theirs have octets only.
    assert all(differences(answers[0], theirs) == [] for theirs in answers[1:]), differences(*answers)


STEPS: list[tuple[str, str, object]] = [
        ("PUT", "/queues/%2F/once", {"durable": True}),
        ("PUT", "/queues/%2F/once", {"durable": True}),
        ("PUT", "/queues/%2F/once", {"durable": False}),
        ("PUT", "/queues/%2F/once", b"{"),
        ("PUT", "/queues/%2F/once", b"[]"),
        ("PUT", "/queues/%2F/amq.mine", {}),
        ("PUT", "/queues/nowhere/q", {}),
        ("PUT", "/queues/%2F/wrong", {"arguments": {"x-max-length": "many"}}),
        ("PUT", "/exchanges/%2F/once", {"type": "nonsense"}),
        ("POST", "/bindings/%2F/e/shapes/q/nothing", {}),
        ("POST", "/exchanges/%2F/amq.default/publish",
         {"properties": {}, "routing_key": "nothing", "payload": "x", "payload_encoding": "string"}),
        ("POST", "/exchanges/%2F/amq.default/publish", {"routing_key": "nothing"}),
        ("POST", "/exchanges/%2F/amq.default/publish",
         {"properties": {}, "routing_key": "once", "payload": "x", "payload_encoding": "hex"}),
        ("POST", "/queues/%2F/nothing/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
        ("POST", "/queues/%2F/once/get", {"count": 1, "encoding": "auto"}),
        ("POST", "/queues/%2F/once/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "x"}),
        ("GET", "/queues/%2F/nothing", None),
        ("GET", "/queues/nowhere", None),
        ("GET", "/nothing", None),
        ("GET", "/queues?page=99", None),
        ("DELETE", "/queues/%2F/nothing", None),
        ("DELETE", "/queues/%2F/nothing/contents", None),
        ("DELETE", "/exchanges/%2F/amq.direct", None),
        ("DELETE", "/exchanges/%2F/shapes?if-unused=true", None),
        ("DELETE", "/connections/nobody", None),
        ("GET", "/health/checks/port-listener/1", None),
        ("GET", "/health/checks/port-listener/x", None),
        ("GET", "/health/checks/protocol-listener/mqtt", None),
        ("POST", "/definitions", b"{x"),
        ("POST", "/definitions", {"queues": [{"name": "q", "vhost": "nowhere"}]}),
        ("POST", "/definitions", {"queues": [{"name": "imported", "vhost": "/", "durable": True,
                                              "auto_delete": False, "arguments": {}}]}),
        ("DELETE", "/queues/%2F/imported", None),
        ("DELETE", "/queues/%2F/once", None),
        ("PUT", "/vhosts/once", {}),
        ("PUT", "/vhosts/once", {}),
        ("DELETE", "/vhosts/once", None),
        ("DELETE", "/vhosts/once", None),
    ]  # fmt: skip
"""One after the other, each with what the ones before have made."""


def test_http_requests_have_the_statuses_and_words_of_rabbitmq(sides: list[Side]) -> None:
    wrong = []
    for method, path, body in STEPS:
        answers = [side.web.ask(method, path, body) for side in sides]
        told = [(answer.status, answer.json.get("error") if answer.body else None) for answer in answers]
        if len(set(told)) != 1 or answers[0].status == 500:
            wrong.append((method, path, body, told))
    assert wrong == []


def test_taken_messages_look_like_rabbitmqs(sides: list[Side]) -> None:
    properties = {"delivery_mode": 2, "headers": {"h": 1, "l": [1, "t"]}, "content_type": "text/plain", "priority": 3}
    answers = []
    for side in sides:
        side.web.do("PUT", "/queues/%2F/taken", {}, status=201)
        side.web.publish("taken", "grüße", properties=properties)
        side.web.publish("taken", "//79", payload_encoding="base64")
        answers.append(
            [side.web.take("taken"), side.web.take("taken", truncate=2), side.web.take("taken", "ack_requeue_false")]
        )
        side.web.do("DELETE", "/queues/%2F/taken")
    assert all(theirs == answers[0] for theirs in answers[1:]), answers


def test_definitions_go_from_one_to_the_other(sides: list[Side]) -> None:
    """In both directions, and then nothing is missing; vhost by vhost too."""
    for giver in sides:
        for taker in sides:
            given = giver.web.get("/definitions")
            assert taker.web.do("POST", "/definitions", given)
            assert taker.web.do("POST", "/definitions/other", {**giver.web.get("/definitions/%2F"), "policies": []})
            for section in ("queues", "exchanges", "bindings"):
                wanted = {json.dumps(each, sort_keys=True) for each in given[section]}
                there = {json.dumps(each, sort_keys=True) for each in taker.web.get("/definitions")[section]}
                assert wanted <= there
    for side in sides:
        side.web.do("DELETE", "/queues/other/shapes")
        side.web.do("DELETE", "/exchanges/other/shapes")


COUNTED = {
    "queue": {
        "publish": 10, "deliver": 6, "deliver_no_ack": 0, "get": 1, "get_no_ack": 1, "get_empty": 1, "ack": 4,
        "redeliver": 1, "deliver_get": 8,
    },
    "exchange": {"publish_in": 13, "publish_out": 20},
    "channel": {
        "publish": 13, "confirm": 13, "return_unroutable": 2, "drop_unroutable": 1, "deliver": 6, "deliver_no_ack": 0,
        "get": 1, "get_no_ack": 1, "get_empty": 1, "ack": 4, "redeliver": 1, "deliver_get": 8,
    },
}  # fmt: skip


def count(connection: pika.BlockingConnection) -> None:
    """Publish, return, deliver, requeue, reject, get and acknowledge some messages."""
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("counted", "topic")
    for queue in ("counted", "counted-too"):
        channel.queue_declare(queue)
        channel.queue_bind(queue, "counted", "a.#")
    for _ in range(10):
        channel.basic_publish("counted", "a.b", b"x")
    channel.basic_publish("counted", "b", b"x")
    for _ in range(2):
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("counted", "b", b"x", mandatory=True)
    channel.basic_qos(prefetch_count=5)
    tags: list[int] = []
    consumer = channel.basic_consume("counted", lambda _c, method, _p, _b: tags.append(method.delivery_tag))
    eventually(lambda: (connection.process_data_events(0), len(tags) == 5)[1], "five are delivered")
    channel.basic_cancel(consumer)
    channel.basic_reject(tags.pop(), requeue=False)
    for _ in range(3):
        channel.basic_ack(tags.pop(0))
    channel.basic_nack(tags.pop(), requeue=True)
    channel.basic_qos(prefetch_count=1)
    consumer = channel.basic_consume("counted", lambda _c, method, _p, _b: tags.append(method.delivery_tag))
    eventually(lambda: (connection.process_data_events(0), len(tags) == 1)[1], "the one that came back is delivered")
    channel.basic_cancel(consumer)
    channel.basic_ack(tags.pop())
    channel.basic_get("counted")
    channel.basic_get("counted", auto_ack=True)
    channel.queue_purge("counted")
    channel.basic_get("counted")


def test_counts_equal_rabbitmqs(sides: list[Side]) -> None:
    for side in sides:
        connection = pika.BlockingConnection(pika.URLParameters(side.url))
        count(connection)
        assert side.counts() == COUNTED if side is sides[0] else True
        eventually(lambda side=side: side.counts() == COUNTED, "RabbitMQ counts every five seconds", 30)
        connection.close()
