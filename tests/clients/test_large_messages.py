"""Large messages with pika and Qpid Proton: in pieces, within a protocol and between both, beside small ones."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import PATIENCE, BrokerProcess, some_name
from tests.support.pika_helpers import Taker, depth, take

pytestmark = pytest.mark.clients

MIB = 1024 * 1024
EXPIRES = {"x-expires": 600_000}
CAPACITY = {**EXPIRES, "capacity-bytes": 256 * MIB}


def octets(size: int, seed: int = 1) -> bytes:
    """Return octets of which no piece equals another."""
    return random.Random(seed).randbytes(size)


def digest(body: bytes | memoryview) -> str:
    return hashlib.sha256(body).hexdigest()


@pytest.fixture
def queue(channel: BlockingChannel, name: str) -> str:
    channel.queue_declare(name, durable=True, arguments=CAPACITY)
    channel.confirm_delivery()
    return name


@pytest.mark.parametrize("size", [MIB - 1, MIB, 5 * MIB + 12_345, 40 * MIB])
@pytest.mark.parametrize("mode", [1, 2])
def test_body_of_any_size_is_the_same_behind_the_broker(
    channel: BlockingChannel, queue: str, size: int, mode: int
) -> None:
    body = octets(size)
    channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=mode, message_id="7"))
    properties, _, got = take(channel, queue)
    assert digest(got) == digest(body)
    assert (properties.message_id, properties.delivery_mode) == ("7", mode)


def test_consumer_gets_large_and_small_messages_in_order(channel: BlockingChannel, queue: str) -> None:
    bodies = [octets(size, number) for number, size in enumerate((10, 3 * MIB, 20, 2 * MIB, MIB + 1, 30))]
    for body in bodies:
        channel.basic_publish("", queue, body)
    channel.basic_qos(prefetch_count=2)
    taker = Taker(channel, queue)
    for count in range(1, len(bodies) + 1):
        taker.wait_for(count)
        channel.basic_ack(taker.tags[count - 1])
    assert [digest(body) for body in taker.bodies] == [digest(body) for body in bodies]
    assert taker.tags == [1, 2, 3, 4, 5, 6]


def test_rejected_large_message_is_dead_lettered_with_its_body(channel: BlockingChannel, queue: str) -> None:
    dying = some_name("q")
    arguments = {**CAPACITY, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.queue_declare(dying, arguments=arguments)
    body = octets(3 * MIB)
    channel.basic_publish("", dying, body, pika.BasicProperties(headers={"color": "red"}))
    _, method, _ = take(channel, dying, auto_ack=False)
    channel.basic_reject(method.delivery_tag, requeue=False)
    properties, _, got = take(channel, queue)
    assert digest(got) == digest(body)
    assert properties.headers["color"] == "red"
    assert properties.headers["x-death"][0]["reason"] == "rejected"


def test_large_messages_of_a_transaction(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments=CAPACITY)
    sender = connection.channel()
    sender.tx_select()
    sender.basic_publish("", name, octets(2 * MIB))
    sender.tx_rollback()
    sender.basic_publish("", name, octets(3 * MIB, 2))
    assert depth(channel, name) == 0
    sender.tx_commit()
    assert depth(channel, name) == 1
    assert digest(take(channel, name)[2]) == digest(octets(3 * MIB, 2))


# Qpid Proton


@pytest.fixture
def blocking(broker: BrokerProcess) -> Iterator[Any]:
    utils = pytest.importorskip("proton.utils", reason="python-qpid-proton is not installed: there was no C compiler")
    found = utils.BlockingConnection(broker.url.rstrip("/"), timeout=PATIENCE)
    yield found
    found.close()


def send(blocking: Any, queue: str, body: object, **options: Any) -> None:
    from proton import Message

    sender = blocking.create_sender(f"/queues/{queue}")
    sender.send(Message(body=body, **options))
    sender.close()


def receive(blocking: Any, queue: str, count: int = 1) -> list[Any]:
    receiver = blocking.create_receiver(f"/queues/{queue}", credit=1, name=some_name("link"))
    found = []
    for _ in range(count):
        message = receiver.receive()
        if isinstance(message.body, memoryview):
            message.body = bytes(message.body)
        found.append(message)
        receiver.accept()
    receiver.close()
    return found


@pytest.mark.parametrize("size", [MIB - 1, MIB + 1, 20 * MIB])
@pytest.mark.parametrize("inferred", [True, False])
def test_proton_sends_and_receives_large_messages(blocking: Any, queue: str, size: int, inferred: bool) -> None:
    body = octets(size)
    send(blocking, queue, body, inferred=inferred, properties={"color": "red"}, id="7", durable=True)
    (message,) = receive(blocking, queue)
    assert digest(message.body) == digest(body)
    assert (message.properties, message.id, message.durable) == ({"color": "red"}, "7", True)


def test_proton_sends_and_receives_large_texts(blocking: Any, channel: BlockingChannel, queue: str) -> None:
    text = "größe " * 400_000
    send(blocking, queue, text)
    send(blocking, queue, text)
    assert receive(blocking, queue)[0].body == text
    properties, _, got = take(channel, queue)
    assert properties.type == "amqp-1.0"
    assert got == b"\x00\x53\x77\xb1" + len(text.encode()).to_bytes(4, "big") + text.encode()


def test_large_message_crosses_from_pika_to_proton(blocking: Any, channel: BlockingChannel, queue: str) -> None:
    body = octets(7 * MIB)
    channel.basic_publish("", queue, body, pika.BasicProperties(message_id="7", headers={"color": "red"}))
    (message,) = receive(blocking, queue)
    assert digest(message.body) == digest(body)
    assert (message.id, message.properties) == ("7", {"color": "red"})


def test_large_message_crosses_from_proton_to_pika(blocking: Any, channel: BlockingChannel, queue: str) -> None:
    body = octets(7 * MIB)
    send(blocking, queue, body, id="7", properties={"color": "red"}, inferred=True)  # As data, not as a value.
    properties, _, got = take(channel, queue)
    assert digest(got) == digest(body)
    assert (properties.message_id, properties.headers) == ("7", {"color": "red"})
