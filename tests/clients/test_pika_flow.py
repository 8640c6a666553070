"""pika under flow control: its notices and waits, without loss."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionBlockedTimeout, NackError

from penstock.sync import connect
from tests.support.brokers import PATIENCE, BrokerProcess, eventually, in_background

pytestmark = pytest.mark.clients

GATED = {"capacity-messages": 5, "stop-messages": 3, "resume-messages": 1}


@pytest.fixture
def publisher(broker: BrokerProcess) -> Iterator[pika.BlockingConnection]:
    """A second connection, which is going to be blocked."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    yield connection
    if connection.is_open:
        connection.close()


def take(channel: BlockingChannel, queue: str, count: int) -> list[int]:
    """Get and acknowledge so many messages, waiting for each."""
    found = []
    for _ in range(count):
        method, _, body = eventually(lambda: (got := channel.basic_get(queue))[0] and got, "a message")
        channel.basic_ack(method.delivery_tag)
        found.append(int(body))
    return found


def test_block_is_seen_with_a_reason_that_names_the_queue_and_so_is_its_end(
    channel: BlockingChannel, publisher: pika.BlockingConnection, name: str
) -> None:
    blocked: list[str] = []
    unblocked: list[object] = []
    publisher.add_on_connection_blocked_callback(lambda _, frame: blocked.append(frame.method.reason))
    publisher.add_on_connection_unblocked_callback(lambda _, frame: unblocked.append(frame.method))
    channel.queue_declare(name, exclusive=True, arguments=GATED)
    publishing = publisher.channel()
    for number in range(3):
        publishing.basic_publish("", name, str(number).encode())
    publishing.basic_qos(0)
    assert blocked == []
    publishing.basic_publish("", name, b"3")
    eventually(lambda: publisher.process_data_events(0) or blocked, "connection.blocked")
    (told,) = blocked
    reason = rf"queue {name}: 4 messages > stop 3 \(opens at 1\)(, closed for .* s)?; refused after 25 s"
    assert re.fullmatch(reason, told)
    publishing.basic_publish("", name, b"4")
    publishing.basic_publish("", name, b"5")
    assert take(channel, name, 2) == [0, 1]
    publishing.basic_qos(0)
    assert (len(blocked), unblocked) == (1, []), "told once; between stop and resume nothing changes"
    assert take(channel, name, 4) == [2, 3, 4, 5]
    eventually(lambda: publisher.process_data_events(0) or unblocked, "connection.unblocked")
    assert (len(blocked), len(unblocked)) == (1, 1)


def test_blocked_connection_timeout_ends_the_connection_as_pika_documents(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, exclusive=True, arguments=GATED)
    parameters = pika.URLParameters(broker.url)
    parameters.blocked_connection_timeout = 1
    connection = pika.BlockingConnection(parameters)
    publishing = connection.channel()

    def publish() -> None:
        for number in range(6):
            publishing.basic_publish("", name, str(number).encode())
        connection.process_data_events(PATIENCE)

    start = time.monotonic()
    with pytest.raises(ConnectionBlockedTimeout):
        publish()
    assert time.monotonic() - start >= 0.9
    assert connection.is_closed
    assert take(channel, name, 5) == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_held_publish_is_refused_at_the_deadline_and_is_not_in_the_queue(
    channel: BlockingChannel, publisher: pika.BlockingConnection, name: str
) -> None:
    channel.queue_declare(name, exclusive=True, arguments={"capacity-messages": 1, "hold-deadline": 1})
    publishing = publisher.channel()
    publishing.confirm_delivery()
    publishing.basic_publish("", name, b"0")
    start = time.monotonic()
    with pytest.raises(NackError):
        publishing.basic_publish("", name, b"1")
    assert time.monotonic() - start >= 0.9
    assert take(channel, name, 1) == [0]
    publishing.basic_publish("", name, b"2")
    assert take(channel, name, 1) == [2], "the channel goes on"


def test_held_publish_goes_on_when_the_gate_opens_and_order_is_kept(
    channel: BlockingChannel, publisher: pika.BlockingConnection, name: str
) -> None:
    channel.queue_declare(name, exclusive=True, arguments=GATED)
    publishing = publisher.channel()
    publishing.confirm_delivery()

    def publish() -> None:
        for number in range(60):
            publishing.basic_publish("", name, str(number).encode())

    with in_background(publish):
        assert take(channel, name, 60) == list(range(60))


