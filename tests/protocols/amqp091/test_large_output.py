"""Large messages in shares: no frame of the channel comes between those of a large message."""

from __future__ import annotations

import pytest

from penstock.connections.connection_output import OUTPUT_LEFT_UNREAD, SOURCES_FULL
from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.amqp091_frames import body_of
from tests.support.driven_connection import Dialogue, Frame, cut, methods, publish
from tests.support.large_messages import frames_received
from tests.support.piece_store import PieceStore

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


def test_replies_of_the_channel_follow_the_large_message_in_order(driver: BrokerDriver) -> None:
    client, frames = begun(driver)
    frames += client.say(method_frame(1, spec.QUEUE_DECLARE, queue="another"))
    frames += client.say(method_frame(1, spec.BASIC_QOS, prefetch_count=5))
    frames += frames_received(client)
    assert words(frames) == ["basic.deliver", f"[{len(BODY)}]", "queue.declare-ok", "basic.qos-ok"]


def test_frames_of_other_channels_go_between_frames_of_a_large_message(driver: BrokerDriver) -> None:
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
    driver.connection_limits.change(min_large_message=1000)
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
