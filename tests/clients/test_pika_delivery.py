"""pika: consuming, acknowledging, requeueing, confirming."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess, eventually

pytestmark = pytest.mark.clients

MIB = 1024 * 1024


@pytest.fixture
def queue(channel: BlockingChannel, name: str) -> Iterator[str]:
    """A queue with ten messages, 0 to 9."""
    channel.queue_declare(name)
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("", name, str(number).encode())
    yield name
    if channel.connection.is_open:
        channel.connection.channel().queue_delete(name)


class Reader:
    """A consumer that writes down what it gets."""

    def __init__(self, channel: BlockingChannel, queue: str, **how: object) -> None:
        self.channel = channel
        self.got: deque[tuple[int, int, bool]] = deque()
        self.tag = channel.basic_consume(queue, self._take, **how)

    def _take(self, channel: BlockingChannel, method: pika.spec.Basic.Deliver, _: object, body: bytes) -> None:
        self.got.append((method.delivery_tag, int(body), bool(method.redelivered)))

    def numbers(self) -> list[int]:
        return [number for _, number, _ in self.got]

    def wait_for(self, count: int) -> list[int]:
        """Let the connection work until so many messages have come; what comes beyond is an error."""
        connection = self.channel.connection
        eventually(lambda: connection.process_data_events(0) or len(self.got) >= count, f"{count} messages")
        self.channel.basic_qos(prefetch_count=1, global_qos=False)  # Whatever was under way has come with the answer.
        connection.process_data_events(0)
        assert len(self.got) == count
        return self.numbers()


def test_message_properties_arrive_unchanged(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={
            "text": "ä",
            "number": 5,
            "big": 1 << 40,
            "yes": True,
            "none": None,
            "list": [1, "b"],
            "table": {"a": {}},
        },
        delivery_mode=2,
        priority=7,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1234567890,
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="k",
    )
    channel.basic_publish("", name, "Grüße".encode(), sent)
    _, received, body = channel.basic_get(name, auto_ack=True)
    assert body == "Grüße".encode()
    assert received == sent


@pytest.mark.parametrize("window", [1, 3, 7])
def test_prefetch_of_a_consumer_is_its_window(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str, window: int
) -> None:
    reading = connection.channel()
    reading.basic_qos(prefetch_count=window)
    reader = Reader(reading, queue)
    assert reader.wait_for(window) == list(range(window))
    reading.basic_ack(reader.got[-1][0], multiple=True)
    most = min(2 * window, 10)
    assert reader.wait_for(most) == list(range(most))
    assert channel.queue_declare(queue, passive=True).method.message_count == 10 - most


def test_nack_of_many_and_recover_bring_everything_again(connection: pika.BlockingConnection, queue: str) -> None:
    reading = connection.channel()
    reading.basic_qos(prefetch_count=4)
    reader = Reader(reading, queue)
    assert reader.wait_for(4) == [0, 1, 2, 3]
    reading.basic_nack(reader.got[2][0], multiple=True, requeue=True)
    assert reader.wait_for(7) == [0, 1, 2, 3, 0, 1, 2]
    reading.basic_recover(requeue=True)
    assert reader.wait_for(11) == [0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3]


def test_deliveries_stop_and_go_on_as_the_client_says(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, exclusive=True)
    reading = connection.channel()
    reader = Reader(reading, name, auto_ack=True)
    assert reading.flow(False) is False
    for number in range(5):
        channel.basic_publish("", name, str(number).encode())
    assert channel.queue_declare(name, passive=True).method.message_count == 5
    connection.process_data_events(0)
    assert reader.numbers() == []
    assert reading.flow(True) is True
    assert reader.wait_for(5) == list(range(5))


@pytest.mark.parametrize(("sends", "reads"), [(131072, 4096), (4096, 131072), (4096, 5000), (131072, 131072)])
def test_large_message_passes_between_clients_with_any_frame_max(
    broker: BrokerProcess, name: str, sends: int, reads: int
) -> None:
    def connect(frame_max: int) -> pika.BlockingConnection:
        parameters = pika.URLParameters(broker.url)
        parameters.frame_max = frame_max
        return pika.BlockingConnection(parameters)

    body = bytes(range(256)) * (5 * MIB // 256) + b"and some more"
    with connect(sends) as sender, connect(reads) as reader:
        sending = sender.channel()
        sending.queue_declare(name, auto_delete=True)
        sending.confirm_delivery()
        for each in (body, b"", b"x", body[: sends - 8], body[: sends - 7]):
            sending.basic_publish("", name, each, pika.BasicProperties(headers={"size": len(each)}))
        reading = reader.channel()
        for method, properties, received in reading.consume(name):
            assert len(received) == properties.headers["size"]
            assert received == body[: len(received)] or received == b"x"
            reading.basic_ack(method.delivery_tag)
            if method.delivery_tag == 5:
                break
        reading.cancel()
