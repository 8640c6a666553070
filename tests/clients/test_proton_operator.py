"""An operator's view of Qpid Proton's links: lists, and why a sender has no credit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.brokers import PATIENCE, BrokerProcess, eventually
from tests.support.raw_channel import Connection

utils = pytest.importorskip("proton.utils", reason="Qpid Proton could not be built")
proton = pytest.importorskip("proton")

pytestmark = pytest.mark.clients


def fill(client: Any, link: Any, room: int) -> None:
    """Send as many messages as there are places, as credit comes."""
    sent = 0

    def goes_on() -> bool:
        nonlocal sent
        while link.credit > 0 and sent < room:
            link.send(proton.Message(body=b"x", inferred=True))
            sent += 1
        return sent == room and link.queued == 0 and client.conn.transport.pending() == 0

    client.wait(goes_on, timeout=PATIENCE)


def test_blocked_link_is_explained_by_the_gate_that_keeps_its_credit(own_broker: BrokerProcess) -> None:
    with Connection(own_broker.url) as connection:
        connection.channel().queue_declare("orders", arguments={"capacity-messages": 4, "stop-messages": 3})
    client = utils.BlockingConnection(own_broker.url, allowed_mechs="PLAIN")
    sender = client.create_sender("orders", name="orders in")
    fill(client, sender.link, 4)
    said = eventually(
        lambda: "/ssn:0/orders in has no credit" in (found := own_broker.why("--link", "orders in")) and found,
        "the end of the credit",
    )
    assert "because of queue orders: " in said
    assert "queue orders has no consumer" in said
    found = json.loads(own_broker.why("--link", "orders in", "--json"))
    assert found["credit"]["credit"] == 0
    assert found["credit"]["used"] == own_broker.depth("orders") == 4
    (shown,) = [json.loads(line) for line in own_broker.command("list", "channels", "--json").splitlines()][:1]
    assert [link["name"].rpartition("/")[2] for link in shown["penstock"]["links"]] == ["orders in"]
    assert "AMQP 1.0" in own_broker.command("list", "connections")
    (line,) = own_broker.await_logged("CHN-1005")
    assert "/ssn:0/orders in] CHN-1005 : Flow Control Enforced (Queue orders)" in line
    receiver = client.create_receiver("orders", name="orders out", credit=1)
    receiver.receive(timeout=60)
    assert "its receiver has granted no credit" in own_broker.why("--link", "orders out")
    client.close()


def test_session_that_only_receives_is_in_the_list_of_channels(own_broker: BrokerProcess) -> None:
    with Connection(own_broker.url) as connection:
        connection.channel().queue_declare("orders")
    client = utils.BlockingConnection(own_broker.url, allowed_mechs="PLAIN")
    client.create_receiver("orders", name="orders out")
    assert "/ssn:0" in own_broker.command("list", "channels")
    client.close()
