"""Columns of message properties, in each protocol's format."""

from __future__ import annotations

from collections import Counter

import pytest

from penstock.content.header_values import headers_from_json
from penstock.content.properties import PROPERTY_NAMES, TEXT_PROPERTIES, Properties
from penstock.core.deaths import EXPIRED, REJECTED, DeathRecord
from penstock.core.message import Envelope, Message
from penstock.core.message_format import MessageFormat, MessageFormats
from penstock.errors import PreconditionFailed
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.protocols.amqp10.message_format import Amqp10Format
from penstock.ranges.blocks import encode_block
from penstock.ranges.columns import DEFAULT_COLUMNS, MORE_COLUMNS, check_columns, rows_within
from tests.ranges.test_blocks import Read

FORMATS = MessageFormats()
FORMATS.add(Amqp091Format())
FORMATS.add(Amqp10Format())
TEXTS = ("message_id", "correlation_id", "reply_to", "content_type", "type", "app_id", "user_id", "content_encoding")
EVERY = [*DEFAULT_COLUMNS, *MORE_COLUMNS]


def read(contents: list[bytes], *names: str) -> Read:
    messages = [Message(Envelope("x", "k"), content, 100, at, 2.5) for at, content in enumerate(contents, 1)]
    return Read(encode_block("q", messages, FORMATS, 0.0, list(names) or EVERY))


def full(number: int) -> Properties:
    texts: dict[str, str] = {name: f"{name} {number}" for name in TEXTS}
    headers: dict[str, object] = {"n": number, "ü": "text", "b": b"\0\xff"}
    return Properties(
        **texts,  # type: ignore[arg-type]
        headers=headers,
        delivery_mode=1 + number % 2,
        priority=number,
        expiration=str(60_000 + number),
        timestamp=1_767_225_600 + number,
    )


@pytest.mark.parametrize("message_format", [Amqp091Format(), Amqp10Format()])
def test_properties_of_either_protocol_are_columns(message_format: MessageFormat) -> None:
    found = read([message_format.encode(full(1), b"a"), message_format.encode(full(2), b"b")])
    assert sorted(found.header["columns"]) == sorted(EVERY)
    for name in TEXTS:
        assert found.texts(name) == [f"{name} 1", f"{name} 2"]
    assert found.texts("expiration") == ["60001", "60002"]
    assert found.numbers("priority", "i") == [1, 2]
    assert found.numbers("delivery_mode", "i") == [2, 1]
    assert found.numbers("message_timestamp", "q") == [1_767_225_601, 1_767_225_602]
    assert found.header["columns"]["deaths"] == {"all": 0}
    assert [headers_from_json(text) for text in found.texts("headers_json") if text] == [
        full(1).headers,
        full(2).headers,
    ]
    assert found.lists("headers") == [
        [("n", b"1"), ("ü", b"text"), ("b", b"\0\xff")],
        [("n", b"2"), ("ü", b"text"), ("b", b"\0\xff")],
    ]


def test_messages_without_headers_and_with_none_differ() -> None:
    contents = [Amqp091Format().encode(Properties(headers=headers), b"") for headers in ({}, None, {"a": None})]
    found = read(contents, "headers", "headers_json")
    assert found.lists("headers") == [[], None, [("a", None)]]
    assert found.texts("headers_json") == ["{}", None, '{"a":null}']
    assert read(contents[1:2], "headers").header["columns"] == {"headers": {"all": None}}
    assert read(contents[:1], "headers").lists("headers") == [[]]


@pytest.mark.parametrize("message_format", [Amqp091Format(), Amqp10Format()])
def test_deaths_are_counted_over_queues_and_reasons(message_format: MessageFormat) -> None:
    content = message_format.encode(Properties(), b"x")
    for queue, reason in (("a", REJECTED), ("a", REJECTED), ("b", EXPIRED)):
        died = message_format.with_death(content, DeathRecord(queue, reason, "", "k", 100.0, again=True))
        assert died is not None
        content = died
    alive = message_format.encode(Properties(headers={"x-death": "no list"}), b"")
    assert read([content, alive], "deaths").numbers("deaths", "q") == [3, 0]


def test_timestamp_of_64_bits_becomes_the_signed_number() -> None:
    contents = [Amqp091Format().encode(Properties(timestamp=seconds), b"") for seconds in (1, (1 << 64) - 1)]
    assert read(contents, "message_timestamp").numbers("message_timestamp", "q") == [1, -1]


def test_columns_not_asked_for_are_not_encoded() -> None:
    found = read([Amqp091Format().encode(full(1), b"body")], "value", "sequence")
    assert list(found.header["columns"]) == ["sequence", "value"]
    assert found.bodies() == [b"body"]
    assert list(read([], "app_id").header["columns"]) == ["app_id"]


