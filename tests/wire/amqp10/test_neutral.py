"""Neutral properties in messages of AMQP 1.0: read, sent, and converted between protocols.

Also: addresses of queues and exchanges, and x-opt-deaths, as RabbitMQ 4 has them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.content.death_entries import Entry, deaths_in
from penstock.content.field_table import check_table
from penstock.content.properties import Properties
from penstock.wire.amqp091.codec import encode_table
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import decode_composite, encode
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.neutral import (
    annotation_of,
    encode_head,
    encode_message,
    entries_in,
    exchange_address,
    is_body,
    last_times,
    milliseconds_of,
    moment_of,
    neutral_table,
    percent_decoded,
    properties_of,
    queue_address,
    reply_queue,
    symbol_or_text,
    to_amqp10,
    to_neutral,
    to_reply_address,
    uuid_text,
)
from penstock.wire.amqp10.sections import durable_header
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Array, Described, Symbol, Typed, timestamp, uint, ulong
from tests.profiles import examples
from tests.support import amqp091_strategies, amqp10_strategies
from tests.support.amqp10_sections import walked
from tests.support.amqp10_strategies import messages, names, octets_of, section, texts

ENTRY: Entry = {
    "queue": "q",
    "reason": "expired",
    "count": 2,
    "time": datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC),
    "exchange": "e",
    "routing-keys": ["k", "l"],
    "original-expiration": "50",
}


def test_deaths_are_an_array_of_maps_in_rabbitmqs_order() -> None:
    (item,) = annotation_of([ENTRY], {}, 9.5).values
    assert list(item.items()) == [
        (Symbol("ttl"), uint(50)),
        (Symbol("queue"), "q"),
        (Symbol("reason"), Symbol("expired")),
        (Symbol("count"), ulong(2)),
        (Symbol("first-time"), timestamp(5000)),
        (Symbol("last-time"), timestamp(9500)),
        (Symbol("exchange"), "e"),
        (Symbol("routing-keys"), Array("string", ["k", "l"])),
    ]


def test_deaths_are_read_as_they_were_written() -> None:
    other: Entry = {**ENTRY, "queue": "r", "count": 1}
    del other["original-expiration"]
    annotation = annotation_of([ENTRY, other], {("r", "expired"): timestamp(7000)}, 9.0)
    found = decode_value(encode_value(annotation))[0]
    assert deaths_in(entries_in(found)) == [ENTRY, other]
    assert last_times(found) == {("q", "expired"): timestamp(9000), ("r", "expired"): timestamp(7000)}


def test_death_of_an_unknown_last_time_has_that_of_the_first() -> None:
    (item,) = annotation_of([ENTRY], {}).values
    assert item[Symbol("last-time")] == timestamp(5000)


def test_annotation_of_another_form_has_no_deaths() -> None:
    for value in (None, "a", [], Array("uint", [1]), Array("map", [{}]), Array("map", [{Symbol("queue"): 5}])):
        assert deaths_in(entries_in(value)) == []
        last_times(value)


BODY = section(spec.DATA, b"body")
UUID = "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f"


FULL = Properties(
    content_type="text/plain",
    content_encoding="gzip",
    headers={"a": 1, "b": "text", "x-opt-a": [1], "CC": ["copy"]},
    delivery_mode=2,
    priority=5,
    correlation_id=UUID,
    reply_to="a b/ü",
    expiration="50",
    message_id="id",
    timestamp=7,
    type="t",
    user_id="guest",
    app_id="app",
)


def test_neutral_properties_come_back() -> None:
    content = encode_message(FULL, b"body")
    assert properties_of(content, walked(content)) == FULL


def test_neutral_properties_have_their_sections() -> None:
    content = encode_message(FULL, b"body")
    found = walked(content)
    assert (found.durable, found.priority, found.ttl, found.first_acquirer) == (1, 5, 50, 1)
    fields = decode_composite(b"\x00\x53\x73" + content[found.properties :])[0].fields
    assert fields["correlation_id"] == Typed("uuid", bytes(range(16)))
    assert fields["reply_to"] == "/queues/a%20b%2F%C3%BC"
    assert fields["creation_time"] == 7000
    assert fields["group_id"] == "app"
    assert decode_value(content, int(found.application_properties))[0] == {"a": 1, "b": "text"}
    assert decode_value(content, int(found.message_annotations))[0] == {
        Symbol("x-opt-a"): [1],
        Symbol("x-cc"): ["copy"],
        Symbol("x-basic-type"): "t",
    }


def test_properties_that_amqp10_cannot_carry_are_omitted() -> None:
    made = Properties(
        headers={"list": [1], "table": {}, "BCC": ["b"], "x-ü": 1},
        expiration="soon",
        content_type="ü",
        timestamp=2**63,
        cluster_id="c",
    )
    content = encode_message(made, b"")
    assert properties_of(content, walked(content)).as_dict() == {"delivery_mode": 1}
    assert walked(encode_message(Properties(expiration="4294967296"), b"")).ttl == ABSENT


def test_text_that_is_no_uuid_stays_text() -> None:
    for text in ("urn:uuid:x", UUID[:-1] + "g", UUID.replace("-", "0"), "urn:uuid:" + "-" * 36):
        content = encode_message(Properties(message_id=text), b"")
        assert properties_of(content, walked(content)).message_id == text


def test_body_in_amqp_encoding_comes_back_as_sections() -> None:
    value = section(spec.AMQP_VALUE, ["a", 1])
    assert encode_message(Properties(type="amqp-1.0"), value).endswith(b"amqp-1.0" + value)
    assert is_body(value)
    for octets in (b"", b"text", value + b"\0", encode(spec.HEADER) + value, value + section(spec.FOOTER, {})):
        assert not is_body(octets)
        content = encode_message(Properties(type="amqp-1.0"), octets)
        assert walked(content).body_code == spec.DATA


@settings(max_examples=examples(500))
@given(messages())
def test_message_has_neutral_properties_that_can_be_sent_on(message: dict[int, list[bytes]]) -> None:
    content = octets_of(message)
    found = properties_of(content, walked(content))
    again = encode_message(found, b"")
    walked(again)


@settings(max_examples=examples(500))
@given(amqp091_strategies.properties)
def test_neutral_properties_make_a_well_formed_message(given_properties: dict[str, Any]) -> None:
    content = encode_message(Properties(**given_properties), b"body")
    assert walked(content).body_code == spec.DATA


def test_names_in_addresses_are_percent_encoded() -> None:
    assert queue_address("a/b ü") == "/queues/a%2Fb%20%C3%BC"
    assert exchange_address("x/y") == "/exchanges/x%2Fy"
    assert exchange_address("x", "a.#") == "/exchanges/x/a.%23"
    assert exchange_address("x", "") == "/exchanges/x/"


@pytest.mark.parametrize(
    ("reply_to", "neutral", "back"),
    [
        ("/queues/a%2Fb", "a/b", "/queues/a%2Fb"),
        ("/queues/%2Fslash", "/slash", "/queues/%2Fslash"),
        ("replies", "replies", "/queues/replies"),
        ("/queues/%ff", "/queues/%ff", "/queues/%ff"),
        ("/exchanges/x/k", "/exchanges/x/k", "/exchanges/x/k"),
        ("/exchanges/x", "/exchanges/x", "/exchanges/x"),
    ],
)
def test_reply_to_of_a_queue_crosses_by_its_name(reply_to: str, neutral: str, back: str) -> None:
    assert reply_queue(reply_to) == neutral
    assert to_reply_address(neutral) == back


def neutral(*parts: bytes, body: bytes = BODY) -> dict[str, object]:
    """Return the neutral properties of sections, without the delivery mode."""
    content = b"".join(parts) + body
    found = properties_of(content, walked(content)).as_dict()
    del found["delivery_mode"]
    return found


def properties(**fields: Any) -> bytes:
    return encode(spec.PROPERTIES, **fields)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"message_id": "id"}, {"message_id": "id"}),
        ({"message_id": ulong(2**64 - 1)}, {"message_id": "18446744073709551615"}),
        ({"message_id": Typed("uuid", bytes(range(16)))}, {"message_id": UUID}),
        ({"message_id": b"\xff"}, {"headers": {"x-message-id": b"\xff"}}),
        ({"message_id": "i" * 256}, {"headers": {"x-message-id": "i" * 256}}),
        ({"correlation_id": b"a"}, {"headers": {"x-correlation-id": b"a"}}),
        ({"user_id": b"guest"}, {"user_id": "guest"}),
        ({"user_id": b"\xff"}, {}),
        ({"user_id": b"a\0"}, {}),
        ({"to": "/queues/q", "subject": "s", "group_sequence": 5, "reply_to_group_id": "g"}, {}),
        ({"reply_to": "/queues/a%20b%2Fc"}, {"reply_to": "a b/c"}),
        ({"reply_to": "/exchanges/e/k"}, {"reply_to": "/exchanges/e/k"}),
        ({"content_type": "text/plain"}, {"content_type": "text/plain"}),
        ({"content_encoding": "gzip"}, {"content_encoding": "gzip"}),
        ({"creation_time": 1999}, {"timestamp": 1}),
        ({"creation_time": -1}, {}),
        ({"group_id": "g"}, {"app_id": "g"}),
        ({"group_id": "g" * 256}, {}),
    ],
)  # fmt: skip
def test_properties_section(fields: dict[str, Any], found: dict[str, object]) -> None:
    assert neutral(properties(**fields)) == found


@given(
    ids=st.lists(st.none() | texts, min_size=2, max_size=2),
    symbols=st.lists(st.none() | names, min_size=2, max_size=2),
    user=st.none() | texts,
    app=st.none() | texts | st.just("a" * 300),
    seconds=st.none() | st.integers(0, 2**50),
    place=st.dictionaries(st.sampled_from(("to", "subject", "reply_to")), texts),
)
def test_properties_section_is_that_of_the_composite(
    ids: list[str | None],
    symbols: list[str | None],
    user: str | None,
    app: str | None,
    seconds: int | None,
    place: dict[str, object],
) -> None:
    given_properties = Properties(
        message_id=ids[0], correlation_id=ids[1], user_id=user, app_id=app, timestamp=seconds,
        content_type=symbols[0], content_encoding=symbols[1],
    )  # fmt: skip
    fields: dict[str, Any] = {
        "message_id": ids[0], "correlation_id": ids[1], "user_id": None if user is None else user.encode(),
        "group_id": app, "creation_time": None if seconds is None else seconds * 1000,
        "content_type": symbols[0], "content_encoding": symbols[1], **place,
    }  # fmt: skip
    expected = properties(**fields) if any(value is not None for value in fields.values()) else b""
    assert encode_head(given_properties, place) == durable_header(False) + expected


def test_header_section() -> None:
    header = encode(spec.HEADER, durable=True, priority=9, ttl=50)
    assert neutral(header) == {"priority": 9, "expiration": "50"}
    for durable, mode in ((True, 2), (False, 1)):
        content = b"\x00\x53\x70\xc0\x02\x01" + (b"\x41" if durable else b"\x42") + BODY
        assert properties_of(content, walked(content)).delivery_mode == mode
    assert properties_of(BODY, walked(BODY)).delivery_mode == 2


def test_application_properties_and_annotations_are_headers() -> None:
    application = section(spec.APPLICATION_PROPERTIES, {"a": Typed("int", 5), "k" * 256: 1, "n": None})
    annotations = section(
        spec.MESSAGE_ANNOTATIONS,
        {
            Symbol("x-opt-a"): Symbol("v"),
            Symbol("other"): 1,
            Symbol("x-cc"): ["copy"],
            Symbol("x-routing-key"): "k",
            Symbol("x-basic-priority"): 5,
            Symbol("x-opt-rabbitmq-received-time"): timestamp(5),
            ulong(7): 1,
        },
    )
    assert neutral(annotations, application) == {
        "headers": {"a": 5, "n": None, "x-opt-a": "v", "CC": ["copy"], "timestamp_in_ms": 5}
    }


def test_type_is_an_annotation_or_the_encoding_of_the_body() -> None:
    assert neutral(section(spec.MESSAGE_ANNOTATIONS, {Symbol("x-basic-type"): "t"})) == {"type": "t"}
    assert neutral(body=section(spec.AMQP_VALUE, "text")) == {"type": "amqp-1.0"}
    assert neutral(body=section(spec.AMQP_SEQUENCE, [1])) == {"type": "amqp-1.0"}


@pytest.mark.parametrize("address", ["/queues/", "/queues/a/b", "/queues/%ff", "/queues/%zz", "/queues/" + 256 * "a"])
def test_reply_to_that_names_no_queue_stays(address: str) -> None:
    assert reply_queue(address) == address


def test_invalid_percent_encoding_is_refused() -> None:
    assert percent_decoded("a%20%C3%BC") == "a ü"
    for part, said in (("a%2", "two hexadecimal digits"), ("%ff", "bytes that are not UTF-8")):
        with pytest.raises(ValueError, match=said):
            percent_decoded(part)


MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MOMENT_MS = 1767323045000


@pytest.mark.parametrize(
    ("value", "neutral"),
    [
        (Symbol("a"), "a"),
        ("ü", "ü"),
        (b"\xff", b"\xff"),
        (uint(5), 5),
        (Typed("byte", -5), -5),
        (ulong(2**63), str(2**63)),
        (ulong(2**63 - 1), 2**63 - 1),
        (Typed("float", 1.5), 1.5),
        (Typed("char", "x"), "x"),
        (Typed("uuid", bytes(range(16))), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (Typed("decimal32", b"\x01\x02\x03\x04"), "01020304"),
        (timestamp(MOMENT_MS + 999), MOMENT),
        (timestamp(-1000), -1),
        (None, None),
        (True, True),
        ([Symbol("a"), [uint(1)]], ["a", [1]]),
        ({Symbol("a"): uint(1), ulong(5): None, b"k": 1}, {"a": 1, "5": None, "k": 1}),
        ({"k" * 256: 1, "ü" * 128: 1, "k" * 255: 2}, {"k" * 255: 2}),
        (Array("symbol", ["a"]), ["a"]),
        (Array("timestamp", [MOMENT_MS]), [MOMENT]),
        (Described(Symbol("x"), uint(1)), 1),
    ],
)
def test_amqp10_type_has_its_neutral_value(value: object, neutral: object) -> None:
    assert to_neutral(value) == neutral


@pytest.mark.parametrize(
    ("neutral", "value"),
    [
        ("a" * 300, "a" * 300),
        (5, 5),
        (2**63, str(2**63)),
        (MOMENT, timestamp(MOMENT_MS)),
        (Decimal("1.5"), "1.5"),
        ([1, MOMENT], [1, timestamp(MOMENT_MS)]),
        ({"a": 1, "ü": 2}, {Symbol("a"): 1, "ü": 2}),
        (bytearray(b"a"), b"a"),
        (None, None),
    ],
)
def test_neutral_value_has_an_amqp10_type(neutral: object, value: object) -> None:
    assert to_amqp10(neutral) == value


@settings(max_examples=examples(500))
@given(amqp10_strategies.application_properties)
def test_application_properties_make_headers_that_amqp091_can_carry(entries: dict[object, object]) -> None:
    table = neutral_table(entries)
    check_table(table)
    encode_table(table)


@settings(max_examples=examples(500))
@given(st.dictionaries(st.text(max_size=5), amqp10_strategies.anything, max_size=3))
def test_amqp10_value_makes_a_header_that_amqp091_can_carry(entries: dict[object, object]) -> None:
    encode_table(neutral_table(entries))


@settings(max_examples=examples(300))
@given(amqp091_strategies.values)
def test_neutral_value_can_be_encoded(value: object) -> None:
    encode_value(to_amqp10(value))


def test_value_nested_too_deep_is_omitted() -> None:
    value: object = []
    for _ in range(31):
        value = [value]
    encode_table(neutral_table({"deep": value}))


def test_parts() -> None:
    assert moment_of(10**18) == 10**15
    assert milliseconds_of(datetime(1970, 1, 1, 0, 0, 1, 500_000)) == 1500  # noqa: DTZ001
    assert uuid_text(bytes(16)) == "00000000-0000-0000-0000-000000000000"
    assert symbol_or_text("a") == Symbol("a")
    assert symbol_or_text("ü") == "ü"
