"""Messages of AMQP 1.0 with neutral properties: written, read back, and converted between protocols."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.content.properties import Properties
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import decode_composite, encode
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.neutral_reader import properties_of
from penstock.wire.amqp10.neutral_writer import encode_head, encode_message, is_body
from penstock.wire.amqp10.sections import durable_header
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.values import Symbol, Typed
from tests.profiles import examples
from tests.support import amqp091_strategies
from tests.support.amqp10_sections import walked
from tests.support.amqp10_strategies import messages, names, octets_of, section, texts

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
    expected = encode(spec.PROPERTIES, **fields) if any(value is not None for value in fields.values()) else b""
    assert encode_head(given_properties, place) == durable_header(False) + expected
