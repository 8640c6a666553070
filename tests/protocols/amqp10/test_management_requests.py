"""Requests to the management node as RabbitMQ's clients of AMQP 1.0 send them, with the answers that they accept.

| client | message-id | body without content | queue information that it reads |
|---|---|---|---|
| Java | UUID | amqp-value null | `arguments` a map, `replicas` an array, numbers of any type |
| .NET | string | amqp-value null | `message_count` an ulong, `consumer_count` an uint, `replicas` an array |
| Go | string | amqp-value null | the same; `leader` a string |
| Python | string | amqp-value null | the same |
| JavaScript | UUID as a string | no body section, or null | any |
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote, quote_plus, unquote

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, encode
from penstock.wire.amqp10.values import INT, UINT, ULONG, UUID, Array, Symbol, Typed, ulong
from tests.support.amqp10_dialogue import Amqp10Dialogue, names, performative
from tests.support.amqp10_management import MANAGEMENT, ManagementClient, Response
from tests.support.amqp10_messages import decode_message, delivered

NAME = "größe 1/x;y=&+"
"""Name that each client encodes in its own way."""


class Client(NamedTuple):
    """What one of the clients sends, besides the method, the path and the fields of the body."""

    name: str
    message_id: object
    segment: str
    """`NAME` in a path, which only Java and .NET also write into a query."""
    queue: dict[str, object]
    """Fields of a declared queue, without its arguments."""
    exchange: dict[str, object]
    binding: dict[str, object]
    """Fields of a binding that has no arguments."""


UNRESERVED = quote(NAME, safe="")
CLIENTS = (
    Client(
        "java", Typed(UUID, bytes(16)), quote(NAME, safe="!$&'()*+,;=:@"),
        {"durable": True, "exclusive": False, "auto_delete": False},
        {"type": "topic", "durable": True, "auto_delete": False, "internal": False, "arguments": {}},
        {"arguments": {}},
    ),
    Client(
        "dotnet", "5f1e", UNRESERVED,
        {"durable": True, "exclusive": False, "auto_delete": False},
        {"type": "topic", "durable": True, "auto_delete": False, "arguments": {}},
        {"arguments": {}},
    ),
    Client(
        "go", "5f1e", quote_plus(NAME).replace("+", "%20"),
        {"durable": True, "exclusive": False, "auto_delete": False},
        {"type": "topic", "durable": True, "auto_delete": False},
        {"arguments": {}},
    ),
    Client(
        "python", "5f1e", UNRESERVED, {},
        {"type": "topic", "durable": True, "internal": False, "arguments": {}},
        {"arguments": {}},
    ),
    Client(
        "javascript", "5f1e", quote(NAME, safe="!'()*"),
        {"durable": True, "exclusive": False, "auto_delete": False},
        {"type": "topic", "durable": True, "auto_delete": False, "arguments": {}},
        {"arguments": {}},
    ),
)  # fmt: skip


class Asking:
    """One of the clients at the management node."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.node = ManagementClient()

    def ask(self, method: str, path: str, body: object = None) -> Response:
        response = self.node.ask(method, path, body, message_id=self.client.message_id)
        assert response.correlation == self.client.message_id
        return response


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def asking(request: pytest.FixtureRequest) -> Asking:
    return Asking(request.param)


ARGUMENTS: dict[str, dict[object, object]] = {
    "java": {"x-queue-type": "quorum", "x-delivery-limit": 3, "x-dead-letter-exchange": "amq.fanout"},
    "dotnet": {"x-queue-type": "quorum", "x-max-length": 9, "x-overflow": "reject-publish", "x-expires": 60_000},
    "go": {"x-queue-type": "quorum", "x-max-length-bytes": 9000, "x-single-active-consumer": True},
    "python": {"x-queue-type": "quorum", "x-message-ttl": 1000, "x-queue-leader-locator": "balanced"},
    "javascript": {
        "x-queue-type": "quorum",
        "x-quorum-initial-group-size": 3,
        "x-dead-letter-strategy": "at-most-once",
    },
}


