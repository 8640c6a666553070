"""Blocks that were read, and are published."""

from __future__ import annotations

import pytest

from penstock.bridges.carried_block import CarriedBlock, sequence_at
from penstock.client.errors import ClientError
from penstock.content.properties import Properties
from penstock.core.message import Envelope, Message
from penstock.core.message_format import MessageFormats
from penstock.protocols.amqp091.content_frames import make_content
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.ranges.blocks import encode_block
from penstock.ranges.incoming_block import IncomingBlock
from tests.support.large_messages import joined

MARK: dict[str, object] = {"query": "q", "row": 7}


def read(count: int, columns: tuple[str, ...] = ("sequence", "content"), size: int = 10) -> CarriedBlock:
    """Return a block as a broker answers it."""
    formats = MessageFormats()
    formats.add(Amqp091Format())
    messages = [
        Message(Envelope("x", f"k{number % 3}"), make_content(Properties(), bytes([number]) * size), 1, 3 * number, 0.0)
        for number in range(1, count + 1)
    ]
    block = joined(encode_block("source", messages, formats, 0.0, list(columns)))
    return CarriedBlock(memoryview(block))


@pytest.mark.parametrize("count", [1, 2, 100])
@pytest.mark.parametrize("size", [0, 1, 1000])
def test_published_block_has_the_rows_of_the_read_block(count: int, size: int) -> None:
    block = read(count, size=size)
    assert (block.rows, block.last) == (count, 3 * count)
    sequences = block.sequences()
    contents = [make_content(Properties(), bytes([number]) * size) for number in range(1, count + 1)]
    assert block.bytes == sum(map(len, contents))
    found = IncomingBlock(block.published("out", "key", MARK))
    assert (found.is_stored, found.mark, found.rows) == (True, MARK, count)
    assert [found.columns.body(row) for row in range(count)] == contents
    assert found.sequences is not None
    assert [found.sequences.number(row) for row in range(count)] == [3 * number for number in range(1, count + 1)]
    assert [sequence_at(sequences, row) for row in range(count)] == [3 * number for number in range(1, count + 1)]
    assert (found.columns.texts["exchange"].octets(0), found.columns.texts["routing_key"].octets(0)) == (b"out", b"key")


def test_messages_keep_their_own_keys_without_one_for_all() -> None:
    found = IncomingBlock(read(4, ("sequence", "content", "routing_key")).published("out", None, MARK))
    assert [found.columns.texts["routing_key"].octets(row) for row in range(4)] == [b"k1", b"k2", b"k0", b"k1"]


def test_block_without_messages_has_no_bytes() -> None:
    block = read(0)
    assert (block.rows, block.last, block.bytes) == (0, 0, 0)


def test_block_without_contents_is_an_error() -> None:
    with pytest.raises(ClientError, match="a block that has no contents"):
        read(1, ("sequence", "value"))
