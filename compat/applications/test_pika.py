"""pika: what a blocking application relies on, and the callbacks of one that is driven by events."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionWrongStateError, NackError, UnroutableError

from tests.support.brokers import eventually

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def connection(url: str) -> Iterator[pika.BlockingConnection]:
    connection = pika.BlockingConnection(pika.URLParameters(url))
    yield connection
    if connection.is_open:
        connection.close()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    return connection.channel()


def take(channel: BlockingChannel, queue: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    for method, _, body in channel.consume(queue, auto_ack=False, inactivity_timeout=10):
        assert method is not None, f"only {found} came"
        channel.basic_ack(method.delivery_tag)
        found.append(body)
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_work_queue(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True)
    channel.basic_qos(prefetch_count=1)
    channel.confirm_delivery()
    for number in range(100):
        channel.basic_publish("", name, str(number).encode(), PERSISTENT)
    assert take(channel, name, 100) == [str(number).encode() for number in range(100)]
    channel.queue_delete(name)


def test_publish_and_subscribe(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "fanout", auto_delete=True)
    queues = [channel.queue_declare("", exclusive=True).method.queue for _ in range(3)]
    for queue in queues:
        channel.queue_bind(queue, name)
    channel.basic_publish(name, "", b"to all")
    assert [take(channel, queue, 1) for queue in queues] == [[b"to all"]] * 3


def test_topics(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(name, "topic", auto_delete=True)
    queue = channel.queue_declare("", exclusive=True).method.queue
    for key in ("*.orange.*", "lazy.#"):
        channel.queue_bind(queue, name, key)
    keys = [
        "quick.orange.rabbit",
        "lazy.orange.elephant",
        "quick.brown.fox",
        "lazy",
        "orange",
        "lazy.a.b.c",
        "a.orange.b.c",
    ]
    for key in keys:
        channel.basic_publish(name, key, key.encode())
    assert take(channel, queue, 4) == [keys[0].encode(), keys[1].encode(), b"lazy", b"lazy.a.b.c"]
    assert channel.basic_get(queue)[0] is None


def test_rpc_by_a_callback_queue(connection: pika.BlockingConnection, url: str, name: str) -> None:
    channel = connection.channel()
    channel.queue_declare(name, exclusive=True)

    def serve(ch: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        answer = pika.BasicProperties(correlation_id=properties.correlation_id)
        ch.basic_publish("", properties.reply_to, body.upper(), answer)
        ch.basic_ack(method.delivery_tag)

    channel.basic_consume(name, serve)
    answers = channel.queue_declare("", exclusive=True).method.queue
    seen: list[tuple[str | None, bytes]] = []
    channel.basic_consume(
        answers, lambda ch, method, properties, body: seen.append((properties.correlation_id, body)), True
    )
    channel.basic_publish("", name, b"shout", pika.BasicProperties(reply_to=answers, correlation_id="7"))
    eventually(lambda: connection.process_data_events(0) or seen, "an answer")
    assert seen == [("7", b"SHOUT")]


def test_direct_reply_to(connection: pika.BlockingConnection, name: str) -> None:
    serving, asking = connection.channel(), connection.channel()
    serving.queue_declare(name, exclusive=True)

    def serve(ch: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        assert properties.reply_to.startswith("amq.rabbitmq.reply-to.")
        ch.basic_publish("", properties.reply_to, body.upper())

    serving.basic_consume(name, serve, auto_ack=True)
    seen: list[bytes] = []
    asking.basic_consume("amq.rabbitmq.reply-to", lambda ch, method, properties, body: seen.append(body), auto_ack=True)
    asking.basic_publish("", name, b"shout", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    eventually(lambda: connection.process_data_events(0) or seen, "an answer")
    assert seen == [b"SHOUT"]


def test_unroutable_and_refused_publishes_are_errors(channel: BlockingChannel, name: str) -> None:
    channel.confirm_delivery()
    with pytest.raises(UnroutableError):
        channel.basic_publish("", name, b"x", mandatory=True)
    channel.queue_declare(name, exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.basic_publish("", name, b"1", mandatory=True)
    with pytest.raises(NackError):
        channel.basic_publish("", name, b"2", mandatory=True)


def test_an_alternate_exchange_takes_what_nobody_wants(channel: BlockingChannel, name: str) -> None:
    channel.exchange_declare(f"{name}-rest", "fanout", auto_delete=True)
    channel.exchange_declare(name, "direct", arguments={"alternate-exchange": f"{name}-rest"})
    channel.queue_declare(f"{name}-rest", exclusive=True)
    channel.queue_bind(f"{name}-rest", f"{name}-rest")
    channel.confirm_delivery()
    channel.basic_publish(name, "nobody", b"x", mandatory=True)
    assert take(channel, f"{name}-rest", 1) == [b"x"]
    channel.exchange_delete(name)


def test_a_consumer_is_told_when_its_queue_is_deleted(connection: pika.BlockingConnection, name: str) -> None:
    channel = connection.channel()
    channel.queue_declare(name)
    told: list[str] = []
    channel.add_on_cancel_callback(lambda frame: told.append(frame.method.consumer_tag))
    tag = channel.basic_consume(name, lambda *_: None)
    connection.channel().queue_delete(name)
    eventually(lambda: connection.process_data_events(0) or told, "word of it")
    assert told == [tag]


def test_expired_messages_go_to_the_dead_letter_exchange(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(f"{name}-dead", exclusive=True)
    channel.queue_declare(
        name, exclusive=True,
        arguments={
            "x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead", "x-message-ttl": 3_600_000,
        },
    )  # fmt: skip
    channel.basic_publish("", name, b"short", pika.BasicProperties(expiration="50"))
    channel.basic_publish("", name, b"long")
    assert take(channel, f"{name}-dead", 1) == [b"short"]
    assert take(channel, name, 1) == [b"long"]


def test_priorities_go_first(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True, arguments={"x-max-priority": 5})
    channel.confirm_delivery()
    for priority in (1, 5, 3, None, 9):
        channel.basic_publish("", name, str(priority).encode(), pika.BasicProperties(priority=priority))
    assert take(channel, name, 5) == [b"5", b"9", b"3", b"1", b"None"]


def test_a_single_active_consumer_and_its_successor(connection: pika.BlockingConnection, name: str) -> None:
    channel = connection.channel()
    channel.queue_declare(name, exclusive=True, arguments={"x-single-active-consumer": True})
    seen: list[tuple[str, bytes]] = []

    def note(ch: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        seen.append((method.consumer_tag, body))

    channel.basic_consume(name, note, auto_ack=True, consumer_tag="first")
    channel.basic_consume(name, note, auto_ack=True, consumer_tag="second")
    for body in (b"1", b"2"):
        channel.basic_publish("", name, body)
    eventually(lambda: connection.process_data_events(0) or len(seen) == 2, "both came")
    channel.basic_cancel("first")
    channel.basic_publish("", name, b"3")
    eventually(lambda: connection.process_data_events(0) or len(seen) == 3, "the third came")
    assert seen == [("first", b"1"), ("first", b"2"), ("second", b"3")]


def test_a_quorum_queue_gives_up_after_its_delivery_limit(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(f"{name}-dead", exclusive=True)
    arguments = {
        "x-queue-type": "quorum", "x-delivery-limit": 2,
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead",
    }  # fmt: skip
    channel.queue_declare(name, durable=True, arguments=arguments)
    channel.confirm_delivery()
    channel.basic_publish("", name, b"poison", PERSISTENT)
    counts: list[Any] = []

    def look() -> bool:
        method, properties, _ = channel.basic_get(name)
        if method is not None:
            counts.append((properties.headers or {}).get("x-delivery-count"))
            channel.basic_nack(method.delivery_tag, requeue=True)
        return bool(channel.queue_declare(f"{name}-dead", passive=True).method.message_count)

    eventually(look, "the message is given up")
    assert counts in ([None, 1, 2], [0, 1, 2])
    _, properties, _ = channel.basic_get(f"{name}-dead")
    assert properties.headers["x-death"][0]["reason"] == "delivery_limit"
    channel.queue_delete(name)


def test_transactions(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.tx_select()
    channel.basic_publish("", name, b"dropped")
    channel.tx_rollback()
    channel.basic_publish("", name, b"kept")
    assert channel.queue_declare(name, passive=True).method.message_count == 0
    channel.tx_commit()
    assert channel.basic_get(name, auto_ack=True)[2] == b"kept"


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda channel: channel.queue_declare("no-such-queue", passive=True), 404),
        (lambda channel: channel.queue_declare("amq.mine"), 403),
        (lambda channel: channel.exchange_declare("amq.mine"), 403),
        (lambda channel: channel.basic_ack(99) or channel.queue_declare("", exclusive=True), 406),
        (lambda channel: channel.queue_bind("", "no-such-exchange"), 404),
        (lambda channel: channel.exchange_delete("amq.direct"), 403),
    ],
    ids=["missing queue", "reserved queue", "reserved exchange", "unknown tag", "missing exchange", "predeclared"],
)  # fmt: skip
def test_errors_close_the_channel_only(connection: pika.BlockingConnection, wrong: Any, code: int) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        wrong(connection.channel())
    assert caught.value.reply_code == code
    assert connection.channel().is_open


def test_heartbeats_keep_an_idle_connection(url: str) -> None:
    parameters = pika.URLParameters(url)
    parameters.heartbeat = 1
    connection = pika.BlockingConnection(parameters)
    connection.process_data_events(time_limit=3.5)
    assert connection.channel().is_open
    connection.close()
    with pytest.raises(ConnectionWrongStateError):
        connection.channel()


def test_an_event_driven_connection(url: str, name: str) -> None:
    seen: list[bytes] = []
    confirmed: list[int] = []

    class Application:
        def __init__(self) -> None:
            self.connection = pika.SelectConnection(pika.URLParameters(url), on_open_callback=self.opened)

        def opened(self, connection: Any) -> None:
            connection.channel(on_open_callback=self.channel_opened)

        def channel_opened(self, channel: Any) -> None:
            self.channel = channel
            channel.confirm_delivery(self.confirmed)
            channel.queue_declare(name, exclusive=True, callback=self.declared)

        def declared(self, _: Any) -> None:
            self.channel.basic_consume(name, self.received)
            for number in range(10):
                self.channel.basic_publish("", name, str(number).encode())

        def received(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
            channel.basic_ack(method.delivery_tag)
            seen.append(body)
            self.look()

        def confirmed(self, frame: Any) -> None:
            confirmed.append(frame.method.delivery_tag)
            self.look()

        def look(self) -> None:
            if len(seen) == 10 and 10 in confirmed:
                self.connection.close()

    application = Application()
    thread = threading.Thread(target=application.connection.ioloop.start, daemon=True)
    thread.start()
    thread.join(20)
    assert seen == [str(number).encode() for number in range(10)]
    assert confirmed[-1] == 10
