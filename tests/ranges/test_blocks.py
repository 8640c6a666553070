"""Messages as columns: the layout that docs/blocks.md promises."""

from __future__ import annotations

import json
import struct
from typing import Any

from penstock.core.message import Envelope, Message
from penstock.core.message_format import MessageFormats
from penstock.protocols.amqp091.content_frames import make_content
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.ranges.blocks import MAGIC, BlockBody, encode_block
from penstock.ranges.columns import ALIGNMENT, DEFAULT_COLUMNS, MORE_COLUMNS
from penstock.wire.amqp091.codec import Properties
from tests.support.large_messages import joined
from tests.support.toy_format import ToyFormat

FORMATS = MessageFormats()
FORMATS.add(Amqp091Format())
FORMATS.add(ToyFormat())
EVERY = [*DEFAULT_COLUMNS, *MORE_COLUMNS]


def message(sequence: int, body: bytes, key: str = "k", **properties: object) -> Message:
    made = Properties()
    for name, value in properties.items():
        setattr(made, name, value)
    return Message(Envelope("x", key), make_content(made, body), 100, sequence, 2.5)


class Read:
    """A block taken apart by the letter of the format."""

    def __init__(self, body: BlockBody) -> None:
        block = joined(body)
        assert len(block) == body.octets
        self.block = block
        assert block[:4] == MAGIC
        (length,) = struct.unpack_from("<I", block, 4)
        self.header = json.loads(block[8 : 8 + length])
        self.rows = self.header["rows"]

    def part(self, column: str, name: str) -> bytes:
        return self.buffer(self.header["columns"][column][name])

    def buffer(self, place: list[int]) -> bytes:
        start, length = place
        assert start % ALIGNMENT == 0
        assert start + length <= len(self.block)
        return self.block[start : start + length]

    def texts(self, column: str) -> list[str | None]:
        found = self.octets(self.header["columns"][column], self.rows)
        return [value.decode() if isinstance(value, bytes) else value for value in found]

    def octets(self, parts: dict[str, Any], rows: int) -> list[bytes | None]:
        if "all" in parts:
            return [parts["all"]] * rows
        offsets = struct.unpack(f"<{rows + 1}i", self.buffer(parts["offsets"]))
        data = self.buffer(parts["data"])
        values = [data[offsets[row] : offsets[row + 1]] for row in range(rows)]
        return [value if self.is_valid(parts, row) else None for row, value in enumerate(values)]

    def lists(self, column: str) -> list[list[tuple[str, bytes | None]] | None]:
        parts = self.header["columns"][column]
        if "all" in parts:
            return [parts["all"]] * self.rows
        offsets = struct.unpack(f"<{self.rows + 1}i", self.buffer(parts["offsets"]))
        items = parts["items"]["columns"]
        keys = self.octets(items["key"], parts["items"]["rows"])
        names = [key.decode() if isinstance(key, bytes) else str(key) for key in keys]
        pairs = list(zip(names, self.octets(items["value"], len(names)), strict=True))
        values = [pairs[offsets[row] : offsets[row + 1]] for row in range(self.rows)]
        return [value if self.is_valid(parts, row) else None for row, value in enumerate(values)]

    def valid(self, column: str, row: int) -> bool:
        return self.is_valid(self.header["columns"][column], row)

    def is_valid(self, parts: dict[str, Any], row: int) -> bool:
        return "valid" not in parts or bool(self.buffer(parts["valid"])[row >> 3] >> (row & 7) & 1)

    def bodies(self) -> list[bytes]:
        offsets = struct.unpack(f"<{self.rows + 1}i", self.part("value", "offsets"))
        return [self.part("value", "data")[offsets[row] : offsets[row + 1]] for row in range(self.rows)]

    def numbers(self, column: str, code: str) -> list[int]:
        return list(struct.unpack(f"<{self.rows}{code}", self.part(column, "data")))


def test_every_column_can_be_read_back() -> None:
    messages = [
        message(3, b"one", "a", message_id="m1", priority=4),
        message(5, b"", "b", priority=None),
        message(9, b"\x00\xff" * 100, "a", message_id="m\u00fc3", priority=0),
    ]
    read = Read(encode_block("q", messages, FORMATS, 1000.0, EVERY))
    assert (read.header["queue"], read.header["first"], read.header["last"]) == ("q", 3, 9)
    assert read.numbers("sequence", "q") == [3, 5, 9]
    assert read.numbers("timestamp", "q") == [1_002_500_000] * 3
    assert read.bodies() == [b"one", b"", b"\x00\xff" * 100]
    assert read.texts("routing_key") == ["a", "b", "a"]
    assert read.texts("message_id") == ["m1", None, "m\u00fc3"]
    assert read.header["columns"]["exchange"] == {"all": "x"}
    assert read.header["columns"]["correlation_id"] == {"all": None}
    assert [read.valid("priority", row) for row in range(3)] == [True, False, True]
    assert [read.numbers("priority", "i")[row] for row in (0, 2)] == [4, 0]
    assert read.header["columns"]["redelivered"] == {"all": False}


def test_block_of_no_rows_is_a_block() -> None:
    read = Read(encode_block("q", [], FORMATS, 0.0, EVERY))
    assert (read.rows, read.bodies()) == (0, [])


def test_properties_that_cannot_be_read_count_as_absent() -> None:
    broken = message(1, b"body", message_id="m")
    whole = broken.content
    at = whole.index(b"\x01m\xce")
    broken = Message(broken.envelope, whole[:at] + b"\x09m\xce" + whole[at + 3 :], 100, 1, 0.0)
    read = Read(encode_block("q", [broken], FORMATS, 0.0, EVERY))
    assert read.texts("message_id") == [None]
    assert read.bodies() == [b"body"]


def test_block_has_messages_of_every_format() -> None:
    foreign = ToyFormat().encode(Properties(message_id="t1", priority=3), b"toy")
    unknown = b"\xffunknown"
    contents = [message(1, b"frames", message_id="m1").content, foreign, unknown]
    rows = [Message(Envelope("x", "k"), content, 100, at, 0.0) for at, content in enumerate(contents)]
    read = Read(encode_block("q", rows, FORMATS, 0.0, EVERY))
    assert read.bodies() == [b"frames", b"toy", unknown]
    assert read.texts("message_id") == ["m1", "t1", None]


def test_redelivered_is_that_of_each_row() -> None:
    messages = [message(number, b"x") for number in range(1, 12)]
    for number in (0, 2, 9):
        messages[number].mark_delivered()
    read = Read(encode_block("q", messages, FORMATS, 0.0, EVERY))
    bits = read.part("redelivered", "data")
    assert [bits[row >> 3] >> (row & 7) & 1 for row in range(11)] == [1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    for one in messages:
        one.mark_delivered()
    for some, value in ((messages, True), (messages[:0], False)):
        assert Read(encode_block("q", some, FORMATS, 0.0, EVERY)).header["columns"]["redelivered"] == {"all": value}
