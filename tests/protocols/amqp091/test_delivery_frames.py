"""Delivery frames: contents for other channels and frame sizes, and large messages in shares.

No frame of the channel comes between those of a large message.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from penstock.content.properties import Properties
from penstock.core.message import Envelope, Message
from penstock.driver.driver import BrokerDriver
from penstock.protocols.amqp091.content_frames import header_payload, properties_of
from penstock.protocols.amqp091.delivery_frames import DeliveryHead, write_confirm, write_content, write_deliveries
from penstock.protocols.common.connection_output import OUTPUT_LEFT_UNREAD, SOURCES_FULL
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, frame, method_frame
from penstock.wire.amqp091.content_header import encode_header
from tests.profiles import examples
from tests.support.amqp091_frames import body_of
from tests.support.driven_connection import Dialogue, Frame, cut, make_driver, methods, publish
from tests.support.large_messages import frames_received
from tests.support.piece_store import PieceStore


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


BODY = bytes(range(256)) * 4096  # 1 MiB: four pieces.
CHUNK = SOURCES_FULL


def words(frames: list[Frame], channel: int = 1) -> list[str]:
    """Return the methods of a channel, and the octets of each body between them as a number in brackets."""
    found: list[str] = []
    octets = 0
    for kind, number, payload in frames:
        if number != channel:
            continue
        if kind == spec.FRAME_BODY:
            octets += len(payload)
            continue
        if octets:
            found.append(f"[{octets}]")
            octets = 0
        if kind == spec.FRAME_METHOD:
            found.append(decode_method(payload).name)
    return found + ([f"[{octets}]"] if octets else [])


def consuming(driver: BrokerDriver, prefetch: int = 0) -> Dialogue:
    """Return a client that consumes from the queue q."""
    client = Dialogue(driver).declare("q")
    client.consume("q", "t", prefetch)
    return client


def send(driver: BrokerDriver, body: bytes = BODY, properties: Properties | None = None) -> None:
    """Publish a message to the queue q on a connection of its own."""
    publisher = Dialogue(driver)
    for each in cut(publish("q", body, properties=properties)):
        kind, channel, payload = each
        publisher.say(bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce")


def begun(driver: BrokerDriver) -> tuple[Dialogue, list[Frame]]:
    """Return a client that has a share of a large message, and what it has."""
    client = consuming(driver)
    send(driver)
    return client, client.listen()


def test_large_message_arrives_and_leaves_unchanged(driver: BrokerDriver) -> None:
    client = consuming(driver)
    send(driver, properties=Properties(message_id="7", headers={"color": "red"}))
    frames = frames_received(client)
    assert words(frames) == ["basic.deliver", f"[{len(BODY)}]"]
    assert body_of(frames) == BODY
    header = next(payload for kind, _, payload in frames if kind == spec.FRAME_HEADER)
    assert int.from_bytes(header[4:12], "big") == len(BODY)
    assert b"color" in header


def test_large_message_is_written_a_share_at_a_time(driver: BrokerDriver) -> None:
    client, frames = begun(driver)
    assert CHUNK <= len(body_of(frames)) <= CHUNK + 65536
    assert body_of(frames + frames_received(client)) == BODY


def test_replies_of_the_channel_follow_it_in_order(driver: BrokerDriver) -> None:
    client, frames = begun(driver)
    frames += client.say(method_frame(1, spec.QUEUE_DECLARE, queue="another"))
    frames += client.say(method_frame(1, spec.BASIC_QOS, prefetch_count=5))
    frames += frames_received(client)
    assert words(frames) == ["basic.deliver", f"[{len(BODY)}]", "queue.declare-ok", "basic.qos-ok"]


def test_frames_of_other_channels_go_between_those_of_a_large_message(driver: BrokerDriver) -> None:
    client, frames = begun(driver)
    opened = client.say(method_frame(2, spec.CHANNEL_OPEN))
    assert words(opened, 2) == ["channel.open-ok"]
    assert body_of(frames + opened + frames_received(client)) == BODY


def test_large_messages_of_two_channels_take_turns(driver: BrokerDriver) -> None:
    client = consuming(driver, 1)
    client.say(method_frame(2, spec.CHANNEL_OPEN))
    client.say(method_frame(2, spec.BASIC_QOS, prefetch_count=1))
    client.say(method_frame(2, spec.BASIC_CONSUME, queue="q", consumer_tag="u"))
    send(driver)
    send(driver)
    channels = {channel for kind, channel, _ in client.listen() if kind == spec.FRAME_BODY}
    assert channels == {1, 2}
    frames_received(client)


def test_deliveries_wait_for_the_end_of_a_large_message(driver: BrokerDriver) -> None:
    client, frames = begun(driver)
    send(driver, b"small")
    send(driver)
    queue = driver.broker.vhosts["/"].queues["q"]
    assert queue.waiting() == 2
    consumer = next(iter(client.connection.engine.session(1).consumers.values()))  # type: ignore[union-attr]
    assert consumer.obstacles(0.0) == ["a large message is being sent on its channel"]
    frames += frames_received(client)
    assert words(frames) == [
        "basic.deliver",
        f"[{len(BODY)}]",
        "basic.deliver",
        "[5]",
        "basic.deliver",
        f"[{len(BODY)}]",
    ]


def test_batch_of_several_large_messages_comes_in_order(driver: BrokerDriver) -> None:
    driver.connection_limits.min_large_message = 1000
    client = Dialogue(driver, frame_max=4096).declare("q")
    publisher = Dialogue(driver, frame_max=4096)
    for size in (5000, 3, 6000, 7000, 4):
        publisher.say(publish("q", bytes(size), frame_max=4096))
    frames = client.say(method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="t")) + frames_received(client)
    assert words(frames)[1:] == [word for size in (5000, 3, 6000, 7000, 4) for word in ("basic.deliver", f"[{size}]")]
    tags = [method.args["delivery_tag"] for method in methods(frames)[1:]]
    assert tags == [1, 2, 3, 4, 5]


def test_basic_get_of_a_large_message(driver: BrokerDriver) -> None:
    client = Dialogue(driver).declare("q")
    send(driver)
    frames = client.say(
        method_frame(1, spec.BASIC_GET, queue="q", no_ack=True) + method_frame(1, spec.BASIC_GET, queue="q")
    )
    frames += frames_received(client)
    assert words(frames) == ["basic.get-ok", f"[{len(BODY)}]", "basic.get-empty"]
    assert body_of(frames) == BODY


def test_unroutable_large_message_is_returned(driver: BrokerDriver) -> None:
    client = Dialogue(driver)
    client.confirm()
    data = publish("nowhere", BODY)
    method = method_frame(1, spec.BASIC_PUBLISH, routing_key="nowhere", mandatory=True)
    frames = client.say(method + data[len(method) :]) + frames_received(client)
    assert words(frames) == ["basic.return", f"[{len(BODY)}]", "basic.ack"]
    assert body_of(frames) == BODY


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (method_frame(1, spec.CHANNEL_CLOSE, reply_code=200), "channel.close-ok"),
        (method_frame(1, spec.QUEUE_DECLARE, queue="missing", passive=True), "channel.close"),
    ],
)
def test_closing_channel_completes_a_large_message(driver: BrokerDriver, request_: bytes, answer: str) -> None:
    client, frames = begun(driver)
    frames += client.say(request_) + frames_received(client)
    assert words(frames) == ["basic.deliver", f"[{len(BODY)}]", answer]
    assert driver.broker.vhosts["/"].queues["q"].available() == 1


def test_closing_connection_breaks_off_a_large_message(driver: BrokerDriver) -> None:
    client, frames = begun(driver)
    frames += client.say(method_frame(0, spec.CONNECTION_CLOSE, reply_code=200))
    assert words(frames, 0) == ["connection.close-ok"]
    assert len(body_of(frames)) < len(BODY)
    driver.disconnect(client.connection)
    driver.run_turn()
    assert not client.connection.output.sources
    assert driver.broker.vhosts["/"].queues["q"].available() == 1


def test_connection_closed_by_the_broker_writes_no_more_of_a_large_message(driver: BrokerDriver) -> None:
    client, _ = begun(driver)
    client.connection.shut_down()
    assert words(client.listen(), 0) == ["connection.close"]
    assert not client.connection.output.touched
    assert client.listen() == []


def test_replies_behind_a_large_message_pause_the_input_at_a_bound(driver: BrokerDriver) -> None:
    client, frames = begun(driver)
    request = method_frame(1, spec.QUEUE_DECLARE, queue="q" * 200, passive=False)
    count = 2 * OUTPUT_LEFT_UNREAD // 200
    driver.scheduler.receive(client.connection, request * count)
    while driver.scheduler.begin_turn():
        driver.scheduler.serve()
    assert client.connection.busy
    part = client.listen()
    while part or client.connection.input_paused:
        frames += part
        driver.scheduler.go_on(client.connection)
        driver.scheduler.begin_turn()
        driver.scheduler.serve()
        part = client.listen()
    found = words(frames)
    assert found[:2] == ["basic.deliver", f"[{len(BODY)}]"]
    assert len(found) == count + 2


def test_pieces_come_from_the_store_as_the_peer_reads(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = consuming(driver)
    send(driver, properties=Properties(delivery_mode=2))
    assert store.write() == len(BODY)
    frames = frames_received(client, store.read)
    assert body_of(frames) == BODY


def test_unreadable_piece_closes_the_connection(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = consuming(driver)
    send(driver, properties=Properties(delivery_mode=2))
    store.write()
    store.fault = "disk I/O error"
    frames = frames_received(client, store.read)
    close = methods(frames)[-1]
    assert (close.name, close.args["reply_code"]) == ("connection.close", 541)
    assert "disk I/O error" in str(close.args["reply_text"])
    assert len(body_of(frames)) < len(BODY)


def test_settled_large_message_leaves_the_store(driver: BrokerDriver) -> None:
    store = PieceStore(driver.broker.large)
    client = consuming(driver)
    send(driver, properties=Properties(delivery_mode=2))
    store.write()
    frames_received(client, store.read)
    assert len(store.pieces) == 4
    client.say(method_frame(1, spec.BASIC_ACK, delivery_tag=1))
    store.write()
    assert store.pieces == {}
