"""`penstock block` and `unblock` at the command line, and their effect on pika's clients."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest

from tests.support.brokers import BrokerProcess, eventually, penstock_command, serving
from tests.support.pika_helpers import depth

pytestmark = pytest.mark.clients


@pytest.fixture
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of its own: what an operator blocks may be everybody's."""
    with serving(tmp_path_factory.mktemp("operated")) as process:
        yield process
        assert "Traceback" not in process.log()


def publisher(broker: BrokerProcess) -> tuple[pika.BlockingConnection, list[str]]:
    """A connection, and the reasons with which it is blocked."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    reasons: list[str] = []
    connection.add_on_connection_blocked_callback(lambda _, frame: reasons.append(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda _, frame: reasons.append("unblocked"))
    return connection, reasons


@pytest.mark.parametrize("scope", ["queue", "vhost", "user", "connection", "address"])
def test_publishes_are_held_with_the_operators_reason_and_go_on_when_it_says_so(
    operated: BrokerProcess, scope: str
) -> None:
    connection, reasons = publisher(operated)
    watching, _ = publisher(operated)
    publishing, consuming = connection.channel(), connection.channel()
    watch = watching.channel()
    watch.queue_declare("orders")
    watch.queue_bind("orders", "amq.fanout")
    publishing.basic_publish("amq.fanout", "orders", b"before")
    status = penstock_command("status", "--url", operated.url).stdout
    assert "orders" in status
    name = {"queue": "orders", "vhost": "/", "user": "guest", "connection": "1", "address": "amq.fanout"}[scope]
    assert "is blocked" in operated.command("block", scope, name, "--reason", "stocktaking")
    for number in range(3):
        publishing.basic_publish("amq.fanout", "orders", str(number).encode())
    eventually(lambda: connection.process_data_events(0) or reasons, "connection.blocked")
    assert f"{name}: stocktaking" in reasons[0]
    assert depth(watch, "orders") == 1
    assert consuming.basic_get("orders", auto_ack=True)[2] == b"before", "consuming on the same connection goes on"
    operated.command("unblock", scope, name)
    eventually(lambda: depth(watch, "orders") == 3, "the held publishes")
    eventually(lambda: connection.process_data_events(0) or "unblocked" in reasons, "connection.unblocked")
    assert [consuming.basic_get("orders", auto_ack=True)[2] for _ in range(3)] == [b"0", b"1", b"2"]
    assert len(operated.await_logged("PST-1005 : Blocked by the operator : stocktaking")) == 1
    assert len(operated.await_logged("PST-1006 : Unblocked by the operator")) == 1
    for each in (connection, watching):
        each.close()
