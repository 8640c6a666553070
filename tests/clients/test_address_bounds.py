"""The bound of an address on a real broker, over both protocols: set late, and closed at the maximum as in Artemis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from penstock import sync
from tests.support.brokers import BrokerProcess, eventually, serving

pytestmark = pytest.mark.clients

BODY = b"x" * 760
"""With 240 octets of overhead a message of 1,000 bytes, besides its properties."""


@pytest.fixture
def publisher(own_broker: BrokerProcess) -> Iterator[pika.BlockingConnection]:
    connection = pika.BlockingConnection(pika.URLParameters(own_broker.url))
    yield connection
    connection.close()


def depth_of(control: sync.Connection, queue: str) -> int:
    return int(control.why(queue).raw["depth"]["messages"])


def test_address_below_its_capacity_blocks_and_releases_a_publisher(
    publisher: pika.BlockingConnection, control: sync.Connection
) -> None:
    told: list[str] = []
    publisher.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
    publisher.add_on_connection_unblocked_callback(lambda _, frame: told.append("unblocked"))
    channel = publisher.channel()
    for queue in ("a", "b"):
        channel.queue_declare(queue)
        channel.queue_bind(queue, "amq.fanout")
    marks = {"capacity-bytes": 3500, "stop-bytes": 3499, "resume-bytes": 3499, "address-full-policy": "BLOCK"}
    control.set("address", "amq.fanout", marks)
    control.set("queue", "#", {"hold-deadline": 0})
    for _ in range(5):
        channel.basic_publish("amq.fanout", "", BODY)
    eventually(lambda: publisher.process_data_events(0) or told, "the publisher is told")
    assert told[0].startswith("address amq.fanout: 3,006 of 3,500 bytes: no room for the next message")
    assert depth_of(control, "a") == 3
    for _ in range(3):
        for queue in ("a", "b"):
            assert channel.basic_get(queue, auto_ack=True)[0] is not None
    eventually(lambda: depth_of(control, "a") == 2, "the held ones are in")
    eventually(lambda: publisher.process_data_events(0) or told[-1] == "unblocked", "the publisher is released")


def reason_of_block(broker: BrokerProcess, exchange: str = "amq.fanout", key: str = "") -> str:
    """Publish one message more, and return what the publisher is told."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    told: list[str] = []
    connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
    connection.channel().basic_publish(exchange, key, BODY)
    eventually(lambda: connection.process_data_events(0) or told, "the publisher is told")
    connection.close()
    return told[0]


def test_bound_that_is_set_late_counts_recovered_messages(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    with serving(tmp_path, "--data", folder) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in ("a", "b"):
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, "amq.fanout")
        for _ in range(10):
            channel.basic_publish("amq.fanout", "", BODY, pika.BasicProperties(delivery_mode=2))
        connection.close()
    with serving(tmp_path, "--data", folder) as broker:
        broker.command("set", "address", "amq.fanout", "max-size-messages=8")
        assert reason_of_block(broker).startswith("address amq.fanout: 10 messages")
    with serving(tmp_path, "--data", folder) as broker:
        assert reason_of_block(broker).startswith("address amq.fanout: 10 messages")
