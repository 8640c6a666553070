"""Management node: RabbitMQ 4's operations with their answers, and HTTP over AMQP."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.core.routing.exchange import Topic, arguments_digest
from penstock.errors import BrokerError
from penstock.operations.management_paths import PATHS
from penstock.protocols.amqp10.management_node import read_request, response
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.values import Array, Symbol, Typed, ulong
from tests.support.amqp10_dialogue import data_section
from tests.support.amqp10_management import ManagementClient, request_message
from tests.support.amqp10_messages import decode_message
from tests.support.driven_connection import Dialogue
from tests.support.source_trees import parsed

SOURCES = Path(penstock.__file__).parents[1]


@pytest.fixture
def client() -> ManagementClient:
    return ManagementClient()


# Queues


def test_queue_is_declared_shown_and_declared_again(client: ManagementClient) -> None:
    arguments = {"x-max-length": ulong(5), "x-queue-type": "classic", "x-overflow": Symbol("reject-publish")}
    created = client.ask("PUT", "/queues/a%20b%2Fc", {"durable": True, "arguments": arguments})
    shown = {
        "name": "a b/c", "vhost": "/", "durable": True, "auto_delete": False, "exclusive": False, "type": "classic",
        "arguments": {"x-max-length": 5, "x-queue-type": "classic", "x-overflow": "reject-publish"},
        "leader": "penstock@localhost", "replicas": Array("string", ["penstock@localhost"]),
        "message_count": 0, "consumer_count": 0,
    }  # fmt: skip
    assert (created.status, created.body) == (201, shown)
    assert client.ask("PUT", "/queues/a%20b%2Fc", {"arguments": arguments}) == created._replace(status=200)
    assert client.ask("GET", "/queues/a%20b%2Fc") == created._replace(status=200)
    assert client.dialogue.vhost.queues["a b/c"].durable


def test_exclusive_queue_belongs_to_the_connection(client: ManagementClient) -> None:
    assert client.ask("PUT", "/queues/mine", {"exclusive": True, "durable": False}).body["exclusive"] is True
    assert client.dialogue.vhost.queues["mine"].owner is client.dialogue.connection
    other = ManagementClient(type(client.dialogue)(client.dialogue.driver))
    assert other.ask("GET", "/queues/mine").status == 400
    assert other.ask("DELETE", "/queues/mine").status == 400
    assert client.ask("DELETE", "/queues/mine").body == {"message_count": 0}
    assert len(client.dialogue.connection.exclusive) == 0


def test_quorum_queue_says_so(client: ManagementClient) -> None:
    body = {"arguments": {"x-queue-type": "quorum"}}
    assert client.ask("PUT", "/queues/q", body).body["type"] == "quorum"


def test_queue_that_differs_is_a_conflict(client: ManagementClient) -> None:
    client.ask("PUT", "/queues/q", {})
    answer = client.ask("PUT", "/queues/q", {"durable": False})
    assert answer.status == 409
    assert "inequivalent arg 'durable' for queue 'q'" in answer.body


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("/queues/amq.mine", {}, 403, "reserved prefix"),
        ("/queues/", {}, 400, "needs a name"),
        ("/queues/q", {"durabel": True}, 400, "known are durable"),
        ("/queues/q", {"durable": "yes"}, 400, "must be a boolean"),
        ("/queues/q", [], 400, "with a map"),
        ("/queues/q", {"arguments": {"x-max-lenght": 5}}, 400, "x-max-length"),
        ("/queues/%FF", {}, 400, "not UTF-8"),
        (f"/queues/{'q' * 256}", {}, 400, "255"),
    ],
)
def test_declaration_that_cannot_be(client: ManagementClient, path: str, body: Any, status: int, text: str) -> None:
    answer = client.ask("PUT", path, body)
    assert answer.status == status
    assert text in answer.body
    assert set(client.dialogue.vhost.queues) == set()


def test_purge_and_deletion_count_messages(client: ManagementClient) -> None:
    client.ask("PUT", "/queues/q", {})
    dialogue = client.dialogue
    dialogue.attach_sender("/queues/q")
    dialogue.put(*[b"x"] * 3, settled=True)
    assert client.ask("GET", "/queues/q").body["message_count"] == 3
    assert client.ask("DELETE", "/queues/q/messages").body == {"message_count": 3}
    dialogue.say(dialogue.transfer(data_section(b"x"), settled=True))
    answer = client.ask("DELETE", "/queues/q")
    assert (answer.status, answer.body) == (200, {"message_count": 1})
    assert client.ask("DELETE", "/queues/q").body == {"message_count": 0}
    assert client.ask("GET", "/queues/q").status == 404
    assert client.ask("DELETE", "/queues/q/messages").status == 404


# Exchanges


def test_exchange_is_declared_and_deleted(client: ManagementClient) -> None:
    body = {"type": "topic", "durable": True, "auto_delete": True, "internal": False, "arguments": {}}
    for _ in range(2):
        assert client.ask("PUT", "/exchanges/e", body)[:2] == (204, None)
    assert isinstance(client.dialogue.vhost.exchanges["e"], Topic)
    assert client.ask("PUT", "/exchanges/e", {"type": "fanout"}).status == 409
    for _ in range(2):
        assert client.ask("DELETE", "/exchanges/e")[:2] == (204, None)
    assert "e" not in client.dialogue.vhost.exchanges


def test_exchanges_of_the_broker_stay(client: ManagementClient) -> None:
    assert client.ask("PUT", "/exchanges/", {}).status == 403
    assert client.ask("DELETE", "/exchanges/amq.fanout").status == 403
    assert client.ask("PUT", "/exchanges/amq.mine", {}).status == 403
    assert client.ask("PUT", "/exchanges/e", {"type": "none"}).status == 400


# Bindings


def test_binding_is_made_listed_and_removed(client: ManagementClient) -> None:
    client.ask("PUT", "/queues/q;1", {})
    body = {"source": "amq.topic", "destination_queue": "q;1", "binding_key": "a/b.#", "arguments": {}}
    assert client.ask("POST", "/bindings", body)[:2] == (204, None)
    found = client.ask("GET", "/bindings?src=amq.topic&dstq=q%3B1&key=a%2Fb.%23")
    location = "/bindings/src=amq.topic;dstq=q%3B1;key=a%2Fb.%23;args="
    shown = {**body, "location": location}
    assert (found.status, found.body) == (200, [shown])
    for _ in range(2):
        assert client.ask("DELETE", location)[:2] == (204, None)
    assert client.ask("GET", "/bindings?src=amq.topic&dstq=q%3B1&key=a%2Fb.%23").body == []


def test_bindings_with_arguments_have_different_locations(client: ManagementClient) -> None:
    client.ask("PUT", "/queues/q", {})
    for number in (1, 2):
        arguments = {"x-match": "any", "n": Typed("uint", number)}
        body = {"source": "amq.headers", "destination_queue": "q", "binding_key": "", "arguments": arguments}
        client.ask("POST", "/bindings", body)
    found = client.ask("GET", "/bindings?src=amq.headers&dstq=q&key=").body
    assert [each["arguments"]["n"] for each in found] == [1, 2]
    client.ask("DELETE", found[0]["location"])
    left = client.ask("GET", "/bindings?src=amq.headers&dstq=q&key=").body
    assert [each["arguments"]["n"] for each in left] == [2]


def test_binding_is_removed_without_a_look_at_the_others(client: ManagementClient) -> None:
    client.ask("PUT", "/queues/q", {})
    exchange = client.dialogue.vhost.exchanges["amq.headers"]

    def work_of_removing(digest: str) -> int:
        before = client.dialogue.vhost.broker.work.done
        assert client.ask("DELETE", f"/bindings/src=amq.headers;dstq=q;key=;args={digest}").status == 204
        return int(client.dialogue.vhost.broker.work.done - before)

    alone = work_of_removing("00" * 16)
    for number in range(200):
        client.dialogue.vhost.bind("amq.headers", client.dialogue.vhost.queues["q"], None, "", {"n": number})
    assert work_of_removing("00" * 16) == alone
    assert work_of_removing("xy" * 16) == alone, "not hexadecimal"
    assert len(exchange.bindings) == 200
    work_of_removing(arguments_digest(next(iter(exchange.bindings.values()))))
    assert [binding.arguments["n"] for binding in exchange.bindings.values()] == list(range(1, 200))


def test_exchange_is_bound_to_an_exchange(client: ManagementClient) -> None:
    client.ask("PUT", "/exchanges/e", {})
    body = {"source": "amq.direct", "destination_exchange": "e", "binding_key": "k", "arguments": {}}
    assert client.ask("POST", "/bindings", body).status == 204
    (found,) = client.ask("GET", "/bindings?src=amq.direct&dste=e&key=k").body
    assert found["location"] == "/bindings/src=amq.direct;dste=e;key=k;args="
    client.ask("DELETE", found["location"])
    assert client.dialogue.vhost.exchanges["amq.direct"].bindings == {}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/bindings", {"source": "amq.direct", "destination_queue": "none"}, 404),
        ("POST", "/bindings", {"source": "none", "destination_queue": "none"}, 404),
        ("POST", "/bindings", {"source": "amq.direct"}, 400),
        ("POST", "/bindings", {"source": "", "destination_queue": "q"}, 403),
        ("GET", "/bindings?src=amq.direct", None, 400),
        ("GET", "/bindings?src=amq.direct&key=", None, 400),
        ("GET", "/bindings?src", None, 400),
        ("DELETE", "/bindings/src=amq.direct;dstq=none;key=;args=", None, 204),
        ("DELETE", "/bindings/src=amq.direct;dstq=none", None, 400),
        ("DELETE", "/bindings/src=;dstq=q;key=q;args=", None, 403),
        ("GET", "/nowhere", None, 404),
        ("", "", None, 404),
        ("POST", "/queues/q", None, 405),
        ("GET", "/exchanges/amq.direct", None, 405),
        ("GET", "/queues/q/messages", None, 405),
        ("PUT", "/bindings", None, 405),
        ("GET", "/bindings/src=a;dstq=b;key=c;args=", None, 405),
    ],
)
def test_request_that_is_refused(client: ManagementClient, method: str, path: str, body: object, status: int) -> None:
    client.ask("PUT", "/queues/q", {})
    answer = client.ask(method, path, body)
    assert (answer.status, answer.correlation) == (status, "1")


def test_declarations_of_both_protocols_are_the_same(client: ManagementClient) -> None:
    Dialogue(client.dialogue.driver).declare("q", capacity_messages=5)
    assert client.ask("PUT", "/queues/q", {"durable": False, "arguments": {"capacity-messages": 5}}).status == 200


def test_request_has_method_path_query_and_body() -> None:
    found = read_request(request_message("GET", "/bindings/a%2Fb?src=a%20b&key=%3D", {"a": 1}))
    assert (found.method, found.path, found.segments()) == ("GET", "/bindings/a%2Fb", ["bindings", "a/b"])
    assert (found.queries(), found.body) == ([{"src": "a b", "key": "="}], {"a": 1})


@pytest.mark.parametrize("number", ["text", b"\x01", ulong(7), Typed("uuid", bytes(16))])
def test_response_correlates_with_the_message_id_of_any_type(number: Any) -> None:
    request = read_request(request_message("GET", "/", message_id=number))
    found = decode_message(response(request, 204, None))
    assert found.properties == {"subject": "204", "correlation_id": number}
    assert found.application == {"http:response": "1.1"}
    assert found.body == [("amqp-value", None)]


def test_request_without_a_body_section_has_none() -> None:
    content = encode(spec.PROPERTIES, subject="GET", to="/queues/q", reply_to="$me") + data_section(b"x")
    assert read_request(content).body is None


def test_body_may_come_before_the_properties() -> None:
    found = read_request(b"\x00\x53\x77\x40" + encode(spec.PROPERTIES, subject="GET", to="/a", reply_to="$me"))
    assert (found.method, found.path, found.body) == ("GET", "/a", None)


@pytest.mark.parametrize(
    "content",
    [
        data_section(b"x"),
        request_message("GET", "/", reply_to="/queues/q"),
        request_message("GET", "/", reply_to=None),
        request_message("GET", "/")[:-1],
        b"",
    ],
)
def test_request_that_no_answer_can_be_sent_to(content: bytes) -> None:
    with pytest.raises(BrokerError):
        read_request(content)


def sources_read_by(module: str) -> set[str]:
    """Return the modules of Penstock that a module imports, for typing or at run time."""
    path = SOURCES / f"{module.replace('.', '/')}.py"
    return {
        name
        for node in ast.walk(parsed(path.read_text()))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else names_of(node))
    }


def names_of(node: ast.AST) -> list[str]:
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def test_management_node_names_no_operation_of_the_core() -> None:
    read = sources_read_by("penstock.protocols.amqp10.management_node")
    core = {name for name in read if name.startswith(("penstock.core", "penstock.describe", "penstock.content"))}
    assert core | (read & {"penstock.connections.topology", "penstock.connections.authorization"}) == set()
    literals = {
        node.value
        for node in ast.walk(parsed((SOURCES / "penstock/protocols/amqp10/management_node.py").read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    nouns = {part for path in PATHS for part in path.parts if not part.startswith(":")}
    assert nouns == {"queues", "messages", "exchanges", "bindings"}
    assert literals & nouns == set()
