"""Memory that no list of queues shows is named by `penstock why`, with its holders."""

from __future__ import annotations

from penstock.content.properties import Properties
from penstock.management.unlisted_memory import HOLDERS_SHOWN, PIECES, REPLIES, SAID_FROM, Held, Holder
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import frame, method_frame
from penstock.wire.amqp091.content_header import encode_header
from tests.support.blocked_scene import Scene, asked
from tests.support.driven_connection import publish

BODY = b"x" * (SAID_FROM // 2)


def test_reply_queue_is_named_with_its_channel() -> None:
    scene = Scene()
    client = scene.join()
    client.say(method_frame(1, spec.BASIC_CONSUME, queue="amq.rabbitmq.reply-to", no_ack=True))
    client.say(method_frame(1, spec.CHANNEL_FLOW, active=False))
    (address,) = client.vhost.replies
    for _ in range(3):
        scene.join().say(publish(address, BODY))
    (row,) = asked(scene.driver)["memory"]
    assert (row["kind"], row["count"], row["holders"][0]["name"]) == (REPLIES, 1, "con:1(guest@127.0.0.1:1/)/ch:1")
    assert row["bytes"] > 3 * len(BODY)
    (sentence,) = scene.ask()
    assert sentence.startswith("reply queues hold 1,57")
    assert "the largest of 1: con:1(guest@127.0.0.1:1/)/ch:1 with" in sentence


def test_message_in_pieces_is_named_with_its_connection() -> None:
    scene = Scene()
    client = scene.join().declare("q")
    client.say(
        method_frame(1, spec.BASIC_PUBLISH, routing_key="q")
        + frame(spec.FRAME_HEADER, 1, encode_header(4 * len(BODY), Properties()))
    )
    for _ in range(24):
        client.say(frame(spec.FRAME_BODY, 1, b"x" * 65536))
    (row,) = asked(scene.driver)["memory"]
    assert (row["kind"], row["holders"][0]["name"]) == (PIECES, client.connection.name())
    assert scene.ask()[0].startswith("messages that arrive in pieces hold 1,57")


def test_small_amounts_have_a_row_and_no_sentence() -> None:
    scene = Scene()
    client = scene.join()
    client.say(method_frame(1, spec.BASIC_CONSUME, queue="amq.rabbitmq.reply-to", no_ack=True))
    client.say(method_frame(1, spec.CHANNEL_FLOW, active=False))
    (address,) = client.vhost.replies
    scene.join().say(publish(address, b"x"))
    assert len(asked(scene.driver)["memory"]) == 1
    assert scene.ask() == ["no producer is blocked"]


def test_holders_are_bounded_and_the_largest_come_first() -> None:
    held = Held(REPLIES, [Holder(str(number), number) for number in range(3 * HOLDERS_SHOWN)])
    assert (held.count, held.bytes) == (3 * HOLDERS_SHOWN, sum(range(3 * HOLDERS_SHOWN)))
    assert [holder.bytes for holder in held.holders] == list(range(3 * HOLDERS_SHOWN))[: -HOLDERS_SHOWN - 1 : -1]