@pytest.mark.parametrize(("ids", "whole"), [("aba", None), ("aab", None), ("aaa", "a"), ("a", "a")])
def test_text_column_is_a_single_value_only_if_all_rows_have_the_value(ids: str, whole: str | None) -> None:
    found = read([Amqp091Format().encode(Properties(message_id=each), b"") for each in ids], "message_id")
    if whole is None:
        assert found.texts("message_id") == list(ids)
    else:
        assert found.header["columns"]["message_id"] == {"all": whole}


def test_address_of_several_equal_envelopes_is_a_single_value() -> None:
    content = Amqp091Format().encode(Properties(), b"")
    envelopes = [Envelope("x", "k"), Envelope("x", "k"), Envelope("x", "other")]
    messages = [Message(envelope, content, 100, at, 2.5) for at, envelope in enumerate(envelopes, 1)]
    found = Read(encode_block("q", messages, FORMATS, 0.0, ["exchange", "routing_key"]))
    assert found.header["columns"]["exchange"] == {"all": "x"}
    assert found.texts("routing_key") == ["k", "k", "other"]


def test_unknown_column_is_refused_by_name() -> None:
    check_columns(EVERY)
    with pytest.raises(PreconditionFailed, match="'columns' names 'queue', which no block has; known are sequence,"):
        check_columns(["value", "queue"])
    check_columns(["content", "sequence"])
    with pytest.raises(PreconditionFailed, match="names both value and content; a content has the body"):
        check_columns(["content", "value"])


@pytest.mark.parametrize(
    ("names", "properties", "most", "least"),
    [
        (["value", "sequence"], full(1), 20_000, 20_000),
        (list(DEFAULT_COLUMNS), Properties(), 20_000, 20_000),
        (list(DEFAULT_COLUMNS), Properties(delivery_mode=2), 10_000, 10_000),
        (list(DEFAULT_COLUMNS), Properties(message_id="m"), 8_000, 8_000),
        (list(DEFAULT_COLUMNS), full(1), 7_000, 3_000),
        (EVERY, full(1), 2_000, 300),
        (EVERY, Properties(headers={f"h{number}": "x" * 100 for number in range(100)}), 20, 5),
    ],
)
def test_block_has_fewer_rows_if_the_columns_are_more_work(
    names: list[str], properties: Properties, most: int, least: int
) -> None:
    one = Message(Envelope("x", "k"), Amqp091Format().encode(properties, b"body"), 100, 1, 2.5)
    rows, work = rows_within(names, [one] * 20_000, FORMATS)
    assert least <= rows <= most
    assert work <= 4_000
    decoded = Message(Envelope("x", "k"), Amqp10Format().encode(properties, b"body"), 100, 1, 2.5)
    assert rows_within(names, [decoded] * 20_000, FORMATS)[0] <= rows
    assert rows_within(names, [one], FORMATS)[0] == 1
    assert rows_within(names, [], FORMATS) == (0, 0)


def test_text_properties_are_in_the_order_of_the_columns() -> None:
    assert [name for name in EVERY if name in TEXT_PROPERTIES] == list(TEXT_PROPERTIES)


class Watched(MessageFormat):
    """Contents of AMQP 0-9-1, with the properties that are looked for in each row."""

    def __init__(self) -> None:
        super().__init__("watched", bytes([2]))
        self.of = Amqp091Format()
        self.looked_for: Counter[int] = Counter()

    def present(self, content: bytes) -> int:
        return int(self.of.present(content))

    def reads_in_place(self, content: bytes) -> bool:
        return True

    def text_property(self, content: bytes, index: int) -> bytes | None:
        self.looked_for[int(index)] += 1
        return self.of.text_property(content, index)

    def number_property(self, content: bytes, index: int) -> int:
        self.looked_for[int(index)] += 1
        return int(self.of.number_property(content, index))

    def body_bytes(self, content: bytes) -> int:
        return int(self.of.body_bytes(content))

    def payload_at(self, content: bytes) -> int:
        return int(self.of.payload_at(content))


def test_columns_that_no_message_has_are_not_looked_for() -> None:
    watched, formats = Watched(), MessageFormats()
    formats.add(watched)
    given = [Properties(message_id=str(number), delivery_mode=2) for number in range(9)] + [Properties(priority=3)]
    contents = [watched.of.encode(properties, b"") for properties in given]
    found = Read(encode_block("q", [Message(Envelope("", "q"), each, 10, 1, 0.0) for each in contents], formats, 0.0,
                              list(DEFAULT_COLUMNS)))  # fmt: skip
    assert watched.looked_for == {PROPERTY_NAMES.index("message_id"): 10, PROPERTY_NAMES.index("priority"): 10}
    assert found.texts("message_id") == [*map(str, range(9)), None]
