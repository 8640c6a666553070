"""Policies, operator policies and parameters over HTTP, as RabbitMQ's tools set them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.brokers import BrokerProcess, in_background, serving
from tests.support.http_client import Web
from tests.support.pika_helpers import channel_of, take
from tests.support.postgres import cluster, needs_postgres


def test_policies_are_set_shown_and_cleared(web: Web, name: str) -> None:
    web.declare(name)
    body = {"pattern": f"^{name}", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues"}
    web.do("PUT", f"/policies/%2F/{name}", body, status=201)
    web.do("PUT", f"/policies/%2F/{name}", {**body, "definition": {"max-length": 6}}, status=204)
    web.do("PUT", f"/operator-policies/%2F/{name}", {"pattern": name, "definition": {"max-length": 4}}, status=201)
    queue = web.queue(name)
    assert [queue["policy"], queue["operator_policy"]] == [name, name]
    assert queue["effective_policy_definition"] == {"max-length": 4}
    found = web.get(f"/policies/%2F/{name}")
    assert found == {**body, "vhost": "/", "name": name, "definition": {"max-length": 6}}
    assert found in web.get("/policies")
    assert found in web.get("/policies/%2F")
    assert [each["name"] for each in web.get("/operator-policies/%2F")] == [name]
    for path in ("policies", "operator-policies"):
        web.do("DELETE", f"/{path}/%2F/{name}")
        assert web.ask("DELETE", f"/{path}/%2F/{name}").status == 404
        assert web.ask("GET", f"/{path}/%2F/{name}").status == 404
    assert web.queue(name)["policy"] is None


def test_answers_about_limits_describe_the_overflow_of_queues(web: Web, name: str) -> None:
    made = web.ask("PUT", f"/queues/%2F/{name}", {"arguments": {"capacity-messages": 4}})
    assert (made.status, made.headers["penstock-overflow"]) == (201, f"queue {name} holds publishers at 4 messages")
    body = {"pattern": f"^{name}$", "definition": {"max-length": 5_000_000}}
    holds = "holds publishers at 4 messages"
    both = f"drops its oldest messages above 5,000,000 ready messages and {holds}"
    for path in ("policies", "operator-policies"):
        put = web.ask("PUT", f"/{path}/%2F/{name}", body)
        assert put.headers["penstock-overflow"] == f"overflow changes for queue {name}: {both}; before: {holds}"
        assert "penstock-overflow" not in web.ask("PUT", f"/{path}/%2F/{name}", body).headers
        gone = web.ask("DELETE", f"/{path}/%2F/{name}")
        assert gone.headers["penstock-overflow"] == f"overflow changes for queue {name}: {holds}; before: {both}"
    definitions = {"policies": [{"vhost": "/", "name": name, **body}]}
    assert "penstock-overflow" in web.ask("POST", "/definitions", definitions).headers
    web.do("DELETE", f"/policies/%2F/{name}")


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
@pytest.mark.parametrize("capacity", ["capacity-messages", "max-size-messages"])
def test_policies_that_come_and_go_under_load_lose_nothing(
    served: BrokerProcess, web: Web, name: str, kind: str, capacity: str
) -> None:
    """A consumer that takes one message after another, and a publisher that waits for each confirm."""
    web.ask("PUT", f"/queues/%2F/{name}", {"arguments": {capacity: 6}})
    sent = [b"%d" % number for number in range(200)]

    def publish() -> None:
        with channel_of(served, confirms=True) as publisher:
            for body in sent:
                publisher.basic_publish("", name, body)

    taken: list[bytes] = []
    body = {"pattern": f"^{name}$", "definition": {"max-length": 5_000_000, "overflow": "drop-head"}}
    with channel_of(served) as channel, in_background(publish):
        while len(taken) < len(sent):
            web.do("PUT", f"/{kind}/%2F/{name}", body, status=201)
            taken += [bytes(take(channel, name)[2]) for _ in range(5)]
            web.do("DELETE", f"/{kind}/%2F/{name}")
            taken += [bytes(take(channel, name)[2]) for _ in range(5)]
    assert taken == sent


def test_header_about_overflow_is_ascii(web: Web, name: str) -> None:
    queue = f"{name}-ü"
    put = web.ask("PUT", f"/queues/%2F/{quote(queue)}", {"arguments": {"capacity-messages": 4}})
    assert put.headers["penstock-overflow"] == f"queue {name}-\\xfc holds publishers at 4 messages"


def test_policies_of_exchanges_are_shown_where_they_apply(web: Web, name: str) -> None:
    web.do("PUT", f"/exchanges/%2F/{name}", {"type": "topic"}, status=201)
    assert "policy" not in web.get(f"/exchanges/%2F/{name}")
    body = {"pattern": f"^{name}$", "definition": {"alternate-exchange": "amq.fanout"}, "apply-to": "exchanges"}
    web.do("PUT", f"/policies/%2F/{name}", body, status=201)
    shown = web.get(f"/exchanges/%2F/{name}")
    assert (shown["policy"], shown["effective_policy_definition"]) == (name, body["definition"])
    web.do("DELETE", f"/policies/%2F/{name}")


@pytest.mark.parametrize("component", ["plugin", "shovel"])
def test_parameters_are_set_listed_and_removed(web: Web, name: str, component: str) -> None:
    path, value = f"/parameters/{component}/%2F/{name}", {"src-uri": "amqp://u:p@127.0.0.1:1", "src-queue": "q"}
    web.do("PUT", path, {"value": {**value, "dest-uri": "amqp://"}}, status=201)
    web.do("PUT", path, {"value": {**value, "dest-uri": "amqps://"}}, status=204)
    found = {"component": component, "vhost": "/", "name": name, "value": {**value, "dest-uri": "amqps://"}}
    assert web.get(path) == found
    for listed in ("/parameters", f"/parameters/{component}", f"/parameters/{component}/%2F"):
        assert found in web.get(listed)
    web.do("DELETE", path)
    assert web.ask("DELETE", path).status == 404
    assert web.ask("GET", path).status == 404
    web.do("PUT", f"/global-parameters/{name}", {"value": [1]}, status=201)
    assert {"name": name, "value": [1]} in web.get("/global-parameters")
    web.do("DELETE", f"/global-parameters/{name}")
    refused = web.ask("PUT", f"/parameters/vhost-limits/%2F/{name}", {"value": 5})
    assert (refused.status, "paths of its own" in refused.reason) == (400, True)


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=needs_postgres)])
def test_policies_and_parameters_outlive_a_kill_in_both_stores(tmp_path: Path, engine: str) -> None:
    with ExitStack() as stack:
        place = ("--data", str(tmp_path / "data"))
        if engine == "postgres":
            place = ("--store", stack.enter_context(cluster()).url("postgres"))
        with serving(tmp_path, "--http", "127.0.0.1:0", *place) as process:
            its = Web(process.http)
            its.do("PUT", "/queues/%2F/q", {"durable": True}, status=201)
            its.do("PUT", "/policies/%2F/p", {"pattern": "^(?!amq).*", "definition": {"max-length": 5}}, status=201)
            its.do("PUT", "/policies/%2F/gone", {"pattern": ".*", "definition": {"max-length": 1}}, status=201)
            its.do("PUT", "/operator-policies/%2F/o", {"pattern": "", "definition": {"expires": 900_000}}, status=201)
            its.do("PUT", "/global-parameters/cluster_name", {"value": "here"}, status=201)
            its.do("DELETE", "/policies/%2F/gone")
            ends = {"source": "amqp:///?queue=q", "target": "amqp://u:p@127.0.0.1:1"}
            for each in ("runs", "rests", "gone"):
                its.do("PUT", f"/penstock/bridges/%2F/{each}", ends, status=201)
            its.do("POST", "/penstock/bridges/%2F/rests/pause", status=200)
            its.do("DELETE", "/penstock/bridges/%2F/gone")
            before = its.get("/definitions")
            process.kill()
        with serving(tmp_path, "--http", "127.0.0.1:0", *place) as process:
            its = Web(process.http)
            assert its.get("/definitions") == before
            queue = its.get("/queues/%2F/q")
            assert (queue["policy"], queue["operator_policy"]) == ("p", "o")
            assert queue["effective_policy_definition"] == {"max-length": 5, "expires": 900_000}
            users = {each["name"]: each["user"] for each in its.get("/penstock/bridges")}
            assert users == {"runs": "guest", "rests": None}


def test_answer_about_a_queue_with_control_characters_in_its_name_escapes_them(web: Web) -> None:
    made = web.ask("PUT", "/queues/%2F/" + quote("a\r\nb\x00ü", safe=""), {"arguments": {"capacity-messages": 4}})
    said = r"queue a\r\nb\x00\xfc holds publishers at 4 messages"
    assert (made.status, made.headers["penstock-overflow"]) == (201, said)
