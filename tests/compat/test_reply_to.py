"""Direct reply-to: answers that go to the requesting channel without a queue."""

from __future__ import annotations

import struct

import pytest
from pamqp import commands

from tests.support.raw_client import METHOD, Peer, open_peer, publish_frames, raw_frame

REPLY_TO = "amq.rabbitmq.reply-to"


def ask_for_replies(peer: Peer, tag: str = "replies", channel: int = 1) -> None:
    consume = commands.Basic.Consume(queue=REPLY_TO, consumer_tag=tag, no_ack=True)
    peer.ask(channel, consume, commands.Basic.ConsumeOk)


def take(peer: Peer, queue: str) -> tuple[commands.Basic.Properties, bytes]:
    """Get a message that must be there; its properties and its body."""
    peer.ask(1, commands.Basic.Get(queue=queue, no_ack=True), commands.Basic.GetOk)
    return peer.content()


def requested(asker: Peer, answerer: Peer, queue: str) -> str:
    """Have a request go through a queue; the address that answers go to."""
    asker.ask(1, commands.Queue.Declare(queue=queue, auto_delete=True), commands.Queue.DeclareOk)
    ask_for_replies(asker)
    asker.say(publish_frames(1, "", queue, b"question", {"reply_to": REPLY_TO, "correlation_id": "7"}))
    asker.is_well()
    properties, body = take(answerer, queue)
    assert (body, properties.correlation_id) == (b"question", "7")
    assert properties.reply_to
    return properties.reply_to


def declare(peer: Peer, queue: str, passive: bool) -> None:
    """Send queue.declare; pamqp takes no names with the signs that are in RabbitMQ's addresses."""
    name = queue.encode()
    arguments = struct.pack(">HHHB", 50, 10, 0, len(name)) + name + bytes([passive]) + bytes(4)
    peer.say(raw_frame(METHOD, 1, arguments))


def mandatory(peer: Peer, key: str, body: bytes) -> None:
    publish = publish_frames(1, "", key, body)
    bits = len(publish.partition(b"\xce")[0]) - 1
    peer.say(publish[:bits] + b"\x01" + publish[bits + 1 :])


def test_answer_comes_straight_to_the_channel_that_asked(peer: Peer, other: Peer, name: str) -> None:
    address = requested(peer, other, name)
    assert address.startswith(REPLY_TO + ".")
    for body in (b"answer", b"", bytes(300_000)):
        other.say(publish_frames(1, "", address, body, {"correlation_id": "7"}))
        delivered = peer.expect(1, commands.Basic.Deliver)
        assert (delivered.consumer_tag, delivered.exchange, delivered.routing_key) == ("replies", "", address)
        assert delivered.redelivered is False
        properties, received = peer.content()
        assert (properties.correlation_id, received) == ("7", body)


def test_reply_address_is_one_for_each_channel(at: tuple[str, int], name: str) -> None:
    with open_peer(at) as asker, open_peer(at) as answerer, open_peer(at) as third:
        first = requested(asker, answerer, name)
        asker.say(publish_frames(1, "", name, b"question", {"reply_to": REPLY_TO}))
        asker.is_well()
        assert take(answerer, name)[0].reply_to == first
        assert requested(third, answerer, name) != first


def test_reply_to_is_rewritten_for_the_exact_name_only(peer: Peer, name: str) -> None:
    peer.declare(name)
    ask_for_replies(peer)
    for reply_to in (REPLY_TO + ".mine", "mine", REPLY_TO[:-1]):
        peer.say(publish_frames(1, "", name, b"x", {"reply_to": reply_to}))
        assert take(peer, name)[0].reply_to == reply_to
    given = {
        "content_type": "text/plain",
        "headers": {"a": [1, {"b": "c"}]},
        "priority": 3,
        "message_id": "m",
        "user_id": "guest",
        "app_id": "app",
    }
    peer.say(publish_frames(1, "", name, b"y" * 200_000, {**given, "reply_to": REPLY_TO}))
    properties, body = take(peer, name)
    assert body == b"y" * 200_000
    assert {key: getattr(properties, key) for key in given} == given
    assert str(properties.reply_to).startswith(REPLY_TO + ".")


def test_replies_cannot_be_acknowledged(peer: Peer) -> None:
    peer.send(1, commands.Basic.Consume(queue=REPLY_TO))
    assert peer.refused(1) == (406, "PRECONDITION_FAILED - reply consumer cannot acknowledge")


def test_channel_has_one_reply_consumer_at_a_time(peer: Peer) -> None:
    ask_for_replies(peer, "first")
    peer.ask(1, commands.Basic.Cancel("first"), commands.Basic.CancelOk)
    ask_for_replies(peer, "second")
    peer.send(1, commands.Basic.Consume(queue=REPLY_TO, no_ack=True, consumer_tag="third"))
    assert peer.refused(1) == (406, "PRECONDITION_FAILED - reply consumer already set")


