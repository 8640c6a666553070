"""Messages of another protocol's format, as AMQP 0-9-1 delivers them."""

from __future__ import annotations

from penstock.content.properties import Properties
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.driver.driver import BrokerDriver
from penstock.protocols.amqp091.publishing import write_return
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp091.content_header import decode_properties
from tests.support.driven_connection import Dialogue, Frame, make_driver, publish
from tests.support.toy_format import ToyFormat

TOY = ToyFormat()


def opened(frame_max: int = 4096) -> tuple[BrokerDriver, Dialogue]:
    driver = make_driver()
    driver.broker.formats.add(TOY)
    return driver, Dialogue(driver, frame_max)


def put(driver: BrokerDriver, queue: str, *contents: bytes) -> Queue:
    found = driver.broker.vhosts["/"].queues[queue]
    for content in contents:
        found.enqueue(Envelope("", queue), content, 300, driver.broker.now)
    driver.broker.schedule_delivery(found)
    return found


def received(frames: list[Frame]) -> list[tuple[Properties, bytes]]:
    """Return the messages in frames; each must be complete and on channel 1."""
    found: list[tuple[Properties, bytes]] = []
    left = 0
    for kind, channel, payload in frames:
        assert channel == 1
        assert len(payload) + 8 <= 4096
        if kind == spec.FRAME_HEADER:
            assert left == 0
            left, properties = decode_properties(payload)
            found.append((properties, b""))
        elif kind == spec.FRAME_BODY:
            found[-1] = (found[-1][0], found[-1][1] + payload)
            left -= len(payload)
    assert left == 0
    return found


def test_delivery_of_a_foreign_message_is_converted_and_the_message_stays() -> None:
    driver, dialogue = opened()
    dialogue.declare("q")
    dialogue.say(method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="c"))
    contents = [
        TOY.encode(Properties(message_id="m", headers={"a": 1}), b"first"),
        TOY.encode(Properties(), b"x" * 10_000),
        b"T{}\n",
        b"T",
        b"",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ]
    dialogue.say(publish("q", b"between", properties=Properties(message_id="own")))
    queue = put(driver, "q", *contents)
    charged = int(queue.bytes)
    messages = received(dialogue.listen())
    assert messages == [
        (Properties(message_id="m", headers={"a": 1}), b"first"),
        (Properties(), b"x" * 10_000),
        (Properties(), b""),
        (Properties(), b"T"),
        (Properties(), b""),
        (Properties(), contents[5]),
    ]
    assert (queue.bytes, queue.messages) == (charged, 7)
    dialogue.say(method_frame(1, spec.BASIC_ACK, delivery_tag=7, multiple=True))
    assert (queue.bytes, queue.messages) == (0, 0), "what is subtracted is what was charged"


def test_get_of_a_foreign_message_is_converted_with_the_delivery_count() -> None:
    driver, dialogue = opened()
    quorum = {"x-queue-type": "quorum"}
    dialogue.say(method_frame(1, spec.QUEUE_DECLARE, queue="q", durable=True, arguments=quorum))
    put(driver, "q", TOY.encode(Properties(message_id="m"), b"body"))
    (first,) = received(dialogue.say(method_frame(1, spec.BASIC_GET, queue="q")))
    assert first == (Properties(message_id="m"), b"body")
    dialogue.say(method_frame(1, spec.BASIC_REJECT, delivery_tag=1, requeue=True))
    (again,) = received(dialogue.say(method_frame(1, spec.BASIC_GET, queue="q")))
    assert again == (Properties(message_id="m", headers={"x-delivery-count": 1}), b"body")


def test_return_of_a_foreign_message_is_converted() -> None:
    driver, dialogue = opened()
    channel = dialogue.connection.engine.channels[1]
    route = driver.broker.vhosts["/"].route("", "nowhere", True)
    write_return(channel, route, TOY.encode(Properties(message_id="m"), b"body"), None)
    assert received(dialogue.listen()) == [(Properties(message_id="m"), b"body")]


def test_control_request_in_another_format_is_understood() -> None:
    driver, dialogue = opened()
    dialogue.declare("replies")
    asked = TOY.encode(Properties(reply_to="replies", correlation_id="7"), b'{"name": "other"}')
    vhost = driver.broker.vhosts["/"]
    driver.control.request(vhost, dialogue.connection, "vhost.declare", asked)
    driver.control.request(vhost, dialogue.connection, "vhost.declare", b"T{")
    ((properties, body),) = received(dialogue.say(method_frame(1, spec.BASIC_GET, queue="replies", no_ack=True)))
    assert (properties.correlation_id, body) == ("7", b'{"created": true}')
