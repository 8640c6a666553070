"""The tag administrator: operations without it, over AMQP, by command and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.errors import ControlError
from penstock.operations.table import CONTROL
from penstock.sync import connect
from tests.support.brokers import BrokerProcess, penstock_command, serving, settings_file, some_name
from tests.support.http_client import Web
from tests.support.raw_channel import Connection

OPERATIONS = {
    "block": {"queue": "orders"},
    "settings.list": {},
    "list": {"kind": "connections"},
    "definitions.import": {"definitions": "{}"},
}
"""Operations with a tag each; tests/operations/test_table.py has all rows."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with an administrator, ada, and a user without tags, bob; and guest, configured as well."""
    folder = tmp_path_factory.mktemp("users")
    options = settings_file(
        folder, '[users]\nada = "a"\nbob = "b"\nguest = "guest"\nmia = { password = "m", tags = ["management"] }\n'
    )
    with serving(folder, *options, "--http", "127.0.0.1:0") as process:
        with Connection(process.url_of("ada", "a")) as connection:
            connection.channel().queue_declare("orders")
        yield process
        assert "Traceback" not in process.log()


@pytest.mark.parametrize(("operation", "arguments"), OPERATIONS.items())
def test_control_operation_needs_its_tag(shared: BrokerProcess, operation: str, arguments: dict[str, object]) -> None:
    with (
        connect(shared.url_of("bob", "b"), protocol="amqp091") as control,
        pytest.raises(ControlError) as refused,
    ):
        control.request(operation, **arguments)
    assert refused.value.code == 403
    tag = CONTROL[operation].tag
    assert f"control operation '{operation}' needs the tag {tag}, which user 'bob'" in str(refused.value)


@pytest.mark.parametrize(("user", "password"), [("ada", "a"), ("guest", "guest")])
def test_first_user_and_local_guest_may_block_queues(shared: BrokerProcess, user: str, password: str) -> None:
    with connect(shared.url_of(user, password), protocol="amqp091") as control:
        control.block("queue", "orders", "a test")
        assert control.status()["queues"]
        control.unblock("queue", "orders")


def test_user_of_any_tag_may_read_queues_by_cursor(shared: BrokerProcess) -> None:
    name = some_name("q")
    with (
        Connection(shared.url_of("bob", "b")) as connection,
        connect(shared.url_of("bob", "b"), protocol="amqp091") as control,
    ):
        channel = connection.channel()
        channel.queue_declare(name)
        channel.publish(b"one", routing_key=name)
        attached = control.attach_cursor("reader", [name])
        plan = control.plan_batch("reader", attached.token, {name: 0}, wait=10)
        assert plan.rows == 1
        assert control.read_range("reader", attached.token, name, 0, plan.end[name], rows=10, bytes=1000)
        assert control.settle_cursor("reader", attached.token, plan.end) == {name: plan.end[name]}
        control.delete_cursor("reader")


def test_command_of_the_operator_says_which_tag_is_missing(shared: BrokerProcess) -> None:
    done = penstock_command("block", "queue", "orders", "--url", shared.url_of("bob", "b"))
    assert done.returncode != 0
    assert "needs the tag policymaker" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("method", "path"), [("GET", "/overview"), ("POST", "/definitions"), ("PUT", "/users/eve")])
def test_user_without_a_tag_is_not_authorised_over_http(shared: BrokerProcess, method: str, path: str) -> None:
    answer = Web(shared.http, "bob", "b").ask(method, path, {} if method != "GET" else None)
    assert (answer.status, answer.json["error"]) == (401, "not_authorised")
    assert answer.reason == "Not management user"


def test_user_with_the_tag_management_may_do_over_http_as_over_amqp(shared: BrokerProcess) -> None:
    web, queue = Web(shared.http, "mia", "m"), some_name("q")
    assert web.ask("PUT", f"/queues/%2F/{queue}", {}).status == 201
    assert web.ask("POST", f"/bindings/%2F/e/amq.topic/q/{queue}", {"routing_key": "k"}).status == 201
    message = {"properties": {}, "routing_key": queue, "payload": "one", "payload_encoding": "string"}
    assert web.ask("POST", "/exchanges/%2F/amq.default/publish", message).json == {"routed": True}
    taken = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert web.ask("POST", f"/queues/%2F/{queue}/get", taken).json[0]["payload"] == "one"
    assert web.ask("DELETE", f"/queues/%2F/{queue}").status == 204
    assert web.ask("GET", "/aliveness-test/%2F").json == {"status": "ok"}
    assert web.ask("GET", "/health/checks/alarms").json == {"status": "ok"}
    assert web.ask("GET", "/whoami").json == {"name": "mia", "tags": ["management"]}


def test_wrong_passwords_by_http_and_amqp_are_counted_together(tmp_path: Path) -> None:
    with serving(tmp_path, "--http", "127.0.0.1:0") as broker:
        statuses = [Web(broker.http, "guest", "wrong").ask("GET", "/whoami").status for _ in range(5)]
        assert statuses == [401] * 5
        assert Web(broker.http).ask("GET", "/whoami").status == 200
        with connect(broker.url, protocol="amqp091") as control:
            assert control.status()["queues"] is not None
