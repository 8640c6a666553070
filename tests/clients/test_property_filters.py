"""Property filters with Proton: what a receiver gets, and what the broker says is in effect."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import PATIENCE, BrokerProcess

pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")

import proton
from proton.reactor import Filter
from proton.utils import BlockingConnection

pytestmark = pytest.mark.clients


def test_receiver_gets_messages_that_match_its_filters(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments={"x-expires": 600_000})
    client = BlockingConnection(broker.url.rstrip("/"), timeout=PATIENCE)
    sender = client.create_sender(f"/queues/{name}")
    for subject in ("order.new", "order.paid", "invoice"):
        for region in ("eu", "us"):
            sender.send(proton.Message(body=f"{subject} {region}", subject=subject, properties={"region": region}))
    filters = {
        proton.symbol("f"): proton.Described(
            proton.symbol("amqp:properties-filter"), {proton.symbol("subject"): "&p:order"}
        ),
        proton.symbol("g"): proton.Described(proton.symbol("amqp:application-properties-filter"), {"region": "eu"}),
        proton.symbol("h"): proton.Described(proton.symbol("amqp:sql-filter"), "p.subject <> 'order.paid'"),
        proton.symbol("i"): proton.Described(proton.symbol("rabbitmq:stream-filter"), "eu"),
    }
    receiver = client.create_receiver(f"/queues/{name}", credit=10, options=Filter(filters))
    in_effect = receiver.link.remote_source.filter
    in_effect.next()
    assert {str(key) for key in in_effect.get_object()} == {"f", "g", "h"}
    sender.send(proton.Message(body="last", subject="order.last", properties={"region": "eu"}))
    assert [receiver.receive().body for _ in range(2)] == ["order.new eu", "last"]
    client.close()
