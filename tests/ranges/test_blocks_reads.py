"""Blocks with large messages: their bodies are read first, one block after the other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.core.large_bodies import LargeBodies, LargeBody, PieceBudget, Span
from penstock.core.large_content import large_content
from penstock.core.message import Envelope, Message
from penstock.errors import ContentTooLarge
from penstock.ranges.blocks import BLOCK_MESSAGE_MAX, large_bodies
from penstock.wire.amqp091.codec import Properties
from tests.support.amqp10_dialogue import Amqp10Dialogue, data_section
from tests.support.control_requests import request
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.large_messages import frames_of, persistent
from tests.support.piece_store import PieceStore

BODY = bytes(range(256)) * 4096  # 1 MiB: four pieces.


class Desk:
    """A driver with a store of pieces, a queue that a cursor reads, and a queue for answers."""

    def __init__(self) -> None:
        self.driver = make_driver()
        self.store = PieceStore(self.driver.broker.large)
        self.vhost = self.driver.broker.vhosts["/"]
        for name in ("q", "answers"):
            self.vhost.declare_queue(name, {}, False, False, None, None)
        self.client = Dialogue(self.driver)

    def attach(self) -> None:
        self.client.say(request("cursor.attach", cursor="c", queues=["q"]))
        assert self.answers()

    def ask(self, client: Dialogue | None = None, **fields: object) -> None:
        token = self.vhost.cursors["c"].token
        (client or self.client).say(request("cursor.range", cursor="c", token=token, queue="q", **fields))

    def answers(self) -> list[tuple[str, Any]]:
        """Take the answers: content type and body."""
        formats = self.driver.broker.formats
        found = []
        queue = self.vhost.queues["answers"]
        for message in queue.ready_queue.messages():
            of = formats.find(message.content)
            found.append((of.properties(message.content).content_type or "", of.body(message.content)))
        queue.purge(0.0)
        return found

    def read(self) -> None:
        """Write and read pieces until nothing is asked for any more."""
        self.store.write()
        while self.store.read():
            self.driver.run_turn()


def test_block_has_large_messages_whole() -> None:
    desk = Desk()
    for body in (BODY, b"small", BODY[::-1]):
        desk.client.say(persistent("q", body))
        desk.store.write()
    desk.attach()
    desk.ask(lo=0, hi=3)
    assert desk.answers() == []
    assert desk.client.connection.busy
    desk.read()
    ((kind, block),) = desk.answers()
    assert kind == "application/vnd.penstock.block"
    assert BODY + b"small" + BODY[::-1] in block
    assert not desk.client.connection.busy
    assert [body.pieces for body in large_bodies(list(desk.vhost.queues["q"].ready_queue.messages()))] == [{}, {}]


def test_text_of_amqp_1_0_is_its_utf_8() -> None:
    desk = Desk()
    peer = Amqp10Dialogue(desk.driver)
    peer.attach_sender("/queues/q")
    text = "é".encode() * 700_000
    for frame in frames_of(b"\x00\x53\x77\xb1" + len(text).to_bytes(4, "big") + text, 0):
        peer.say(frame)
    for frame in frames_of(data_section(BODY), 1):
        peer.say(frame)
    desk.store.write()
    desk.attach()
    desk.ask(lo=0, hi=2)
    desk.read()
    ((_, block),) = desk.answers()
    assert text + BODY in block
    assert b"\x00\x53\x77\xb1" not in block


def test_blocks_are_loaded_one_after_the_other() -> None:
    desk = Desk()
    desk.client.say(persistent("q", BODY))
    desk.store.write()
    desk.attach()
    others = [Dialogue(desk.driver) for _ in range(3)]
    for client in others:
        desk.ask(client, lo=0, hi=1)
    while desk.store.read():
        assert len(desk.driver.broker.large.reads) <= 1
        desk.driver.run_turn()
    assert len(desk.answers()) == 3


def test_cursor_that_was_taken_over_meanwhile_is_fenced() -> None:
    desk = Desk()
    desk.client.say(persistent("q", BODY))
    desk.store.write()
    desk.attach()
    desk.ask(lo=0, hi=1)
    Dialogue(desk.driver).say(request("cursor.attach", cursor="c", queues=["q"], takeover=True))
    desk.answers()
    desk.read()
    ((_, answer),) = desk.answers()
    assert json.loads(answer)["code"] == 409


def test_piece_that_cannot_be_read_is_told() -> None:
    desk = Desk()
    desk.client.say(persistent("q", BODY))
    desk.store.write()
    desk.attach()
    desk.ask(lo=0, hi=1)
    desk.store.fault = "disk I/O error"
    desk.read()
    ((_, answer),) = desk.answers()
    assert (json.loads(answer)["code"], "disk I/O error" in json.loads(answer)["text"]) == (541, True)


def test_message_that_is_too_large_for_a_block_is_refused() -> None:
    body = LargeBody(1, None)
    body.octets = BLOCK_MESSAGE_MAX + 1
    body.spans = [Span(0, body.octets)]
    message = Message(Envelope("", "q"), large_content(b"\x02", body), 1, 1, 0.0)
    with pytest.raises(ContentTooLarge, match="does not fit into a block"):
        large_bodies([message])


def test_large_requests_are_no_requests() -> None:
    desk = Desk()
    arrival = LargeBodies().begin(PieceBudget(desk.driver.broker.large, None))
    arrival.append(BODY)
    head = desk.driver.broker.formats.encode(Properties(reply_to="answers"), b"")
    content = large_content(head, arrival.finish([]))
    desk.driver.control.request(desk.vhost, desk.client.connection, "status", content)
    desk.driver.run_turn()
    ((_, answer),) = desk.answers()
    assert json.loads(answer)["code"] == 311
