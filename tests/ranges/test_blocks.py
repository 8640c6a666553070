"""Messages as columns: the layout that docs/inside/blocks.md promises.

Blocks with large messages: their bodies are read first, one block after the other.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Self

import pytest

from penstock.content.properties import Properties
from penstock.core.large_bodies import LargeBodies, LargeBody, PieceBudget, Span
from penstock.core.large_content import large_content
from penstock.core.message import Envelope, Message
from penstock.core.message_format import MessageFormats, StoredContent
from penstock.errors import ContentTooLarge
from penstock.protocols.amqp091.content_frames import make_content
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.ranges.blocks import BLOCK_CONTENT_MAX, BLOCK_MESSAGE_MAX, MAGIC, BlockBody, encode_block, large_bodies
from penstock.ranges.columns import ALIGNMENT, DEFAULT_COLUMNS, MORE_COLUMNS
from tests.support.amqp10_dialogue import Amqp10Dialogue, data_section
from tests.support.control_requests import request
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.large_messages import frames_of, joined, persistent
from tests.support.piece_store import PieceStore
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
        self._open(block)

    @classmethod
    def of(cls, block: bytes) -> Self:
        read = cls.__new__(cls)
        read._open(block)
        return read

    def _open(self, block: bytes) -> None:
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

    def contents(self) -> list[bytes]:
        offsets = struct.unpack(f"<{self.rows + 1}i", self.part("content", "offsets"))
        return [self.part("content", "data")[offsets[row] : offsets[row + 1]] for row in range(self.rows)]

    def numbers(self, column: str, code: str) -> list[int]:
        return list(struct.unpack(f"<{self.rows}{code}", self.part(column, "data")))


def test_block_columns_can_be_read_back() -> None:
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


def test_header_whose_name_is_not_utf_8_is_left_out_alone() -> None:
    sound = message(4, b"sound", headers={"kept": 1})
    whole = message(7, b"body", message_id="m", headers={"kept": "a", "wrong-one": "b", "last": "c"})
    broken = Message(whole.envelope, whole.content.replace(b"wrong-one", b"wrong\xffone"), 100, 7, 0.0)
    read = Read(encode_block("q", [sound, broken, sound], FORMATS, 0.0, EVERY))
    assert read.lists("headers")[1] == [("kept", b"a"), ("last", b"c")]
    assert read.texts("headers_json")[1] == '{"kept":"a","last":"c"}'
    assert read.texts("message_id")[1] == "m"
    assert read.lists("headers")[0] == read.lists("headers")[2] == [("kept", b"1")]
    assert read.header["unreadable"] == {"header": [1, 7]}


def test_block_counts_the_properties_that_cannot_be_read() -> None:
    whole = message(3, b"body", message_id="wrong-id", app_id="app", headers={"kept": 1})
    wrong_id = Message(whole.envelope, whole.content.replace(b"wrong-id", b"wrong\xffid"), 100, 3, 0.0)
    unknown_type = Message(whole.envelope, whole.content.replace(b"\x04keptI", b"\x04kept?"), 100, 5, 0.0)
    assert unknown_type.content != whole.content
    read = Read(encode_block("q", [whole, wrong_id, unknown_type, wrong_id], FORMATS, 0.0, EVERY))
    assert read.texts("message_id") == ["wrong-id", None, "wrong-id", None]
    assert read.texts("app_id") == ["app"] * 4
    assert read.lists("headers") == [[("kept", b"1")], [("kept", b"1")], None, [("kept", b"1")]]
    assert read.header["unreadable"] == {"message_id": [2, 3], "headers": [1, 5]}
    assert "unreadable" not in Read(encode_block("q", [whole], FORMATS, 0.0, EVERY)).header


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


def test_column_content_has_messages_as_they_are_stored() -> None:
    foreign = ToyFormat().encode(Properties(message_id="t1"), b"toy")
    contents = [message(1, b"frames", message_id="m1").content, foreign, b"\xffunknown", b""]
    rows = [Message(Envelope("x", "k"), content, 100, at + 1, 0.0) for at, content in enumerate(contents)]
    read = Read(encode_block("q", rows, FORMATS, 0.0, ["sequence", "content", "routing_key"]))
    assert read.contents() == contents
    assert read.numbers("sequence", "q") == [1, 2, 3, 4]
    assert set(read.header["columns"]) == {"sequence", "content", "routing_key"}


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


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_block_has_large_messages_whole(desk: Desk) -> None:
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


def test_column_content_has_large_messages_of_each_protocol_whole(desk: Desk) -> None:
    peer = Amqp10Dialogue(desk.driver)
    peer.attach_sender("/queues/q")
    text = b"\x00\x53\x77\xb1" + len(BODY).to_bytes(4, "big") + b"t" * len(BODY)
    sections = (data_section(BODY), data_section(BODY) + data_section(b"more"), text)
    desk.client.say(persistent("q", BODY))
    for number, octets in enumerate(sections):
        for frame in frames_of(octets, number):
            peer.say(frame)
    desk.store.write()
    desk.attach()
    desk.ask(lo=0, hi=4, columns=["content"])
    desk.read()
    ((_, block),) = desk.answers()
    formats = desk.driver.broker.formats
    first, *others = Read.of(block).contents()
    assert formats.of(first).body(first) == BODY
    found = StoredContent()
    for content, octets in zip(others, sections, strict=True):
        formats.of(content).check_stored(content, b"guest", found)
        assert content.endswith(octets)
    formats.of(first).check_stored(first, b"guest", found)
    assert found.content == first, "its frames are as a broker stores them"


def test_content_too_large_to_be_published_in_a_block_is_refused() -> None:
    body = LargeBody(1, None)
    body.octets = BLOCK_CONTENT_MAX + 1
    body.spans = [Span(0, body.octets)]
    message = Message(Envelope("", "q"), large_content(b"\x02", body), 1, 1, 0.0)
    with pytest.raises(ContentTooLarge, match="which has at most 16,515,072; consume it"):
        large_bodies([message], BLOCK_CONTENT_MAX)
    assert large_bodies([message]) == [body]


def test_text_of_amqp_1_0_is_read_as_utf_8(desk: Desk) -> None:
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


def test_blocks_are_loaded_in_succession(desk: Desk) -> None:
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


def test_cursor_that_was_taken_over_meanwhile_is_fenced(desk: Desk) -> None:
    desk.client.say(persistent("q", BODY))
    desk.store.write()
    desk.attach()
    desk.ask(lo=0, hi=1)
    Dialogue(desk.driver).say(request("cursor.attach", cursor="c", queues=["q"], takeover=True))
    desk.answers()
    desk.read()
    ((_, answer),) = desk.answers()
    assert json.loads(answer)["code"] == 409


def test_piece_that_cannot_be_read_is_reported(desk: Desk) -> None:
    desk.client.say(persistent("q", BODY))
    desk.store.write()
    desk.attach()
    desk.ask(lo=0, hi=1)
    desk.store.fault = "disk I/O error"
    desk.read()
    ((_, answer),) = desk.answers()
    assert (json.loads(answer)["code"], "disk I/O error" in json.loads(answer)["text"]) == (541, True)


def test_message_too_large_for_a_block_is_refused() -> None:
    body = LargeBody(1, None)
    body.octets = BLOCK_MESSAGE_MAX + 1
    body.spans = [Span(0, body.octets)]
    message = Message(Envelope("", "q"), large_content(b"\x02", body), 1, 1, 0.0)
    with pytest.raises(ContentTooLarge, match="does not fit into a block"):
        large_bodies([message])


def test_large_requests_are_no_requests(desk: Desk) -> None:
    arrival = LargeBodies().begin(PieceBudget(desk.driver.broker.large, None))
    arrival.append(BODY)
    head = desk.driver.broker.formats.encode(Properties(reply_to="answers"), b"")
    content = large_content(head, arrival.finish([]))
    desk.driver.control.request(desk.vhost, desk.client.connection, "status", content)
    desk.driver.run_turn()
    ((_, answer),) = desk.answers()
    assert json.loads(answer)["code"] == 311