def test_consumer_tag_in_use_is_no_tag_for_replies(peer: Peer) -> None:
    peer.ask(1, commands.Basic.Consume(queue=peer.declare(), consumer_tag="taken"), commands.Basic.ConsumeOk)
    peer.send(1, commands.Basic.Consume(queue=REPLY_TO, no_ack=True, consumer_tag="taken"))
    assert peer.refused(0) == (530, "NOT_ALLOWED - attempt to reuse consumer tag 'taken'")


@pytest.mark.parametrize("before", ["never", "cancelled", "another channel"])
def test_direct_reply_to_needs_a_consumer_on_the_same_channel(peer: Peer, before: str) -> None:
    if before == "cancelled":
        ask_for_replies(peer)
        peer.ask(1, commands.Basic.Cancel("replies"), commands.Basic.CancelOk)
    elif before == "another channel":
        ask_for_replies(peer, channel=peer.channel(2))
    peer.say(publish_frames(1, "", "nowhere", b"x", {"reply_to": REPLY_TO}))
    assert peer.refused(1) == (406, "PRECONDITION_FAILED - fast reply consumer does not exist")


@pytest.mark.parametrize("how", ["cancel", "close", "vanish"])
def test_mandatory_reply_to_a_closed_consumer_is_returned(at: tuple[str, int], how: str, name: str) -> None:
    with open_peer(at) as asker, open_peer(at) as answerer:
        address = requested(asker, answerer, name)
        declare(answerer, address, passive=True)
        answerer.expect(1, commands.Queue.DeclareOk)
        if how == "cancel":
            asker.ask(1, commands.Basic.Cancel("replies"), commands.Basic.CancelOk)
        elif how == "close":
            asker.ask(1, commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk)
        else:
            asker.ask(0, commands.Connection.Close(200, "", 0, 0), commands.Connection.CloseOk)
        mandatory(answerer, address, b"late")
        returned = answerer.expect(1, commands.Basic.Return)
        assert (returned.reply_code, returned.reply_text, returned.routing_key) == (312, "NO_ROUTE", address)
        assert answerer.content()[1] == b"late"
        declare(answerer, address, passive=True)
        assert answerer.refused(1) == (404, f"NOT_FOUND - no queue '{address}' in vhost '/'")


def test_declaration_only_asks_whether_an_address_leads_anywhere(peer: Peer, other: Peer, name: str) -> None:
    address = requested(peer, other, name)
    for declared in (REPLY_TO, address):
        for passive in (True, False):
            declare(other, declared, passive)
            found = other.expect(1, commands.Queue.DeclareOk)
            assert (found.queue, found.message_count, found.consumer_count) == (declared, 0, 1)
    other.send(1, commands.Queue.Declare(queue=REPLY_TO + ".nobody"))
    assert other.refused(1) == (404, f"NOT_FOUND - no queue '{REPLY_TO}.nobody' in vhost '/'")


@pytest.mark.parametrize(
    "method",
    [
        commands.Queue.Purge(queue=REPLY_TO),
        commands.Basic.Get(queue=REPLY_TO, no_ack=True),
        commands.Queue.Bind(queue=REPLY_TO, exchange="amq.direct", routing_key="x"),
    ],
    ids=lambda method: method.name,
)
def test_direct_reply_to_is_no_queue_for_other_methods(peer: Peer, method: commands.Queue.Purge) -> None:
    peer.send(1, method)
    assert peer.refused(1) == (404, f"NOT_FOUND - no queue '{REPLY_TO}' in vhost '/'")


def test_address_is_reached_through_the_default_exchange_only(peer: Peer, other: Peer, name: str) -> None:
    address = requested(peer, other, name)
    other.say(publish_frames(1, "amq.direct", address, b"lost"))
    other.say(publish_frames(1, "", address, b"found"))
    peer.expect(1, commands.Basic.Deliver)
    assert peer.content()[1] == b"found"


def test_mandatory_reply_to_an_open_consumer_is_delivered(peer: Peer, other: Peer, name: str, ours: bool) -> None:
    address = requested(peer, other, name)
    mandatory(other, address, b"answer")
    peer.expect(1, commands.Basic.Deliver)
    assert peer.content()[1] == b"answer"
    if ours:  # RabbitMQ up to 4.1 delivers it and sends it back as well: to it the address is no queue.
        assert other.is_well()
    else:
        other.expect(1, commands.Basic.Return)


def test_requester_that_does_not_read_holds_no_replier_back(at: tuple[str, int], name: str, ours: bool) -> None:
    """What its connection does not take waits for it, within a capacity; then answers are refused."""
    if not ours:
        pytest.skip("RabbitMQ writes on, bounded by nothing but its memory")
    with open_peer(at) as asker, open_peer(at) as answerer:
        address = requested(asker, answerer, name)
        answerer.confirm()
        answer = publish_frames(1, "", address, bytes(8 * 1024 * 1024))
        confirmed = []
        while len(confirmed) < 100 and "Basic.Nack" not in confirmed:
            answerer.say(answer)
            confirmed.append(answerer.read_method()[1].name)
        assert confirmed[-1] == "Basic.Nack"
        assert confirmed[:10] == ["Basic.Ack"] * 10
        assert answerer.is_well()
