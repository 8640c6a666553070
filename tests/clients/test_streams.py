"""Streams with real clients: pika over AMQP 0-9-1 and Proton over AMQP 1.0, also over a kill of the broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pika
import pytest

from penstock.sync import connect
from tests.support.brokers import PATIENCE, BrokerProcess, eventually
from tests.support.disk_brokers import kept

pytestmark = pytest.mark.clients
STREAM = {"x-queue-type": "stream"}


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[BrokerProcess]:
    with kept(tmp_path) as broker:
        yield broker


def opened(broker: BrokerProcess) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.url))


def append(broker: BrokerProcess, first: int, end: int) -> None:
    """Publish numbers to the stream, each confirmed."""
    connection = opened(broker)
    channel = connection.channel()
    channel.queue_declare("s", durable=True, arguments=STREAM)
    channel.confirm_delivery()
    for number in range(first, end):
        channel.basic_publish("", "s", str(number).encode(), pika.BasicProperties(headers={"n": number}))
    connection.close()


def read(broker: BrokerProcess, at: object, count: int) -> list[tuple[int, int]]:
    """Return offset and body of so many deliveries, acknowledged one by one with a prefetch of three."""
    connection = opened(broker)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=3)
    found: list[tuple[int, int]] = []
    for method, properties, body in channel.consume(
        "s", arguments={"x-stream-offset": at}, inactivity_timeout=PATIENCE
    ):
        assert method is not None, f"{len(found)} of {count} messages have come"
        assert properties.headers["n"] == int(body)
        found.append((int(properties.headers["x-stream-offset"]), int(body)))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    connection.close()
    return found


def numbered(first: int, end: int) -> list[tuple[int, int]]:
    return [(number, number) for number in range(first, end)]


def test_consumers_of_pika_read_a_stream_again_and_again(stored: BrokerProcess) -> None:
    append(stored, 0, 30)
    for _ in range(2):
        assert read(stored, "first", 30) == numbered(0, 30)
    assert read(stored, 12, 18) == numbered(12, 30)
    assert read(stored, "1h", 5) == numbered(0, 5)
    assert read(stored, datetime.now(UTC) - timedelta(hours=1), 5) == numbered(0, 5)


def test_stream_is_the_same_after_a_kill_and_goes_on(tmp_path: Path) -> None:
    with kept(tmp_path) as broker:
        append(broker, 0, 25)
        broker.process.kill()
        broker.process.wait(PATIENCE)
    with kept(tmp_path) as broker:
        assert read(broker, "first", 25) == numbered(0, 25)
        append(broker, 25, 40)
        assert read(broker, 20, 20) == numbered(20, 40)


def test_stream_is_imported_as_it_is(tmp_path: Path) -> None:
    with kept(tmp_path) as broker, connect(broker.url, protocol="amqp091") as control:
        arguments = {**STREAM, "x-max-age": "7D", "x-max-length-bytes": 1_000_000}
        queue = {"vhost": "/", "name": "s", "durable": True, "auto_delete": False, "arguments": arguments}
        policy = {"name": "young", "pattern": "^s$", "apply-to": "streams", "definition": {"max-age": "1h"}}
        text = json.dumps({"queues": [queue], "policies": [{"vhost": "/", **policy}]})
        control.import_definitions(text)
        (stream,) = [each for each in control.list("queues") if each["name"] == "s"]
        assert (stream["type"], stream["policy"]) == ("stream", "young")
        own = stream["penstock"]["stream"]
        assert (own["max_age_s"], own["max_length_bytes"]) == (3600.0, 1_000_000)
        connection = opened(broker)
        connection.channel().queue_declare("s", durable=True, arguments=arguments)
        connection.close()


def test_receivers_of_proton_read_a_stream_from_an_offset(stored: BrokerProcess) -> None:
    pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")
    import proton
    from proton.reactor import Filter
    from proton.utils import BlockingConnection

    append(stored, 0, 10)
    name = proton.symbol("rabbitmq:stream-offset-spec")

    def receiver(value: Any, link: str) -> Any:
        chosen = Filter({name: proton.Described(name, value)})
        return blocking.create_receiver("/queues/s", credit=10, name=link, options=chosen)

    blocking = BlockingConnection(stored.url.rstrip("/"), timeout=PATIENCE)
    for value, first in (("first", 0), (proton.ulong(6), 6), ("1h", 0)):
        link = receiver(value, f"from {value}")
        for number in range(first, 10):
            message = link.receive()
            assert int(message.annotations[proton.symbol("x-stream-offset")]) == number
            assert int(bytes(message.body)) == number
            link.accept()
        link.close()
    blocking.close()


def test_slow_consumer_of_a_stream_holds_no_publisher(stored: BrokerProcess) -> None:
    connection = opened(stored)
    channel = connection.channel()
    channel.queue_declare("s", durable=True, arguments={**STREAM, "x-max-length-bytes": 2_000_000})
    channel.basic_qos(prefetch_count=1)
    got: list[int] = []
    channel.basic_consume(
        "s",
        lambda _, method, properties, body: got.append(properties.headers["x-stream-offset"]),
        arguments={"x-stream-offset": "first"},
    )
    publisher = connection.channel()
    publisher.confirm_delivery()
    for _ in range(100):
        publisher.basic_publish("", "s", bytes(100_000))
    eventually(lambda: connection.process_data_events(0) or got == [0], "the first message")
    channel.basic_ack(0, multiple=True)
    eventually(lambda: connection.process_data_events(0) or len(got) == 2, "another message")
    assert got[1] > 50, "the consumer goes on at the oldest message"
    connection.close()
    assert "PST-1030" in stored.log()
