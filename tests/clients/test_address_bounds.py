"""The bound of an address on a real broker, over both protocols: set late, and closed at the maximum as in Artemis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from penstock import sync
from penstock.sync import connect
from tests.support.brokers import PATIENCE, BrokerProcess, eventually, penstock_command, serving

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


def test_address_that_stops_below_its_capacity_tells_and_releases_a_publisher_whose_message_does_not_fit(
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


def test_bound_that_is_set_late_counts_what_was_recovered(tmp_path: Path) -> None:
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
        done = penstock_command("set", "address", "amq.fanout", "max-size-messages=8", "--url", broker.url)
        assert done.returncode == 0, done.stderr
        assert reason_of_block(broker).startswith("address amq.fanout: 10 messages")
    with serving(tmp_path, "--data", folder) as broker:
        assert reason_of_block(broker).startswith("address amq.fanout: 10 messages")


def test_topic_of_a_topic_exchange_has_a_bound_of_its_own(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    with serving(tmp_path, "--data", folder) as broker:
        words = ("amq.topic/prices.#", "max-size-bytes=100000", "max-size-messages=8")
        done = penstock_command("set", "address", *words, "--url", broker.url)
        assert "amq.topic/prices.# matches amq.topic" in done.stdout.replace("'", ""), done.stdout + done.stderr
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        for queue in ("a", "b"):
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, "amq.topic", "#")
        for key in ("prices.eur", "news"):
            for _ in range(8):
                channel.basic_publish("amq.topic", key, BODY, pika.BasicProperties(delivery_mode=2))
        assert channel.basic_get("a")[0] is not None
        connection.close()
        shown = penstock_command("show", "address", "amq.topic/prices.eur", "--url", broker.url)
        assert "pattern 'amq.topic/prices.#'" in shown.stdout, shown.stderr
    with serving(tmp_path, "--data", folder) as broker:
        assert reason_of_block(broker, "amq.topic", "prices.eur").startswith("address amq.topic/prices.eur: 8 messages")
        with connect(broker.url, protocol="amqp091") as control:
            assert depth_of(control, "b") == 16


def test_sender_of_amqp_1_0_is_held_and_released_below_a_late_bound(
    publisher: pika.BlockingConnection, own_broker: BrokerProcess, control: sync.Connection
) -> None:
    proton = pytest.importorskip("proton")
    utils = pytest.importorskip("proton.utils")
    channel = publisher.channel()
    channel.queue_declare("a")
    channel.queue_bind("a", "amq.fanout")
    for _ in range(3):
        channel.basic_publish("amq.fanout", "", BODY)
    eventually(lambda: depth_of(control, "a") == 3, "they are there")
    # A message of AMQP 1.0 takes a little more than 1,000 bytes.
    control.set("address", "amq.fanout", {"capacity-bytes": 5500, "stop-bytes": 5499, "resume-bytes": 5499})
    sending = utils.BlockingConnection(own_broker.url, timeout=PATIENCE)
    sender = sending.create_sender("/exchanges/amq.fanout")
    for _ in range(2):
        sender.send(proton.Message(body=BODY))
    assert depth_of(control, "a") == 5
    sender.link.send(proton.Message(body=BODY))
    sending.wait(lambda: sender.link.queued == 0 or sender.link.credit == 0, msg="it is sent, or has no credit")
    assert depth_of(control, "a") == 5
    assert channel.basic_get("a", auto_ack=True)[0] is not None
    sending.wait(lambda: depth_of(control, "a") == 5, msg="the sixth has gone on")
    sending.close()
