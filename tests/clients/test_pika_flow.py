"""pika under flow control: what it is told, what it waits for, and that nothing is lost."""

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
    reason = rf"queue {name}: 4 messages > stop 3 \(opens at 1\)(, closed for .* s)?; what is held for 30 s is refused"
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


def test_withheld_confirm_is_given_at_the_deadline_for_the_message_is_in_the_queue(
    channel: BlockingChannel, publisher: pika.BlockingConnection, name: str
) -> None:
    channel.queue_declare(name, exclusive=True, arguments=GATED | {"hold-deadline": 1})
    publishing = publisher.channel()
    publishing.confirm_delivery()
    for number in range(3):
        publishing.basic_publish("", name, str(number).encode())
    start = time.monotonic()
    publishing.basic_publish("", name, b"3")
    assert time.monotonic() - start >= 0.9
    assert take(channel, name, 4) == [0, 1, 2, 3]


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


def test_without_confirms_publishes_are_held_too_and_none_is_lost(
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


def test_without_confirms_the_channel_is_closed_with_506_at_the_deadline_and_what_was_accepted_is_there(
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
    assert f"with routing key '{name}' refused after its hold deadline" in closed[0].reply_text
    assert f"queue '{name}' holds 5 messages" in closed[0].reply_text
    beside.basic_qos(prefetch_count=1)
    assert take(channel, name, 5) == [0, 1, 2, 3, 4]
    assert channel.basic_get(name)[0] is None


def test_goodbye_while_publishes_are_held_loses_none_of_them(
    channel: BlockingChannel, publisher: pika.BlockingConnection, name: str
) -> None:
    channel.queue_declare(name, exclusive=False, auto_delete=True, arguments=GATED)
    publishing = publisher.channel()
    for number in range(50):
        publishing.basic_publish("", name, str(number).encode())
    publisher.close()
    assert take(channel, name, 50) == list(range(50))
    channel.queue_delete(name)


def test_acknowledgements_on_the_connection_of_a_held_publish_are_processed(
    channel: BlockingChannel, publisher: pika.BlockingConnection, name: str
) -> None:
    channel.queue_declare(name, exclusive=False, auto_delete=True, arguments=GATED)
    publishing, consuming = publisher.channel(), publisher.channel()
    other = consuming.queue_declare("", exclusive=True).method.queue
    for number in range(20):
        publishing.basic_publish("", name, str(number).encode())
        publishing.basic_publish("", other, str(number).encode())
    got: list[int] = []

    def receive(reading: BlockingChannel, method: pika.spec.Basic.Deliver, _: object, body: bytes) -> None:
        got.append(int(body))
        reading.basic_ack(method.delivery_tag)

    consuming.basic_qos(prefetch_count=1)
    consuming.basic_consume(other, receive)
    more = channel.connection.channel()
    assert take(channel, name, 3) == [0, 1, 2]
    eventually(lambda: publisher.process_data_events(0) or got, "the first that is not behind a held one")
    assert take(more, name, 17) == list(range(3, 20))
    eventually(lambda: publisher.process_data_events(0) or len(got) == 20, "each after the one before")
    assert got == list(range(20))
    channel.queue_delete(name)


@pytest.mark.parametrize("count", [10, 40], ids=["within-the-hold-bound", "with-reading-paused"])
def test_connection_that_consumes_from_the_queue_that_blocks_it_drains_it(
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


def test_every_crossing_is_logged_once_in_the_words_of_broker_j(
    broker: BrokerProcess, channel: BlockingChannel, publisher: pika.BlockingConnection, name: str
) -> None:
    channel.queue_declare(name, exclusive=False, auto_delete=True, arguments=GATED)
    publishing = publisher.channel()
    for crossing in range(3):
        for number in range(6):
            publishing.basic_publish("", name, str(number).encode())
        assert take(channel, name, 6) == list(range(6))
        eventually(lambda crossing=crossing: len(broker.logged(f"qu({name})] QUE-1004")) > crossing, "the gate opens")
    queue_lines = broker.logged(f"[vh(/)/qu({name})]")
    closing = r"QUE-1003 : Overfull : Size : [\d,]+ bytes, Capacity : -1, Messages : 4, Message Capacity : 3"
    opening = r"QUE-1004 : Underfull : Size : [\d,]+ bytes, Resume Capacity : -1, Messages : 1, Message Capacity : 1"
    assert len(queue_lines) == 6
    assert all(re.search(pattern, line) for line, pattern in zip(queue_lines, [closing, opening] * 3, strict=True))
    enforced = broker.logged(f"CHN-1005 : Flow Control Enforced (Queue {name})")
    assert 1 <= len(enforced) <= 3, "brief ones that come many times a second are summed"
    who = re.search(r"\[(con:\d+\(guest@127\.0\.0\.1:\d+/\)/ch:\d+)\] CHN-1005", enforced[0])
    removed = f"[{who[1]}] CHN-1006 : Flow Control Removed"
    eventually(lambda: len(broker.logged(removed)) == len(enforced), "each was removed")
    channel.queue_delete(name)


def test_why_names_the_producer_the_depth_the_thresholds_and_since_when(
    broker: BrokerProcess, channel: BlockingChannel, publisher: pika.BlockingConnection, name: str
) -> None:
    channel.queue_declare(name, exclusive=False, auto_delete=True, arguments=GATED)
    assert broker.why(name) == f"queue {name}: the gate is open; 0 messages, 0 bytes; nobody is blocked by it\n"
    publishing = publisher.channel()
    for number in range(7):
        publishing.basic_publish("", name, str(number).encode())
    publishing.basic_qos(0)
    said = eventually(lambda: "closed for" in (said := broker.why(name)) and said, "the closed gate has an age")
    first, second = said.splitlines()
    port = publisher._impl._transport._sock.getsockname()[1]
    assert re.fullmatch(
        rf"con:\d+\(guest@127\.0\.0\.1:{port}/\)/ch:1 is blocked \d+\.\d s by queue {name}: "
        r"5 messages > stop 3 \(opens at 1\), closed for \d+\.\d s; 2 publishes are held \(486 bytes\)",
        first,
    )
    assert second == f"queue {name} has no consumer"
    channel.basic_qos(prefetch_count=2)
    channel.basic_consume(name, lambda *_: None, consumer_tag="slow")
    second = eventually(lambda: "out of credit" in (said := broker.why(name)) and said, "deliveries").splitlines()[1]
    assert second == f"queue {name} waits for consumer slow (out of credit: 2 unacknowledged of a prefetch of 2)"
    channel.connection.channel().queue_delete(name)


def test_queue_that_is_deleted_answers_who_waits_for_it(
    broker: BrokerProcess, channel: BlockingChannel, publisher: pika.BlockingConnection, name: str
) -> None:
    channel.queue_declare(name, arguments={"capacity-messages": 1, "hold-deadline": 0})
    channel.basic_publish("", name, b"0")
    publishing = publisher.channel()
    publishing.confirm_delivery()
    refused: list[bool] = []

    def publish() -> None:
        try:
            publishing.basic_publish("", name, b"1")
        except NackError:
            refused.append(True)

    with in_background(publish):
        eventually(lambda: broker.queue(name)["gate"]["waiting"] == 1, "it waits")
        channel.queue_delete(name)
    assert refused == [True]


def test_publisher_that_dies_while_it_is_held_leaves_no_trace_after_its_deadline(
    broker: BrokerProcess, channel: BlockingChannel, publisher: pika.BlockingConnection, name: str
) -> None:
    channel.queue_declare(name, exclusive=False, auto_delete=True, arguments=GATED)
    publishing = publisher.channel()
    with connect(broker.url, protocol="amqp091") as control:
        control.set("queue", name, {"hold-deadline": 0})
        for number in range(20):
            publishing.basic_publish("", name, str(number).encode())
        eventually(lambda: broker.queue(name)["blocked"], "it is blocked")
        publisher._impl._transport._sock.shutdown(2)
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            publisher.process_data_events(PATIENCE)
        control.set("queue", name, {"hold-deadline": 1})  # For what waits already, too.
        view = eventually(lambda: not (view := broker.queue(name))["blocked"] and view, "it is forgotten")
        control.unset("queue", name)
    assert view["gate"]["waiting"] == 0
    assert take(channel, name, 5) == [0, 1, 2, 3, 4]
    assert channel.basic_get(name)[0] is None
    channel.queue_delete(name)
