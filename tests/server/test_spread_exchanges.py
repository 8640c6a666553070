"""Exchanges by hash after a kill: the queues of keys are the same."""

from __future__ import annotations

from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import serving
from tests.support.pika_helpers import Client, client_of

KEYS = [f"customer-{number}" for number in range(60)]


QUEUES = ["a", "b", "c"]
BY_HEADER = {"hash-header": "customer"}


def publish(channel: BlockingChannel) -> None:
    for key in KEYS:
        headers = {"customer": key}
        channel.basic_publish("x", "", key.encode(), pika.BasicProperties(headers=headers, delivery_mode=2))


def new_in(client: Client, queue: str) -> list[str]:
    """Drain a queue; return the messages that were not delivered before the kill."""
    return [body for body, again in client.drain(queue) if not again]


def test_queues_of_keys_are_the_same_after_a_kill(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        client.channel.exchange_declare("x", "x-consistent-hash", durable=True, arguments=BY_HEADER)
        for queue in QUEUES:
            client.channel.queue_declare(queue, durable=True)
            client.channel.queue_bind(queue, "x", "10")
        publish(client.channel)
        before = [new_in(client, queue) for queue in QUEUES]
        assert all(before)
        broker.kill()
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        client.channel.exchange_declare("x", "x-consistent-hash", durable=True, arguments=BY_HEADER)
        publish(client.channel)
        assert [new_in(client, queue) for queue in QUEUES] == before