def test_queue_is_declared_shown_purged_and_deleted(asking: Asking) -> None:
    client = asking.client
    path, arguments = f"/queues/{client.segment}", ARGUMENTS[client.name]
    body = {**client.queue, "arguments": arguments}
    created = asking.ask("PUT", path, body)
    assert (created.status, created.body["name"], created.body["type"]) == (201, NAME, "quorum")
    assert (created.body["durable"], created.body["auto_delete"], created.body["exclusive"]) == (True, False, False)
    assert created.body["arguments"] == arguments
    assert asking.ask("PUT", path, body).status == 200
    other = asking.ask("PUT", path, {**body, "arguments": {**arguments, "x-queue-type": "classic"}})
    assert (other.status, "x-queue-type" in other.body) == (409, True)
    assert asking.ask("GET", path) == created._replace(status=200)
    assert asking.ask("DELETE", f"{path}/messages")[:2] == (200, {"message_count": 0})
    assert asking.ask("DELETE", path)[:2] == (200, {"message_count": 0})
    gone = asking.ask("GET", path)
    assert (gone.status, f"no queue '{NAME}' in vhost '/'" in gone.body) == (404, True)


def test_exchange_is_declared_and_deleted(asking: Asking) -> None:
    path = f"/exchanges/{asking.client.segment}"
    for _ in range(2):
        assert asking.ask("PUT", path, asking.client.exchange)[:2] == (204, None)
    assert asking.node.dialogue.vhost.exchanges[NAME].kind == "topic"
    assert asking.ask("PUT", path, {**asking.client.exchange, "type": "fanout"}).status == 409
    for _ in range(2):
        assert asking.ask("DELETE", path)[:2] == (204, None)
    assert NAME not in asking.node.dialogue.vhost.exchanges


@pytest.mark.parametrize("to", ["queue", "exchange"])
def test_binding_without_arguments_is_made_and_removed(asking: Asking, to: str) -> None:
    """All clients make the path of its removal themselves, with empty `args`."""
    client, vhost = asking.client, asking.node.dialogue.vhost
    asking.ask("PUT", f"/exchanges/{client.segment}", client.exchange)
    asking.ask("PUT", f"/{to}s/to", client.queue if to == "queue" else client.exchange)
    body = {"source": NAME, f"destination_{to}": "to", "binding_key": NAME, **client.binding}
    assert asking.ask("POST", "/bindings", body)[:2] == (204, None)
    assert len(vhost.exchanges[NAME].bindings) == 1
    path = f"/bindings/src={UNRESERVED};dst{to[0]}=to;key={UNRESERVED};args="
    for _ in range(2):
        assert asking.ask("DELETE", path)[:2] == (204, None)
    assert len(vhost.exchanges[NAME].bindings) == 0


@pytest.mark.parametrize(
    ("name", "parameter"), [("java", quote(NAME, safe="!$'()*+,;:@/?")), ("dotnet", quote_plus(NAME))]
)
def test_binding_with_arguments_is_removed_at_the_location(name: str, parameter: str) -> None:
    """These clients look for the binding with the same key and arguments, and delete its location."""
    assert unquote(parameter.replace("+", " ")) != unquote(parameter)
    asking = Asking(next(each for each in CLIENTS if each.name == name))
    client = asking.client
    asking.ask("PUT", f"/exchanges/{client.segment}", client.exchange)
    asking.ask("PUT", "/queues/to", client.queue)
    for number in (1, 2):
        body = {"source": NAME, "destination_queue": "to", "binding_key": NAME, "arguments": {"z": number}}
        assert asking.ask("POST", "/bindings", body).status == 204
    found = asking.ask("GET", f"/bindings?src={parameter}&dstq=to&key={parameter}")
    assert (found.status, len(found.body)) == (200, 2)
    (location,) = [each["location"] for each in found.body if each["arguments"] == {"z": 2}]
    assert {each["binding_key"] for each in found.body} == {NAME}
    assert asking.ask("DELETE", location)[:2] == (204, None)
    (left,) = asking.node.dialogue.vhost.exchanges[NAME].bindings.values()
    assert left.arguments == {"z": 1}


