"""Connections over HTTP."""

from __future__ import annotations

from urllib.parse import quote

import pika
import pytest

from tests.support.brokers import PATIENCE, BrokerProcess, eventually
from tests.support.http_client import Web
from tests.support.pika_helpers import named_connection


def test_connections_are_listed_and_closed_with_a_reason(served: BrokerProcess, web: Web, name: str) -> None:
    connection = named_connection(served.url, name)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=7)
    channel.confirm_delivery()
    channel.queue_declare(name)
    channel.basic_publish("", name, b"x")
    tag = channel.basic_consume(name, lambda *_: None, arguments={"k": 1})
    connection.process_data_events(0.1)
    mine = next(each for each in web.get("/connections") if each["user_provided_name"] == name)
    path = f"/connections/{quote(mine['name'])}"
    assert web.get(path)["client_properties"]["product"] == "Pika Python Client Library"
    assert (mine["peer_host"], mine["port"], mine["state"], mine["channels"]) == (
        "127.0.0.1",
        served.port,
        "running",
        1,
    )
    (each,) = web.get(f"{path}/channels")
    assert (each["prefetch_count"], each["confirm"], each["consumer_count"]) == (7, True, 1)
    stats = each["message_stats"]
    assert (stats["publish"], stats["deliver"], stats["deliver_get"], stats["ack"]) == (1, 1, 1, 0)
    assert stats["publish_details"] == {"rate": 0.0} or stats["publish_details"]["rate"] > 0
    assert web.get(path)["message_stats"]["publish"] == 1
    assert each["messages_unacknowledged"] == 1
    assert web.get(f"/channels/{quote(each['name'])}")["consumer_details"][0]["consumer_tag"] == tag
    consumer = next(each for each in web.get("/consumers/%2F") if each["consumer_tag"] == tag)
    assert (consumer["ack_required"], consumer["prefetch_count"], consumer["arguments"]) == (True, 7, {"k": 1})
    assert "gates" in web.get("/penstock/why")
    assert name in [each["user_provided_name"] for each in web.get("/connections/username/guest")]
    assert web.get(f"/penstock/why?connection={mine['penstock']['number']}")["name"] == mine["penstock"]["name"]
    answer = web.ask("DELETE", path, headers={"X-Reason": "so be it"})
    assert answer.status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match=r"320.*so be it"):
        connection.process_data_events(PATIENCE)
    eventually(lambda: web.ask("GET", path).status == 404, "it is gone")
