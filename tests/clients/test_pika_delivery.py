"""pika: consuming, acknowledging, giving back, confirming."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

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
        assert method.delivery_tag is not None
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


def test_get_takes_one_message_and_says_how_many_are_left(channel: BlockingChannel, queue: str) -> None:
    method, properties, body = channel.basic_get(queue)
    assert method is not None
    assert properties is not None
    assert (body, method.message_count, method.redelivered, method.exchange, method.routing_key) == (
        b"0",
        9,
        False,
        "",
        queue,
    )
    channel.basic_ack(method.delivery_tag)
    channel.queue_purge(queue)
    assert channel.basic_get(queue) == (None, None, None)


def test_all_properties_arrive_as_they_were_sent(channel: BlockingChannel, name: str) -> None:
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


def test_prefetch_is_for_consumers_to_come_and_a_global_one_for_the_channel(
    connection: pika.BlockingConnection, queue: str
) -> None:
    reading = connection.channel()
    reading.basic_qos(prefetch_count=2)
    first = Reader(reading, queue)
    assert first.wait_for(2) == [0, 1]
    second = Reader(reading, queue)
    eventually(lambda: connection.process_data_events(0) or second.got, "the second has its own window")
    assert second.wait_for(1) == [2], "the window that was set last, and that of the first is still its own"
    shared = connection.channel()
    shared.basic_qos(prefetch_count=3, global_qos=True)
    readers = [Reader(shared, queue), Reader(shared, queue)]
    eventually(lambda: connection.process_data_events(0) or sum(len(r.got) for r in readers) >= 3, "three for both")
    shared.basic_qos(prefetch_count=5, global_qos=True)
    eventually(lambda: connection.process_data_events(0) or sum(len(r.got) for r in readers) >= 5, "five for both")
    reading.basic_qos(prefetch_count=1)
    assert sorted(readers[0].numbers() + readers[1].numbers()) == [3, 4, 5, 6, 7]


def test_without_acknowledgements_everything_is_sent_at_once(connection: pika.BlockingConnection, queue: str) -> None:
    reading = connection.channel()
    reading.basic_qos(prefetch_count=1)
    reader = Reader(reading, queue, auto_ack=True)
    assert reader.wait_for(10) == list(range(10))
    assert reading.queue_delete(queue).method.message_count == 0


def test_consumers_of_one_queue_share_a_burst(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, exclusive=True)
    readers = [Reader(connection.channel(), name, auto_ack=True) for _ in range(2)]
    for number in range(20):
        channel.basic_publish("", name, str(number).encode())
    eventually(lambda: connection.process_data_events(0) or sum(len(r.got) for r in readers) == 20, "all of them")
    assert min(len(reader.got) for reader in readers) >= 6, "in a rotation, however the burst was cut into reads"


def test_what_is_given_back_comes_again_in_its_place(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    tags = []
    for _ in range(5):
        method, _, _ = channel.basic_get(queue)
        assert method is not None
        tags.append(method.delivery_tag)
    channel.basic_nack(tags[3], requeue=True)
    channel.basic_reject(tags[1], requeue=True)
    channel.basic_ack(tags[0])
    channel.basic_nack(tags[2], requeue=False)
    reader = Reader(connection.channel(), queue)
    assert reader.wait_for(7) == [1, 3, 5, 6, 7, 8, 9], "4 is still out, 0 and 2 are gone"
    assert [again for _, _, again in reader.got] == [True, True, False, False, False, False, False]


def test_channel_that_closes_gives_everything_back_in_order(connection: pika.BlockingConnection, queue: str) -> None:
    reading = connection.channel()
    reader = Reader(reading, queue)
    assert reader.wait_for(10) == list(range(10))
    reading.basic_ack(reader.got[4][0])
    reading.close()
    again = Reader(connection.channel(), queue)
    assert again.wait_for(9) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert all(redelivered for _, _, redelivered in again.got)


def test_nack_of_many_and_recover_bring_everything_again(connection: pika.BlockingConnection, queue: str) -> None:
    reading = connection.channel()
    reading.basic_qos(prefetch_count=4)
    reader = Reader(reading, queue)
    assert reader.wait_for(4) == [0, 1, 2, 3]
    reading.basic_nack(reader.got[2][0], multiple=True, requeue=True)
    assert reader.wait_for(7) == [0, 1, 2, 3, 0, 1, 2]
    reading.basic_recover(requeue=True)
    assert reader.wait_for(11) == [0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3]


@pytest.mark.parametrize("tag", [3, 11, 1 << 40])
def test_delivery_that_is_not_out_cannot_be_acknowledged(channel: BlockingChannel, queue: str, tag: int) -> None:
    for _ in range(5):
        channel.basic_get(queue)
    if tag == 3:
        channel.basic_ack(3)
    channel.basic_ack(tag)
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.basic_qos(0)
    assert (closed.value.reply_code, f"unknown delivery tag {tag}" in closed.value.reply_text) == (406, True)


def test_acknowledgement_of_all_takes_all(channel: BlockingChannel, queue: str) -> None:
    for _ in range(10):
        channel.basic_get(queue)
    channel.basic_ack(0, multiple=True)
    channel.basic_recover(requeue=True)
    assert channel.queue_declare(queue, passive=True).method.message_count == 0


def test_consumer_whose_queue_is_deleted_is_told(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name)
    reading = connection.channel()
    reader = Reader(reading, name)
    told: list[str] = []
    reading.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
    channel.queue_delete(name)
    eventually(lambda: connection.process_data_events(0) or told, "the cancel")
    assert told == [reader.tag]
    reading.basic_qos(prefetch_count=1)


def test_exclusive_consumer_shares_with_nobody(connection: pika.BlockingConnection, queue: str) -> None:
    reading = connection.channel()
    reading.basic_consume(queue, print, exclusive=True)
    other = connection.channel()
    with pytest.raises(ChannelClosedByBroker) as closed:
        other.basic_consume(queue, print)
    assert (closed.value.reply_code, "in exclusive use" in closed.value.reply_text) == (403, True)
    reading.close()
    assert connection.channel().basic_consume(queue, print)


def test_consumer_tag_that_is_taken_closes_the_connection_with_530(broker: BrokerProcess, queue: str) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    ready = channel._impl
    channel.basic_consume(queue, lambda *_: None, consumer_tag="t")
    del ready._consumers["t"]  # pika itself would refuse.
    channel._consumer_infos.pop("t")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        channel.basic_consume(queue, lambda *_: None, consumer_tag="t")
    assert (closed.value.reply_code, "reuse consumer tag 't'" in closed.value.reply_text) == (530, True)


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


@pytest.mark.parametrize("auto_ack", [True, False])
def test_what_was_published_before_a_cancel_is_the_cancelled_consumers(
    connection: pika.BlockingConnection, name: str, auto_ack: bool
) -> None:
    channel, looking = connection.channel(), connection.channel()
    channel.queue_declare(name, exclusive=True)
    reader = Reader(channel, name, auto_ack=auto_ack)
    for number in range(5):
        channel.basic_publish("", name, str(number).encode())
    channel.basic_cancel(reader.tag)  # pika gives back what comes then and must be acknowledged, and drops the others.
    left = looking.queue_declare(name, passive=True).method.message_count
    assert left == (0 if auto_ack else 5)
    if not auto_ack:
        method, _, _ = looking.basic_get(name)
        assert method is not None
        assert method.redelivered


def test_get_on_the_channel_of_a_consumer_finds_nothing_of_its(connection: pika.BlockingConnection, name: str) -> None:
    channel = connection.channel()
    channel.queue_declare(name, exclusive=True)
    reader = Reader(channel, name)
    for number in range(5):
        channel.basic_publish("", name, str(number).encode())
        assert channel.basic_get(name) == (None, None, None)
    assert reader.wait_for(5) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("globally", [True, False])
def test_one_channel_with_a_prefetch_of_one_reads_from_three_full_queues(
    connection: pika.BlockingConnection, name: str, globally: bool
) -> None:
    channel = connection.channel()
    queues = [f"{name}-{number}" for number in range(3)]
    for queue in queues:
        channel.queue_declare(queue, exclusive=True)
        for _ in range(30):
            channel.basic_publish("", queue, b"x")
    channel.basic_qos(prefetch_count=1, global_qos=globally)
    seen: list[str] = []

    def take(channel: BlockingChannel, method: pika.spec.Basic.Deliver, _: object, body: bytes) -> None:
        assert method.delivery_tag is not None
        seen.append(method.routing_key or "")
        channel.basic_ack(method.delivery_tag)

    for queue in queues:
        channel.basic_consume(queue, take)
    eventually(lambda: connection.process_data_events(0) or len(seen) >= 45, "half of them came")
    counts = [seen[:45].count(queue) for queue in queues]
    assert min(counts) >= 10, f"of 45 deliveries {counts}"