def test_publishes_without_confirms_are_held_and_none_is_lost(
    broker: BrokerProcess, channel: BlockingChannel, publisher: pika.BlockingConnection, name: str
) -> None:
    channel.queue_declare(name, exclusive=False, auto_delete=True, arguments=GATED)
    publishing = publisher.channel()
    for number in range(2000):
        publishing.basic_publish("", name, str(number).encode())
    eventually(lambda: broker.depth(name) == 5, "it is at its capacity")
    assert take(channel, name, 2000) == list(range(2000))
    assert broker.queue(name)["highest"]["messages"] == 5
    publishing.close()
    channel.queue_delete(name)


def test_channel_without_confirms_is_closed_with_506_at_the_hold_deadline(
    broker: BrokerProcess, channel: BlockingChannel, publisher: pika.BlockingConnection, name: str
) -> None:
    channel.queue_declare(name, exclusive=True, arguments=GATED)
    publishing, beside = publisher.channel(), publisher.channel()
    closed: list[ChannelClosedByBroker] = []
    publishing._impl.add_on_close_callback(lambda _, reason: closed.append(reason))
    with connect(broker.url, protocol="amqp091") as control:
        control.set("queue", name, {"hold-deadline": 0})
        for number in range(20):
            publishing.basic_publish("", name, str(number).encode())
        publishing.basic_qos(0)  # Behind the last of them.
        control.set("queue", name, {"hold-deadline": 1})  # For what waits already, too.
        eventually(lambda: publisher.process_data_events(0) or closed, "the end of the channel")
        control.unset("queue", name)
    assert closed[0].reply_code == 506
    assert closed[0].reply_text.startswith("RESOURCE_ERROR - 15 publishes are lost: publish to exchange ''")
    assert f"with routing key '{name}' refused after its hold deadline" in closed[0].reply_text
    assert f"queue '{name}' holds 5 messages" in closed[0].reply_text
    beside.basic_qos(prefetch_count=1)
    assert take(channel, name, 5) == [0, 1, 2, 3, 4]
    assert channel.basic_get(name)[0] is None


@pytest.mark.slow
def test_publishes_without_confirms_are_not_lost_while_the_queue_moves(
    broker: BrokerProcess, channel: BlockingChannel, publisher: pika.BlockingConnection, name: str
) -> None:
    """The last message waits for ten deadlines behind those that were sent before it."""
    channel.queue_declare(name, auto_delete=True, arguments={"capacity-messages": 20, "hold-deadline": 1})
    publishing = publisher.channel()
    for number in range(1000):
        publishing.basic_publish("", name, str(number).encode())
    channel.basic_qos(prefetch_count=5)
    received: list[int] = []
    for method, _, body in channel.consume(name, arguments={"consumer-max-rate": 100}):
        received.append(int(body))
        channel.basic_ack(method.delivery_tag)
        publisher.process_data_events(0)
        if len(received) == 1000:
            break
    channel.cancel()
    assert received == list(range(1000))
    assert publishing.is_open


@pytest.mark.parametrize("count", [10, 40], ids=["within-the-hold-bound", "with-reading-paused"])
def test_blocked_connection_still_drains_the_blocking_queue(
    channel: BlockingChannel, publisher: pika.BlockingConnection, name: str, count: int
) -> None:
    channel.queue_declare(name, exclusive=False, auto_delete=True, arguments={"capacity-bytes": 200_000})
    publishing = publisher.channel()
    for number in range(count):
        publishing.basic_publish("", name, str(number).encode().ljust(40_000))
    consuming = publisher.channel()
    got: list[int] = []

    def receive(reading: BlockingChannel, method: pika.spec.Basic.Deliver, _: object, body: bytes) -> None:
        got.append(int(body))
        reading.basic_ack(method.delivery_tag)

    consuming.basic_qos(prefetch_count=1)
    consuming.basic_consume(name, receive)
    eventually(lambda: publisher.process_data_events(0) or len(got) == count, "all of them")
    assert got == list(range(count))
