"""Traffic of connections: bytes that a proxy has passed on, in the API, in metrics and in the list."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pika
import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_dialogue import data_section
from tests.support.amqp10_socket import SocketPeer
from tests.support.brokers import BrokerProcess, eventually
from tests.support.commands import listed, run
from tests.support.http_client import Web
from tests.support.metrics import samples_of
from tests.support.tcp_proxy import Proxy, proxied

BODY = bytes(10_000)


def exact(web: Web, proxy: Proxy) -> dict[str, Any]:
    """Wait until the only connection has the octets that the proxy has passed on, and return it."""

    def look() -> dict[str, Any] | None:
        before = list(proxy.octets)
        [found] = web.get("/connections")
        same = [found["recv_oct"], found["send_oct"]] == before == proxy.octets
        return found if same else None

    return eventually(look, f"the octets of the proxy {proxy.octets} in {web.get('/connections')}")


@pytest.mark.slow
def test_connection_of_amqp_0_9_1_has_the_bytes_of_its_socket(served: BrokerProcess, web: Web, name: str) -> None:
    eventually(lambda: not web.get("/connections"), "no connection")
    with (
        proxied(f"{served.host}:{served.port}") as proxy,
        closing(pika.BlockingConnection(pika.ConnectionParameters(proxy.host, proxy.port, heartbeat=0))) as client,
    ):
        channel = client.channel()
        channel.queue_declare(name, exclusive=True)
        before = exact(web, proxy)
        for _ in range(20):
            channel.basic_publish("", name, BODY)
        for _ in range(10):
            assert channel.basic_get(name, auto_ack=True)[2] == BODY
        after = exact(web, proxy)
        assert after["recv_oct"] - before["recv_oct"] > 20 * len(BODY)
        assert after["send_oct"] - before["send_oct"] > 10 * len(BODY)
        assert after["recv_cnt"] > before["recv_cnt"]
        assert after["send_cnt"] > before["send_cnt"]
        labels = (f"connection={after['penstock']['name']}", "vhost=/")
        path = "/metrics/detailed?family=connection_coarse_metrics"
        found = samples_of(web.fetch(path).text)
        assert found[("rabbitmq_detailed_connection_incoming_bytes_total", *labels)] == after["recv_oct"]
        assert found[("rabbitmq_detailed_connection_outgoing_bytes_total", *labels)] == after["send_oct"]
        eventually(lambda: web.get("/connections")[0]["recv_oct_details"]["rate"] > 0, "a rate")
        [seen] = listed(served, "connections")
        assert (seen["recv_oct"], seen["send_oct"]) == (after["recv_oct"], after["send_oct"])
        assert {"recv_oct", "send_oct"} < set(run(served, "list", "connections").split())


def test_connection_of_amqp_1_0_has_the_bytes_of_its_socket(served: BrokerProcess, web: Web, name: str) -> None:
    web.declare(name)
    eventually(lambda: not web.get("/connections"), "no connection")
    with proxied(f"{served.host}:{served.port}") as proxy, SocketPeer(proxy) as peer:
        peer.attach_sender(0, composite(spec.TARGET, address=f"/queues/{name}"))
        peer.await_one("flow")
        before = exact(web, proxy)
        peer.send(peer.transfer(0, data_section(BODY)))
        peer.await_one("disposition")
        after = exact(web, proxy)
        assert after["recv_oct"] - before["recv_oct"] > len(BODY)
        assert after["send_oct"] > before["send_oct"]
    web.do("DELETE", f"/queues/%2F/{name}")


def test_sums_of_bytes_include_ended_connections(served: BrokerProcess, web: Web) -> None:
    def sums() -> tuple[float, float]:
        found = samples_of(web.fetch("/metrics").text)
        names = ("rabbitmq_connection_incoming_bytes_total", "rabbitmq_connection_outgoing_bytes_total")
        return found[(names[0],)], found[(names[1],)]

    eventually(lambda: not web.get("/connections"), "no connection")
    before = sums()
    with proxied(f"{served.host}:{served.port}") as proxy:
        with closing(pika.BlockingConnection(pika.ConnectionParameters(proxy.host, proxy.port, heartbeat=0))) as client:
            client.channel()
        eventually(lambda: not web.get("/connections"), "its end")
        assert (sums()[0] - before[0], sums()[1] - before[1]) == tuple(proxy.octets)
