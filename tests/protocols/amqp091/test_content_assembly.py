"""Content assembly: the states of a channel while a publish arrives in pieces, and the message that results."""

from __future__ import annotations

import pytest

from penstock.connections.control_request import IMPORT_OCTETS
from penstock.protocols.amqp091.content_assembly import SMALL_PIECE, ContentState
from penstock.protocols.amqp091.content_frames import body_of
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.amqp091_frames import body, header
from tests.support.driven_connection import Dialogue, make_driver


def talk() -> Dialogue:
    dialogue = Dialogue(make_driver()).declare("q")
    return dialogue


def state(dialogue: Dialogue) -> ContentState:
    return ContentState(int(dialogue.connection.engine.channels[1].content.state))


def method(queue: str = "q", exchange: str = "") -> bytes:
    return method_frame(1, spec.BASIC_PUBLISH, exchange=exchange, routing_key=queue)


@pytest.mark.parametrize("piece", [1, 7, SMALL_PIECE - 1, SMALL_PIECE, 4000])
def test_content_assembly_passes_through_all_states_and_keeps_the_body(piece: int) -> None:
    dialogue = talk()
    payload = bytes(at % 251 for at in range(4000))
    assert state(dialogue) is ContentState.METHOD
    dialogue.say(method())
    assert state(dialogue) is ContentState.HEADER
    dialogue.say(header(len(payload)))
    for at in range(0, len(payload), piece):
        assert state(dialogue) is ContentState.BODY
        dialogue.say(body(payload[at : at + piece]))
    assert state(dialogue) is ContentState.METHOD
    vhost = dialogue.vhost
    (message,) = vhost.queues["q"].ready_queue.messages()
    assert body_of(message.content) == payload


def test_content_assembly_of_an_empty_body_ends_with_the_header() -> None:
    dialogue = talk()
    dialogue.say(method())
    dialogue.say(header(0))
    assert state(dialogue) is ContentState.METHOD
    assert dialogue.vhost.queues["q"].messages == 1


def test_content_assembly_ignores_the_body_of_an_oversized_control_request() -> None:
    dialogue = talk()
    dialogue.say(method("import", "penstock.control"))
    dialogue.say(header(IMPORT_OCTETS + 1))
    assert state(dialogue) is ContentState.IGNORED_BODY
    before = int(dialogue.connection.arriving)
    dialogue.say(body(bytes(100_000)))
    assert int(dialogue.connection.arriving) == before, "nothing of the body is stored"


def test_content_assembly_drops_a_publish_when_the_channel_ends() -> None:
    dialogue = talk()
    dialogue.say(method() + header(10) + body(b"12345"))
    channel = dialogue.connection.engine.channels[1]
    assert channel.content.state == ContentState.BODY
    dialogue.driver.disconnect(dialogue.connection)
    assert channel.content.state == ContentState.METHOD
    assert dialogue.driver.services.partial_messages.pool.taken == 0


@pytest.mark.parametrize(
    ("sent", "unexpected", "text"),
    [
        (b"", header(1), "expected method frame, got non method frame instead"),
        (method(), method(), "expected content header for class 60, got non content header frame instead"),
        (method(), body(b"x"), "expected content header for class 60, got non content header frame instead"),
        (method() + header(1), header(1), "expected content body, got non content body frame instead"),
        (method() + header(1), method(), "expected content body, got non content body frame instead"),
    ],
)
def test_content_assembly_refuses_an_unexpected_frame_by_state(sent: bytes, unexpected: bytes, text: str) -> None:
    dialogue = talk()
    dialogue.say(sent) if sent else None
    ((_, _, payload),) = dialogue.say(unexpected)
    close = decode_method(payload)
    assert (close.id, close.args["reply_code"]) == (spec.CONNECTION_CLOSE, 505)
    assert str(close.args["reply_text"]).endswith(text)
