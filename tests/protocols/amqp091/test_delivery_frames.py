"""Delivery frames: contents for other channels and frame sizes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from penstock.content.properties import Properties
from penstock.core.message import Envelope, Message
from penstock.protocols.amqp091.content_frames import header_payload, properties_of
from penstock.protocols.amqp091.delivery_frames import DeliveryHead, write_confirm, write_content, write_deliveries
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, frame, method_frame
from penstock.wire.amqp091.content_header import encode_header
from tests.profiles import examples
from tests.support.driven_connection import Dialogue, cut, make_driver, publish


def content(body: bytes, channel: int, frame_max: int) -> bytes:
    made = Properties()
    made.content_type = "text/plain"
    pieces = [body[start : start + frame_max - 8] for start in range(0, len(body), frame_max - 8)]
    frames = [frame(spec.FRAME_BODY, channel, piece) for piece in pieces]
    return frame(spec.FRAME_HEADER, channel, encode_header(len(body), made)) + b"".join(frames)


@settings(max_examples=examples(300), derandomize=True, database=None)
@given(
    st.integers(0, 20_000),
    st.integers(1, 65535),
    st.integers(1, 65535),
    st.integers(4096, 9000),
    st.integers(4096, 9000),
)
def test_content_is_cut_again_for_another_channel_and_frame_size(
    length: int, came_on: int, channel: int, came_with: int, frame_max: int
) -> None:
    body = bytes(at % 251 for at in range(length))
    came = content(body, came_on, came_with)
    out = BytesWriter()
    write_content(out, came, channel, frame_max)
    frames = cut(out.getvalue())
    assert frames[0][0] == spec.FRAME_HEADER
    assert frames[0][2] == header_payload(came)
    assert all(kind == spec.FRAME_BODY for kind, _, _ in frames[1:])
    assert {number for _, number, _ in frames} == {channel}
    assert all(len(payload) + 8 <= frame_max for _, _, payload in frames)
    assert b"".join(payload for _, _, payload in frames[1:]) == body


def test_content_header_above_the_frame_size_is_sent_whole() -> None:
    properties = Properties()
    properties.headers = {"long": "x" * 5000}
    header = encode_header(5000, properties)
    came = frame(spec.FRAME_HEADER, 1, header) + frame(spec.FRAME_BODY, 1, bytes(5000))
    out = BytesWriter()
    write_content(out, came, 1, 4096)
    frames = cut(out.getvalue())
    assert [(kind, len(payload)) for kind, _, payload in frames] == [
        (spec.FRAME_HEADER, len(header)),
        (spec.FRAME_BODY, 4088),
        (spec.FRAME_BODY, 912),
    ]


def test_delivery_carries_tag_address_and_redelivered() -> None:
    first, second = Envelope("", "q"), Envelope("amq.topic", "orders.new")
    failed = Message(first, content(b"three", 3, 4096), 1, 3, 0.0)
    failed.count_failure()
    released = Message(first, content(b"four", 3, 4096), 1, 4, 0.0)
    released.mark_delivered()
    messages: list[Message | None] = [
        Message(first, content(b"one", 7, 4096), 1, 1, 0.0),
        Message(second, content(b"two", 3, 4096), 1, 2, 0.0),
        failed,
        released,
    ]
    out = BytesWriter()
    write_deliveries(out, DeliveryHead(3, "ctag"), messages, 40, 4096, make_driver().broker.formats)
    frames = cut(out.getvalue())
    methods = [decode_method(payload).args for kind, _, payload in frames if kind == spec.FRAME_METHOD]
    told = [(m["delivery_tag"], m["redelivered"], m["exchange"], m["routing_key"], m["consumer_tag"]) for m in methods]
    assert told == [
        (40, False, "", "q", "ctag"),
        (41, False, "amq.topic", "orders.new", "ctag"),
        (42, True, "", "q", "ctag"),
        (43, True, "", "q", "ctag"),
    ]
    assert {number for _, number, _ in frames} == {3}
    assert [payload for kind, _, payload in frames if kind == spec.FRAME_BODY] == [b"one", b"two", b"three", b"four"]


def test_delivery_count_is_the_number_of_failures() -> None:
    released = Message(Envelope("", "q"), content(b"one", 1, 4096), 1, 1, 0.0)
    released.mark_delivered()
    formats = make_driver().broker.formats
    assert formats.with_delivery_count(released) is released
    released.count_failure()
    counted = formats.with_delivery_count(released)
    assert (properties_of(counted.content).headers, counted.redelivered) == ({"x-delivery-count": 1}, True)


@pytest.mark.parametrize(("multiple", "confirmed"), [(False, True), (True, True), (False, False)])
def test_confirmation_is_an_ack_or_a_nack(multiple: bool, confirmed: bool) -> None:
    out = BytesWriter()
    write_confirm(out, 9, 1 << 40, multiple, confirmed)
    ((kind, channel, payload),) = cut(out.getvalue())
    method = decode_method(payload)
    assert (kind, channel) == (spec.FRAME_METHOD, 9)
    assert method.name == ("basic.ack" if confirmed else "basic.nack")
    assert (method.args["delivery_tag"], method.args["multiple"]) == (1 << 40, multiple)


@pytest.mark.parametrize("length", [0, 1, 4088, 4089, 50_000])
def test_large_message_reaches_a_client_with_small_frames(length: int) -> None:
    driver = make_driver()
    sender, receiver = Dialogue(driver), Dialogue(driver, frame_max=4096)
    sender.declare("q")
    body = bytes(at % 251 for at in range(length))
    sender.say(publish("q", body))
    frames = receiver.say(method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="t", no_ack=True))
    assert all(len(payload) + 8 <= 4096 for _, _, payload in frames)
    assert b"".join(payload for kind, _, payload in frames if kind == spec.FRAME_BODY) == body
