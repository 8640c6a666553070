"""Blocks that are written as their reader takes them: the same bytes in any portions, for all clients."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import pika
import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from penstock.content.properties import Properties
from penstock.core.large_bodies import LargeBodies, PieceListener, Span
from penstock.core.large_content import large_content
from penstock.core.message import Envelope, Message
from penstock.core.message_format import MessageFormats
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.protocols.amqp10.message_format import Amqp10Format
from penstock.ranges.blocks import BlockBody, encode_block
from penstock.sync import connect
from tests.support.brokers import BrokerProcess, serving, some_name
from tests.support.large_messages import joined

FORMATS = MessageFormats()
FORMATS.add(Amqp091Format())
FORMATS.add(Amqp10Format())


def block_of(bodies: list[bytes]) -> BlockBody:
    """Return a block of messages of both protocols, by turns."""
    formats = [Amqp091Format(), Amqp10Format()]
    contents = [formats[at % 2].encode(Properties(), body) for at, body in enumerate(bodies)]
    messages = [Message(Envelope("", "q"), content, 100, at, 0.0) for at, content in enumerate(contents, 1)]
    return encode_block("q", messages, FORMATS, 0.0, ["sequence", "value"])


@given(st.lists(st.binary(max_size=40), max_size=9), st.lists(st.integers(1, 300), min_size=1, max_size=8))
def test_reader_gives_the_block_in_any_portions(bodies: list[bytes], portions: list[int]) -> None:
    block = block_of(bodies)
    whole = joined(block)
    assert (len(whole), len(whole) % 64) == (block.octets, 0)
    reader = block.open(LargeBodies(), block.spans, PieceListener())
    out, taken, turn = BytesWriter(), b"", 0
    while reader.left > 0:
        portion = portions[turn % len(portions)]
        turn += 1
        if turn % 2:
            before = len(out)
            count = reader.ready(portion)
            assert reader.left == block.octets - len(taken) - count
            reader.write(out, [])
            assert len(out) - before == count == min(portion, block.octets - len(taken))
            taken += out.getvalue()[before:]
        else:
            taken += reader.take(portion)
    assert reader.take(9) == b""
    assert taken == whole


def test_bodies_of_several_frames_and_sections_are_whole() -> None:
    bodies = [bytes([number]) * 300_000 for number in range(4)]
    assert b"".join(bodies) in joined(block_of(bodies))


def test_reader_ends_with_the_connection() -> None:
    block = block_of([b"x" * 1000])
    reader = block.open(LargeBodies(), [Span(0, block.octets)], PieceListener())
    reader.take(10)
    reader.end()
    assert (reader.ready(10), reader.left) == (0, 0)


def test_content_of_a_block_is_large() -> None:
    block = block_of([b"x"])
    assert large_content(Amqp091Format().encode(Properties(), b""), block)[0] == 0xF5


BODIES = [bytes([number]) * 9_000 for number in range(40)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("blocks"), "--memory") as running:
        yield running


def filled(url: str) -> str:
    name = some_name("blocks")
    with connect(url, protocol="amqp091") as connection:
        connection.declare_queue(name, durable=False)
        connection.publisher(name, durable=False).send_many(BODIES)
    return name


def bodies_in(block: bytes | memoryview) -> list[bytes]:
    (length,) = struct.unpack("<I", block[4:8])
    header = json.loads(bytes(block[8 : 8 + length]))
    start, _ = header["columns"]["value"]["offsets"]
    offsets = struct.unpack_from(f"<{header['rows'] + 1}i", block, start)
    data, _ = header["columns"]["value"]["data"]
    return [bytes(block[data + offsets[row] : data + offsets[row + 1]]) for row in range(header["rows"])]


def test_messages_settled_while_a_block_is_under_way_are_in_the_block(broker: BrokerProcess) -> None:
    name = filled(broker.url)
    with connect(broker.url, protocol="amqp091") as control:
        token = control.attach_cursor(name, [name]).token
        asked = {"cursor": name, "token": token, "queue": name, "lo": 0, "hi": 40, "rows": 40, "bytes": 1 << 20}
        first = control.begin("cursor.range", asked)
        again = control.begin("cursor.range", {**asked, "columns": ["value"]})
        assert control.settle_cursor(name, token, {name: 40}) == {name: 40}
        assert bodies_in(control.answer(first)) == BODIES
        assert bodies_in(control.answer(again)) == BODIES


@pytest.mark.parametrize("exclusive", [True, False])
def test_blocks_are_answered_to_clients_of_other_libraries(broker: BrokerProcess, exclusive: bool) -> None:
    name = filled(broker.url)
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        replies = channel.queue_declare(some_name("replies"), exclusive=exclusive).method.queue
        properties = pika.BasicProperties(reply_to=replies)
        holder = {"cursor": name, "token": 1}
        for operation, fields in (
            ("cursor.attach", {"queues": [name]}),
            ("cursor.range", {"queue": name, "lo": 0, "hi": 40}),
        ):
            asked = {**holder, **fields}
            channel.basic_publish("penstock.control", operation, json.dumps(asked).encode(), properties)
        found: list[bytes] = []
        while len(found) < 2:
            _, _, body = channel.basic_get(replies, auto_ack=len(found) == 1)
            if body is not None:
                found.append(body)
    assert bodies_in(found[1]) == BODIES
