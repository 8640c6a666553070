"""Paths of the management node: rows with fields, codes, and records of the audit log."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.connections.path_request import PathAnswer, PathRequest
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError, InvalidField, NotFound
from penstock.operations.management_paths import (
    BINDINGS_SHOWN,
    EXCHANGE_FIELDS,
    PATHS,
    QUEUE_FIELDS,
    ManagementPaths,
    Path,
    body_fields,
)
from penstock.operations.topology import OPERATIONS
from penstock.wire.amqp10.values import ulong
from tests.support.access_of import access_of
from tests.support.amqp10_dialogue import Amqp10Dialogue
from tests.support.amqp10_management import ManagementClient
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.operation_calls import ask


class Asking:
    """A connection that asks at paths, without the codec of AMQP 1.0."""

    def __init__(self) -> None:
        self.driver: BrokerDriver = make_driver()
        self.connection = Dialogue(self.driver).connection
        self.paths = ManagementPaths(self.driver)

    def ask(self, method: str, target: str, body: object = None) -> PathAnswer:
        return self.paths.carry_out(self.connection, self.driver.broker.vhost("/"), PathRequest(method, target, body))


@pytest.fixture
def asking() -> Asking:
    return Asking()


def test_paths_have_their_methods(asking: Asking) -> None:
    assert asking.paths.names() == ["/queues/:queue", "/exchanges/:exchange", "/bindings"]
    assert asking.paths.methods_of(["queues", "q"]) == ["GET", "PUT", "DELETE"]
    assert asking.paths.methods_of(["queues", "q", "messages"]) == ["DELETE"]
    for segments in ([], ["queues"], ["queues", "q", "contents"], ["auth", "tokens"]):
        assert asking.paths.methods_of(segments) == []
    assert len({path.where for path in PATHS}) == len(PATHS)


def test_paths_share_operations_with_http() -> None:
    shared = {path.where for path in PATHS if path.run in [row.run for row in OPERATIONS]}
    assert shared == {
        "PUT /queues/:queue", "DELETE /queues/:queue", "PUT /exchanges/:exchange", "DELETE /exchanges/:exchange",
        "POST /bindings",
    }  # fmt: skip


@pytest.mark.parametrize("path", [path for path in PATHS if path.body], ids=lambda path: path.where)
def test_fields_of_a_body_have_defaults_and_required_types(path: Path) -> None:
    assert body_fields(None, path.body) == body_fields({}, path.body) == dict(path.body)
    for name, default in path.body.items():
        word = {bool: "boolean", str: "string", dict: "map"}[type(default)]
        with pytest.raises(InvalidField, match=f"^field '{name}' must be a {word}, not 5$"):
            body_fields({name: 5}, path.body)
    with pytest.raises(InvalidField, match=r"^field 'durabel' is not known; known are "):
        body_fields({"durabel": True}, path.body)
    with pytest.raises(InvalidField, match=r"^field 5 is not known"):
        body_fields({5: True}, path.body)
    with pytest.raises(InvalidField, match="must be an amqp-value with a map"):
        body_fields([], path.body)
    with pytest.raises(InvalidField, match=r"^arguments: \d+ does not fit a signed integer of 64 bits"):
        body_fields({"arguments": {"n": 1 << 70}}, path.body)


def test_defaults_of_bodies_equal_rabbitmqs() -> None:
    assert QUEUE_FIELDS == {"durable": True, "exclusive": False, "auto_delete": False, "arguments": {}}
    assert (EXCHANGE_FIELDS["type"], EXCHANGE_FIELDS["durable"]) == ("direct", True)


def test_codes_equal_rabbitmqs(asking: Asking) -> None:
    steps: list[tuple[str, str, object, int]] = [
        ("PUT", "/queues/q", None, 201), ("PUT", "/queues/q", {}, 200), ("PUT", "/queues/q", {"durable": False}, 409),
        ("GET", "/queues/q", None, 200), ("DELETE", "/queues/q/messages", None, 200),
        ("PUT", "/exchanges/e", None, 204), ("PUT", "/exchanges/e", {"type": "topic"}, 409),
        ("POST", "/bindings", {"source": "e", "destination_queue": "q"}, 204),
        ("GET", "/bindings?src=e&dstq=q&key=", None, 200),
        ("DELETE", "/bindings/src=e;dstq=q;key=;args=", None, 204),
        ("DELETE", "/bindings/src=e;dstq=q;key=;args=", None, 204),
        ("DELETE", "/queues/q", None, 200), ("DELETE", "/queues/q", None, 200),
        ("DELETE", "/exchanges/e", None, 204), ("DELETE", "/exchanges/e", None, 204),
    ]  # fmt: skip
    assert [asking.ask(method, target, body).status for method, target, body, _ in steps] == [row[3] for row in steps]
    with pytest.raises(NotFound, match="no queue 'q' in vhost '/'"):
        asking.ask("DELETE", "/queues/q/messages")


def test_answer_has_neutral_values_and_their_kinds(asking: Asking) -> None:
    answer = asking.ask("PUT", "/queues/q", {"arguments": {"x-max-length": 5}})
    assert isinstance(answer.body, dict)
    assert (answer.body["message_count"], answer.body["replicas"]) == (0, ["penstock@localhost"])
    assert answer.body["arguments"] == {"x-max-length": 5}
    assert set(answer.kinds) == {"arguments", "replicas", "message_count", "consumer_count"}


def test_exclusive_flag_needs_a_connection(asking: Asking) -> None:
    asking.ask("PUT", "/queues/mine", {"exclusive": True})
    vhost = asking.driver.broker.vhost("/")
    assert vhost.queues["mine"].owner is asking.connection
    access = access_of(asking.driver.broker, "guest")
    ask(asking.driver, "PUT /queues/{vhost}/{name}", {"name": "q", "durable": True, "exclusive": True}, access=access)
    assert (vhost.queues["q"].owner, vhost.queues["q"].durable) == (None, True)


def test_default_exchange_has_its_other_name_over_http_alone(asking: Asking) -> None:
    binding = {"source": "amq.default", "destination_queue": "q"}
    asking.ask("PUT", "/queues/q")
    with pytest.raises(NotFound, match=r"no exchange 'amq\.default'"):
        asking.ask("POST", "/bindings", binding)
    over_http = {"source": "amq.default", "kind": "q", "destination": "q"}
    access = access_of(asking.driver.broker, "guest")
    with pytest.raises(BrokerError, match="operation not permitted on the default exchange"):
        ask(asking.driver, "POST /bindings/{vhost}/e/{source}/{kind}/{destination}", over_http, access=access)


def test_bindings_beyond_a_response_are_refused(asking: Asking) -> None:
    asking.ask("PUT", "/queues/q")
    vhost = asking.driver.broker.vhost("/")
    for number in range(BINDINGS_SHOWN + 1):
        vhost.bind("amq.headers", vhost.queues["q"], None, "", {"n": number})
    with pytest.raises(BrokerError, match="1001 bindings differ in their arguments alone"):
        asking.ask("GET", "/bindings?src=amq.headers&dstq=q&key=")


CHANGES: list[tuple[str, str, object, bool]] = [
    ("PUT", "/queues/q", {"arguments": {"x-max-length": ulong(5)}}, True),
    ("PUT", "/queues/q", {"arguments": {"x-max-length": ulong(5)}}, False),
    ("PUT", "/queues/q", {"durable": False}, False),
    ("GET", "/queues/q", None, False),
    ("DELETE", "/queues/q/messages", None, True),
    ("PUT", "/exchanges/e", None, True),
    ("POST", "/bindings", {"source": "e", "destination_queue": "q"}, True),
    ("GET", "/bindings?src=e&dstq=q&key=", None, False),
    ("DELETE", "/bindings/src=e;dstq=q;key=;args=", None, True),
    ("DELETE", "/queues/q", None, True),
    ("DELETE", "/queues/q", None, False),
]


def test_changes_alone_are_recorded_with_method_path_and_body() -> None:
    client = ManagementClient(Amqp10Dialogue(make_driver()))
    audit = client.dialogue.driver.audit
    audit.enable(1 << 20)
    for method, target, body, recorded in CHANGES:
        audit.take()
        client.ask(method, target, body)
        records: list[Any] = [record for record in audit.take() if "over AMQP" in str(record)]
        assert [record["operation"] for record in records] == ([f"{method} over AMQP"] if recorded else [])
        assert [record["subject"] for record in records] == ([target] if recorded else [])
