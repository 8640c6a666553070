"""Delayed messages of a broker that is killed: each store, real files, and the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pika

from tests.support.brokers import BrokerProcess, serving
from tests.support.commands import run

NEVER_MS = 600_000


def publish(broker: BrokerProcess, **delays_ms: int) -> None:
    """Publish a message with each delay, whose body is its name."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        kind = {"x-delayed-type": "fanout"}
        channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=kind)
        channel.queue_bind("q", "later")
        channel.confirm_delivery()
        for body, delay_ms in delays_ms.items():
            properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay_ms})
            channel.basic_publish("later", "", body.encode(), properties)


def taken(broker: BrokerProcess, count: int) -> list[str]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        found: list[str] = []
        for method, _, body in channel.consume("q"):
            found.append(f"{body.decode()}{' again' if method.redelivered else ''}")
            channel.basic_ack(method.delivery_tag)
            if len(found) == count:
                break
        channel.cancel()
        return found


def listed(broker: BrokerProcess) -> list[str]:
    """Return the ids of the delayed messages."""
    return [json.loads(line)["id"] for line in run(broker, "messages", "delayed", "q", "--json").splitlines()]


def test_due_times_survive_a_kill(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, "--data", data) as broker:
        publish(broker, late=NEVER_MS, soon=300)
        broker.kill()
    with serving(tmp_path, "--data", data) as broker:
        assert taken(broker, 1) == ["soon"]
        assert listed(broker) == ["d1"]
        assert "1 message of queue q ready now, 0 delayed" in run(broker, "messages", "send-now", "q", "d1")
        broker.kill()
    with serving(tmp_path, "--data", data) as broker:
        assert taken(broker, 1) == ["late"]


def test_cancelled_message_does_not_return_after_a_kill(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, "--data", data) as broker:
        publish(broker, first=NEVER_MS, second=NEVER_MS + 1)
        assert "1 message of queue q cancelled, 1 delayed" in run(broker, "messages", "cancel", "q", "d1")
        broker.kill()
    with serving(tmp_path, "--data", data) as broker:
        assert len(listed(broker)) == 1
        run(broker, "messages", "send-now", "q", "all")
        assert taken(broker, 1) == ["second"]