def test_argument_of_a_binding_has_the_type_that_clients_compare() -> None:
    client = ManagementClient()
    client.ask("PUT", "/queues/q", {})
    arguments: dict[object, object] = {"i": Typed(INT, -7), "l": 1 << 40, "b": True, "t": "x", "n": [1]}
    body = {"source": "amq.direct", "destination_queue": "q", "binding_key": "k", "arguments": arguments}
    assert client.ask("POST", "/bindings", body).status == 204
    path = "/bindings?src=amq.direct&dstq=q&key=k"
    message = encode(spec.PROPERTIES, message_id="1", subject="GET", to=path, reply_to="$me")
    (answer,) = delivered(client.dialogue.say(client.dialogue.transfer(message, 20, settled=True)))
    ((_, (found,)),) = decode_message(answer).body
    assert found["arguments"] == arguments


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "/queues/s", {"arguments": {"x-queue-type": "stream"}}, 400),
        ("GET", "/queues/none", None, 404),
        ("DELETE", "/queues/none", None, 200),
        ("DELETE", "/queues/none/messages", None, 404),
        ("DELETE", "/exchanges/none", None, 204),
        ("POST", "/bindings", {"source": "none", "destination_queue": "none", "binding_key": ""}, 404),
        ("PUT", "/exchanges/amq.mine", {}, 403),
        ("PATCH", "/queues/q", None, 405),
    ],
)
def test_refusal_has_the_status_of_rabbitmq_and_a_sentence(
    asking: Asking, method: str, path: str, body: object, status: int
) -> None:
    """A client shows the text of a refusal, and reads the body of a success as a map."""
    answer = asking.ask(method, path, body)
    assert answer.status == status
    assert isinstance(answer.body, str if status >= 400 else dict | None)


def test_queue_information_has_the_types_that_clients_cast_to() -> None:
    client = ManagementClient()
    client.ask("PUT", "/queues/q", {})
    message = encode(spec.PROPERTIES, message_id="1", subject="GET", to="/queues/q", reply_to="$me")
    (answer,) = delivered(client.dialogue.say(client.dialogue.transfer(message, 20, settled=True)))
    ((_, fields),) = decode_message(answer).body
    assert fields["message_count"] == ulong(0) == Typed(ULONG, 0)
    assert fields["consumer_count"] == Typed(UINT, 0)
    assert fields["replicas"] == Array("string", ["penstock@localhost"])
    assert (fields["leader"], fields["type"]) == ("penstock@localhost", "classic")


def spelled(frame: bytes, spelling: bytes) -> bytes:
    """Return a frame with its first link-detach spelled in another way, which Penstock's own codec would not write."""
    assert b"link-detach" in frame
    return frame.replace(b"link-detach", spelling, 1)


@pytest.mark.parametrize("first", ["sender", "receiver"])
@pytest.mark.parametrize(
    ("source", "target"),
    [(b"LINK_DETACH", b"SESSION_END"), (b"LINK_DETACH", b"LINK_DETACH")],
    ids=["dotnet", "javascript"],
)
def test_links_of_a_pair_are_attached_in_either_order(first: str, source: bytes, target: bytes) -> None:
    """Two of the clients spell the expiry policies of their termini in their own way."""
    dialogue = Amqp10Dialogue()
    for role in (False, True) if first == "sender" else (True, False):
        attach = performative(
            spec.ATTACH,
            name="management-link-pair",
            handle=21 if role else 20,
            role=role,
            initial_delivery_count=None if role else 0,
            snd_settle_mode=1,
            rcv_settle_mode=0,
            properties={Symbol("paired"): True},
            source=composite(spec.SOURCE, address=MANAGEMENT, expiry_policy="link-detach"),
            target=composite(spec.TARGET, address=MANAGEMENT, expiry_policy="link-detach", timeout=0),
        )
        attach = spelled(spelled(attach, source), target)
        assert "attach" in names(dialogue.say(attach))
    dialogue.flow(21, 100)
    message = encode(spec.PROPERTIES, message_id="1", subject="GET", to="/queues/q", reply_to="$me")
    assert names(dialogue.say(dialogue.transfer(message, 20, settled=True))) == ["transfer"]
