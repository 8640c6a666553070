"""Content headers larger than the frame size of a consumer: the consumer skips the message."""

from __future__ import annotations

import pytest

from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.logs.ids import FRAME_TOO_SMALL
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp091.content_header import decode_properties
from penstock.wire.amqp10 import spec as spec10
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, ulong
from tests.support.amqp10_dialogue import data_section, sender
from tests.support.driven_connection import Dialogue, Frame, make_driver, methods, publish, refused

NARROW = 4096


def with_header(octets: int, body: bytes = b"x", queue: str = "q") -> bytes:
    """Return a publish whose header frame has this size."""
    empty = publish(queue, b"", properties=Properties(headers={"pad": ""}))
    header = len(empty) - len(method_frame(1, spec.BASIC_PUBLISH, routing_key=queue))
    return publish(queue, body, properties=Properties(headers={"pad": "p" * (octets - header)}))


def bodies(frames: list[Frame], frame_max: int = NARROW) -> list[bytes]:
    """Return the bodies of deliveries; no frame may be larger than agreed."""
    assert all(len(payload) + 8 <= frame_max for _, _, payload in frames)
    return [payload for kind, _, payload in frames if kind == spec.FRAME_BODY]


@pytest.fixture
def driver() -> BrokerDriver:
    driver = make_driver()
    Dialogue(driver).declare("q")
    return driver


@pytest.mark.parametrize("no_ack", [False, True])
def test_content_header_larger_than_a_frame_is_passed_over_and_logged_once(driver: BrokerDriver, no_ack: bool) -> None:
    consumer = Dialogue(driver, NARROW)
    consumer.consume("q", no_ack=no_ack)
    driver.log_queue.take()
    publisher = Dialogue(driver)
    publisher.say(with_header(NARROW + 1, b"large") + with_header(NARROW, b"fits") + with_header(9_000, b"larger"))
    assert bodies(consumer.listen()) == [b"fits"]
    (line,) = [each for each in driver.log_queue.take() if each.fields["id"] == FRAME_TOO_SMALL]
    assert line.text.endswith(
        "message 1 of queue 'q' in vhost '/' cannot be sent: the frame of a content header has 4,097 bytes, and "
        "frame_max of its connection is 4,096; it stays in the queue for other consumers"
    )
    assert consumer.connection.teardown.name == "NONE"
    wide = Dialogue(driver)
    wide.say(method_frame(1, spec.BASIC_QOS, prefetch_count=5))
    assert bodies(wide.consume("q"), 131072) == [b"large", b"larger"]


def test_content_header_larger_than_a_frame_goes_to_a_consumer_with_larger_frames(driver: BrokerDriver) -> None:
    narrow, wide = Dialogue(driver, NARROW), Dialogue(driver)
    narrow.consume("q")
    wide.consume("q")
    Dialogue(driver).say(with_header(9_000, b"large") * 3)
    assert bodies(wide.listen(), 131072) == [b"large"] * 3
    assert bodies(narrow.listen()) == []


@pytest.mark.parametrize("no_ack", [False, True])
def test_get_of_a_content_header_larger_than_a_frame_is_refused_by_name(driver: BrokerDriver, no_ack: bool) -> None:
    Dialogue(driver).say(with_header(9_000))
    narrow = Dialogue(driver, NARROW)
    assert refused(narrow, method_frame(1, spec.BASIC_GET, queue="q", no_ack=no_ack)) == (
        "channel.close",
        406,
        "PRECONDITION_FAILED - the next message of queue 'q' in vhost '/' cannot be sent: the frame of a content "
        "header has 9,000 bytes, and frame_max of its connection is 4,096; connect with a larger frame_max, or take "
        "the message over HTTP or AMQP 1.0",
    )
    queue = driver.broker.vhosts["/"].queues["q"]
    assert (int(queue.waiting()), int(queue.unacked_messages)) == (1, 0)
    wide = Dialogue(driver)
    names = [method.name for method in methods(wide.say(method_frame(1, spec.BASIC_GET, queue="q")))]
    assert names == ["basic.get-ok"]


def test_amqp10_message_whose_converted_header_exceeds_a_frame_is_passed_over() -> None:
    client = sender()
    narrow = Dialogue(client.driver, NARROW)
    narrow.consume("q")
    section = encode_value(Described(ulong(spec10.APPLICATION_PROPERTIES), {"pad": "p" * 9_000}))
    client.say(client.transfer(section + data_section(b"large"), settled=True))
    client.say(client.transfer(data_section(b"small"), settled=True))
    assert bodies(narrow.listen()) == [b"small"]
    assert client.depth("q") == 2
    assert bodies(Dialogue(client.driver).consume("q"), 131072) == [b"large"]


@pytest.mark.parametrize(("octets", "again"), [(NARROW - 40, [b"x"]), (NARROW, [])])
def test_header_is_measured_with_the_added_delivery_count(octets: int, again: list[bytes]) -> None:
    client = Dialogue(make_driver(), NARROW)
    arguments = {"x-queue-type": "quorum"}
    client.say(method_frame(1, spec.QUEUE_DECLARE, queue="k", durable=True, arguments=arguments))
    Dialogue(client.driver).say(with_header(octets, queue="k"))
    assert bodies(client.consume("k")) == [b"x"]
    assert bodies(client.say(method_frame(1, spec.BASIC_NACK, delivery_tag=1, requeue=True))) == again
    assert int(client.vhost.queues["k"].waiting()) == 1 - len(again)


def test_longest_method_frames_of_a_delivery_fit_into_the_smallest_frame(driver: BrokerDriver) -> None:
    long, narrow = "k" * 255, Dialogue(driver, NARROW)
    vhost = driver.broker.vhosts["/"]
    vhost.declare_exchange(long, "fanout", {}, False, False, False)
    vhost.bind(long, vhost.queues["q"], None, "", {})
    narrow.consume("q", tag=long)
    heard = narrow.say(publish(long, b"x", exchange=long))
    assert bodies(heard) == [b"x"]
    assert max(len(payload) for _, _, payload in heard) < NARROW // 4
    assert [decode_properties(payload)[0] for kind, _, payload in heard if kind == spec.FRAME_HEADER] == [1]
