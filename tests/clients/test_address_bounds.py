"""The bound of an address on a real broker, over both protocols: set late, and closed at the maximum as in Artemis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from penstock.client import Connection
from penstock.client.control import ControlClient
from tests.support.brokers import BrokerProcess, eventually, penstock_command, serving

pytestmark = pytest.mark.clients

BODY = b"x" * 760
"""With 240 octets of overhead a message of 1,000 bytes, besides its properties."""


@pytest.fixture
def bounded(tmp_path: Path) -> Iterator[BrokerProcess]:
    with serving(tmp_path) as process:
        yield process
        assert "Traceback" not in process.log()


@pytest.fixture
def control(bounded: BrokerProcess) -> Iterator[ControlClient]:
    with Connection(bounded.url) as connection, ControlClient(connection) as control:
        yield control


@pytest.fixture
def publisher(bounded: BrokerProcess) -> Iterator[pika.BlockingConnection]:
    connection = pika.BlockingConnection(pika.URLParameters(bounded.url))
    yield connection
    connection.close()


def depth_of(control: ControlClient, queue: str) -> int:
    return int(control.why(queue)["depth"]["messages"])


def test_address_that_stops_below_its_capacity_tells_and_releases_a_publisher_whose_message_does_not_fit(
    publisher: pika.BlockingConnection, control: ControlClient
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


def test_bound_that_is_set_late_counts_what_is_there_before_and_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path, "--data", str(tmp_path / "data")) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in ("a", "b"):
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, "amq.fanout")
        for _ in range(10):
            channel.basic_publish("amq.fanout", "", BODY, pika.BasicProperties(delivery_mode=2))
        assert channel.basic_get("a")[0] is not None
        _set_bound(broker)
        assert "10 messages" in _described(broker)
        connection.close()
        broker.kill()
