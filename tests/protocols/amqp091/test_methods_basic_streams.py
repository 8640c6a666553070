"""The methods of the class basic at a stream: RabbitMQ's conditions, codes and sentences."""

from __future__ import annotations

import pytest

from penstock.content.properties import Properties
from penstock.protocols.amqp091.content_frames import properties_of
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import Dialogue, Frame, publish, refused
from tests.support.stored_driver import StoredDriver


class Streams:
    """A client on channel 1 of a driver with a store, and the stream `s`."""

    def __init__(self, **arguments: object) -> None:
        self.stored = StoredDriver()
        self.client = Dialogue(self.stored.driver)
        self.heard: list[Frame] = []
        table = {"x-queue-type": "stream", **arguments}
        self.client.say(method_frame(1, spec.QUEUE_DECLARE, queue="s", durable=True, arguments=table))
        self.stored.settle()
        self.client.listen()

    def publish(self, *bodies: bytes, **properties: object) -> None:
        given = Properties()
        for name, value in properties.items():
            setattr(given, name, value)
        self.say(b"".join(publish("s", body, properties=given) for body in bodies))

    def say(self, data: bytes) -> None:
        self.heard += self.client.say(data)

    def listen(self) -> list[tuple[object, bytes, int]]:
        """Return deliveries: offset, body and delivery tag."""
        for _ in range(5):
            self.stored.settle()
            self.heard += self.client.listen()
        frames, self.heard = self.heard, []
        return deliveries(frames)

    def consume(self, at: object = None, prefetch: int = 100, **how: object) -> bytes:
        arguments = {} if at is None else {"x-stream-offset": at}
        qos = method_frame(1, spec.BASIC_QOS, prefetch_count=prefetch)
        return qos + method_frame(1, spec.BASIC_CONSUME, queue="s", arguments=arguments, **how)


def deliveries(frames: list[Frame]) -> list[tuple[object, bytes, int]]:
    found: list[tuple[object, bytes, int]] = []
    tag, offset = 0, None
    for kind, channel, payload in frames:
        if kind == spec.FRAME_METHOD:
            method = decode_method(payload)
            if method.name == "basic.deliver":
                tag = int(str(method.args["delivery_tag"]))
        elif kind == spec.FRAME_HEADER:
            header = b"\x02" + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"
            offset = (properties_of(header).headers or {}).get("x-stream-offset")
        elif kind == spec.FRAME_BODY:
            found.append((offset, payload, tag))
    return found


def test_deliveries_of_a_stream_have_offsets_and_acks_give_credit() -> None:
    streams = Streams()
    streams.publish(b"a", b"b", b"c", headers={"k": 1})
    streams.say(streams.consume("first", prefetch=2))
    assert streams.listen() == [(0, b"a", 1), (1, b"b", 2)]
    streams.say(method_frame(1, spec.BASIC_ACK, delivery_tag=2, multiple=True))
    assert streams.listen() == [(2, b"c", 3)]
    streams.publish(b"d")
    assert streams.listen() == [(3, b"d", 4)]


@pytest.mark.parametrize("requeue", [True, False])
@pytest.mark.parametrize("method", [spec.BASIC_NACK, spec.BASIC_REJECT])
def test_refused_delivery_of_a_stream_gives_credit_and_does_not_return(method: int, requeue: bool) -> None:
    streams = Streams()
    streams.publish(b"a", b"b")
    streams.say(streams.consume("first", prefetch=1))
    assert streams.listen() == [(0, b"a", 1)]
    streams.say(method_frame(1, method, delivery_tag=1, requeue=requeue))
    assert streams.listen() == [(1, b"b", 2)]


def test_recover_of_a_stream_gives_credit_and_redelivers_nothing() -> None:
    streams = Streams()
    streams.publish(b"a", b"b", b"c")
    streams.say(streams.consume("first", prefetch=2))
    streams.listen()
    streams.say(method_frame(1, spec.BASIC_RECOVER, requeue=True))
    assert streams.listen() == [(2, b"c", 3)]


def test_transaction_settles_deliveries_of_a_stream_when_it_commits() -> None:
    streams = Streams()
    streams.publish(b"a", b"b")
    streams.say(method_frame(1, spec.TX_SELECT) + streams.consume("first", prefetch=1))
    assert streams.listen() == [(0, b"a", 1)]
    streams.say(method_frame(1, spec.BASIC_ACK, delivery_tag=1) + publish("s", b"c"))
    assert streams.listen() == []
    streams.say(method_frame(1, spec.TX_COMMIT))
    assert streams.listen() == [(1, b"b", 2)]
    assert streams.client.vhost.queues["s"].tail == 3


def test_message_with_more_priority_or_an_expiration_is_one_of_the_stream() -> None:
    streams = Streams()
    streams.publish(b"a", expiration="1", priority=9, delivery_mode=1)
    streams.publish(b"b", delivery_mode=2)
    streams.stored.driver.begin(1000.0)
    streams.say(streams.consume("first"))
    assert streams.listen() == [(0, b"a", 1), (1, b"b", 2)]


REFUSED = {
    "without a prefetch": (
        {"prefetch": 0}, "channel.close", 406, "consumer prefetch count is not set for stream queue 's' in vhost '/'",
    ),
    "without acknowledgements": (
        {"no_ack": True}, "connection.close", 540,
        "automatic acknowledgement not supported by stream queue 's' in vhost '/'",
    ),
    "at an unknown word": ({"at": "frist"}, "channel.close", 406, "x-stream-offset must be first, last, next, an"),
    "at a negative offset": ({"at": -1}, "channel.close", 406, "or an age such as 1h (units Y, M, D, h, m, s), not -1"),
    "at a list": ({"at": [1]}, "channel.close", 406, "x-stream-offset must be first"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_consumer_of_a_stream_is_refused(case: str) -> None:
    how, name, code, sentence = REFUSED[case]
    streams = Streams()
    (*_, close) = streams.client.say(streams.consume(**how))  # type: ignore[arg-type]
    method = decode_method(close[2])
    assert (method.name, method.args["reply_code"]) == (name, code)
    assert sentence in str(method.args["reply_text"])
    assert not streams.client.vhost.queues["s"].consumers


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (method_frame(1, spec.BASIC_GET, queue="s"), "basic.get not supported by stream queues queue 's' in vhost '/'"),
        (method_frame(1, spec.QUEUE_PURGE, queue="s"), "queue.purge not supported by stream queues queue 's' in vhost"),
    ],
)
def test_method_that_takes_from_a_stream_is_not_implemented(data: bytes, sentence: str) -> None:
    streams = Streams()
    streams.publish(b"a")
    name, code, text = refused(streams.client, data)
    assert (name, code) == ("connection.close", 540)
    assert sentence in str(text)
    assert streams.client.vhost.queues["s"].tail == 1


def test_exclusive_consumer_of_a_stream_excludes_others() -> None:
    streams = Streams()
    streams.say(streams.consume("first", exclusive=True, consumer_tag="one"))
    (*_, close) = streams.client.say(streams.consume("first", consumer_tag="other"))
    method = decode_method(close[2])
    assert (method.name, method.args["reply_code"]) == ("channel.close", 403)


def test_priority_of_a_consumer_of_a_stream_has_no_effect() -> None:
    streams = Streams()
    qos = method_frame(1, spec.BASIC_QOS, prefetch_count=100)
    for tag, priority in (("low", 0), ("high", 9)):
        arguments = {"x-stream-offset": "first", "x-priority": priority}
        consume = method_frame(1, spec.BASIC_CONSUME, queue="s", consumer_tag=tag, arguments=arguments)
        streams.say(qos + consume)
    streams.publish(b"a")
    assert [body for _, body, _ in streams.listen()] == [b"a", b"a"]


@pytest.mark.parametrize("option", ["if_empty", "if_unused"])
def test_condition_of_a_deletion_counts_retained_messages_and_consumers(option: str) -> None:
    streams = Streams()
    streams.publish(b"a")
    streams.say(streams.consume("next"))
    name, code, _ = refused(streams.client, method_frame(1, spec.QUEUE_DELETE, queue="s", **{option: True}))
    assert (name, code) == ("channel.close", 406)


def test_declaration_of_a_stream_again_compares_its_arguments() -> None:
    streams = Streams(**{"x-max-age": "7D"})
    same = {"x-queue-type": "stream", "x-max-age": "7D"}
    assert streams.client.names(method_frame(1, spec.QUEUE_DECLARE, queue="s", durable=True, arguments=same)) == [
        "queue.declare-ok"
    ]
    other = method_frame(1, spec.QUEUE_DECLARE, queue="s", durable=True, arguments={**same, "x-max-age": "1D"})
    name, code, text = refused(streams.client, other)
    assert (name, code) == ("channel.close", 406)
    assert "inequivalent arg 'x-max-age'" in str(text)
