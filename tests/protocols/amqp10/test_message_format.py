"""The format of AMQP 1.0 messages, alone and beside that of AMQP 0-9-1.

Fields of AMQP 1.0 messages, read in place for selectors.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.content.properties import Properties
from penstock.content.selector.fields import FIELDS, Field
from penstock.content.selector.selector import parse_selector
from penstock.core.deaths import DeathRecord
from penstock.core.message import Envelope, Message
from penstock.core.message_format import EVERY_PROPERTY, HEAD_OCTETS_MAX, HEADS_MAX, MessageFormats, UnreadableContent
from penstock.errors import PreconditionFailed
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.protocols.amqp10.message_format import FIRST_OCTET, Amqp10Format
from penstock.wire.amqp10 import spec, values
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.values import Symbol, Typed, timestamp, ulong
from tests.profiles import examples
from tests.support.amqp10_sections import walked
from tests.support.amqp10_strategies import arguments, messages, names, octets_of, section, texts, uints

DATA = section(spec.DATA, b"body")
FOOTER = section(spec.FOOTER, {Symbol("hash"): 1})
BARE = encode(spec.PROPERTIES, subject="s", to="t") + DATA + FOOTER


@pytest.fixture
def formats() -> MessageFormats:
    found = MessageFormats()
    found.add(Amqp091Format())
    found.add(Amqp10Format())
    return found


FORMAT = Amqp10Format()


@settings(max_examples=examples(300))
@given(messages())
def test_message_begins_with_the_byte_of_the_format(message: dict[int, list[bytes]]) -> None:
    content = octets_of(message)
    assert content[0] == FIRST_OCTET
    FORMAT.properties(content)
    assert FORMAT.body_bytes(content) == len(FORMAT.body(content))


def test_body_is_all_data_or_the_unchanged_sections() -> None:
    assert FORMAT.body(BARE) == b"body"
    assert FORMAT.body(DATA + DATA) == b"bodybody"
    value = section(spec.AMQP_VALUE, "text")
    assert FORMAT.body(value + FOOTER) == value
    assert FORMAT.body(encode(spec.HEADER)) == b""
    assert FORMAT.body_bytes(value + FOOTER) == len(value)


def test_message_of_data_alone_has_no_properties() -> None:
    assert FORMAT.present(DATA) == 0
    assert FORMAT.present(BARE) == EVERY_PROPERTY


def test_malformed_content_is_unreadable() -> None:
    for read in (FORMAT.properties, FORMAT.body):
        with pytest.raises(UnreadableContent):
            read(b"\0\x53\x75\xa0\x05")
    assert FORMAT.body_bytes(b"\0\x53\x75") == 3
    assert FORMAT.headers(b"\0\x53\x75") == {}
    assert FORMAT.with_headers(b"\0\x53\x75", {"x-a": 1}) is None
    assert FORMAT.with_death(b"\0\x53\x75", DeathRecord("q", "expired", "", "q", 1.0)) is None
    assert FORMAT.deaths(b"\0\x53\x75") == []
    assert FORMAT.copies(b"\0\x53\x75") == []


def test_properties_that_do_not_fit_are_refused() -> None:
    with pytest.raises(PreconditionFailed, match="256 does not fit"):
        FORMAT.encode(Properties(priority=256), b"")
    with pytest.raises(PreconditionFailed):
        FORMAT.encode(Properties(user_id="\ud800"), b"")


@settings(max_examples=examples(200))
@given(st.binary(max_size=300))
def test_conversion_keeps_properties_and_body_each_way(body: bytes) -> None:
    formats = MessageFormats()
    formats.add(Amqp091Format())
    formats.add(Amqp10Format())
    made = Properties(headers={"a": 1, "x-b": ["c"]}, delivery_mode=2, message_id="id", reply_to="q", type="t")
    frames = formats.by_octet(2).encode(made, body)
    sections = formats.convert(frames, formats.by_octet(0))
    assert sections[0] == FIRST_OCTET
    back = formats.convert(sections, formats.by_octet(2))
    for content in (frames, sections, back):
        found = formats.of(content)
        assert (found.properties(content), found.body(content)) == (made, body)


def test_value_crosses_in_amqp_encoding_and_back(formats: MessageFormats) -> None:
    value = section(spec.AMQP_VALUE, {"a": [1, None]})
    frames = formats.convert(value, formats.by_octet(2))
    assert formats.of(frames).properties(frames).type == "amqp-1.0"
    assert formats.convert(frames, formats.by_octet(0)).endswith(value)


def test_annotations_are_added_and_the_bare_message_stays() -> None:
    changed = FORMAT.with_headers(BARE, {"x-delivery-count": 2})
    assert changed.endswith(BARE)
    assert FORMAT.headers(changed) == {"x-delivery-count": 2}
    assert FORMAT.with_headers(BARE, {"a": 1}) is None


def test_delivery_count_is_added(formats: MessageFormats) -> None:
    message = Message(Envelope("", "q"), BARE, 300, 1, 0.0)
    message.past = 3
    counted = formats.with_delivery_count(message)
    assert FORMAT.headers(counted.content) == {"x-delivery-count": 3}


def test_deaths_equal_the_deaths_of_frames(formats: MessageFormats) -> None:
    made = Properties(expiration="50", headers={"CC": ["copy"], "a": 1}, delivery_mode=2, priority=3)
    records = [
        DeathRecord("q", "expired", "in", "key", 5.0),
        DeathRecord("r", "rejected", "in", "key", 6.0, True, True),
    ]
    found = []
    for one in (formats.by_octet(2), formats.by_octet(0)):
        content = one.encode(made, b"body")
        for record in records:
            died = one.with_death(content, record)
            assert died is not None
            content = died
        assert one.deaths(content) == [("r", "rejected"), ("q", "expired")]
        assert one.copies(content) == []
        found.append((one.properties(content), one.body(content)))
    assert found[0] == found[1]
    assert found[0][0].expiration is None


def test_death_leaves_the_bare_message_and_counts_again() -> None:
    content = BARE
    for time in (5.0, 6.0):
        died = FORMAT.with_death(content, DeathRecord("q", "rejected", "e", "k", time, again=time > 5.0))
        assert died is not None
        content = died
    assert content.endswith(BARE)
    deaths = FORMAT.headers(content)["x-death"]
    assert isinstance(deaths, list)
    assert [entry["count"] for entry in deaths] == [2]
    assert FORMAT.copies(section(spec.MESSAGE_ANNOTATIONS, {Symbol("x-cc"): ["a", 5]}) + DATA) == ["a"]


def test_death_removes_the_ttl_and_no_other_field_of_the_header() -> None:
    content = encode(spec.HEADER, durable=True, priority=7, ttl=50, delivery_count=2) + DATA
    died = FORMAT.with_death(content, DeathRecord("q", "expired", "", "q", 5.0))
    assert died is not None
    sections = walked(died)
    assert (sections.durable, sections.priority, sections.ttl, sections.delivery_count) == (1, 7, -1, 2)


def test_death_leaves_the_absence_of_durable_unchanged() -> None:
    died = FORMAT.with_death(encode(spec.HEADER, ttl=50) + DATA, DeathRecord("q", "expired", "", "q", 5.0))
    assert died is not None
    sections = walked(died)
    assert (sections.durable, sections.ttl) == (ABSENT, ABSENT)
    assert FORMAT.properties(died).delivery_mode == 2


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        (section(spec.AMQP_VALUE, "größe"), "größe".encode()),
        (section(spec.AMQP_VALUE, "t" * 300), b"t" * 300),
        (section(spec.AMQP_VALUE, [1]), section(spec.AMQP_VALUE, [1])),
        (section(spec.AMQP_SEQUENCE, [1]), section(spec.AMQP_SEQUENCE, [1])),
        (DATA + DATA, b"bodybody"),
    ],
)
def test_payload_of_a_text_is_utf_8(body: bytes, payload: bytes) -> None:
    assert FORMAT.payload(encode(spec.PROPERTIES, subject="s") + body) == payload


@pytest.mark.parametrize("size", [0, 100, 300, 300_000])
@pytest.mark.parametrize(
    "properties",
    [
        Properties(delivery_mode=1),
        Properties(delivery_mode=2, message_id="m", headers={"a": 1, "x-b": "c"}, type="t", expiration="9"),
        Properties(delivery_mode=2, message_id="m" * 250, headers={"long": "x" * HEAD_OCTETS_MAX}),
        Properties(delivery_mode=2, type="amqp-1.0"),
    ],
    ids=["plain", "many", "long", "type"],
)
def test_content_converted_by_head_equals_conversion_by_properties_and_body(
    formats: MessageFormats, properties: Properties, size: int
) -> None:
    old, new = formats.by_octet(2), formats.by_octet(FIRST_OCTET)
    body = bytes(size)
    for source, target in ((old, new), (new, old)):
        content = source.encode(properties, body)
        expected = target.encode(source.properties(content), source.body(content))
        for _ in range(2):  # The second time the head is known.
            assert formats.convert(content, target) == expected


plain = st.fixed_dictionaries(
    {"message_id": texts},
    optional={
        "user_id": st.sampled_from([b"guest", b"", b"a\0", b"\xff", "ü".encode()]),
        "to": texts,
        "reply_to": texts | st.sampled_from(["/queues/q", "q", "/", "q" * 300]),
        "correlation_id": texts,
        "content_type": names,
        "content_encoding": names,
        "absolute_expiry_time": st.integers(0, 2**40),
        "creation_time": st.integers(-(2**63), 2**63 - 1),
        "group_id": texts,
    },
)
"""Fields of the properties section that most messages have no others of."""
head = st.fixed_dictionaries({}, optional={"durable": st.booleans(), "priority": st.integers(0, 255), "ttl": uints})


@settings(max_examples=examples(300))
@given(plain | arguments(spec.COMPOSITES[spec.PROPERTIES]), head)
def test_message_with_an_own_id_is_converted_like_the_properties(
    properties: dict[str, Any], header: dict[str, Any]
) -> None:
    formats = MessageFormats()
    old, new = Amqp091Format(), Amqp10Format()
    formats.add(old)
    formats.add(new)
    content = encode(spec.HEADER, **header) + encode(spec.PROPERTIES, **properties) + DATA
    expected = old.encode(new.properties(content), b"body")
    assert formats.convert(content, old) == expected
    assert formats.convert(expected, new) == new.encode(old.properties(expected), b"body")


def test_message_with_an_id_leaves_no_head_behind_unlike_a_message_without(formats: MessageFormats) -> None:
    old = formats.by_octet(2)
    for number in range(3):
        content = encode(spec.PROPERTIES, message_id=str(number), creation_time=1999, content_type="a") + DATA
        found = old.properties(formats.convert(content, old))
        assert found == Properties(delivery_mode=2, message_id=str(number), timestamp=1, content_type="a")
    assert not old.heads
    formats.convert(encode(spec.PROPERTIES, correlation_id="c") + DATA, old)
    assert len(old.heads[FIRST_OCTET]) == 1


def test_converted_heads_are_bounded_and_kept_apart(formats: MessageFormats) -> None:
    old, new = formats.by_octet(2), formats.by_octet(FIRST_OCTET)
    for number in range(3 * HEADS_MAX):
        content = old.encode(Properties(correlation_id=str(number)), b"body")
        assert new.properties(formats.convert(content, new)).correlation_id == str(number)
        assert len(new.heads[2]) <= HEADS_MAX


def test_value_and_data_with_the_same_head_are_converted_separately(formats: MessageFormats) -> None:
    old, new = formats.by_octet(2), formats.by_octet(FIRST_OCTET)
    head = encode(spec.HEADER, durable=True)
    value = section(spec.AMQP_VALUE, "text")
    for content, body, kind in ((head + DATA, b"body", None), (head + value, value, "amqp-1.0")):
        converted = formats.convert(content, old)
        assert (old.body(converted), old.properties(converted).type) == (body, kind)
        assert new.body(formats.convert(converted, new)) == body


SELECTABLE_MESSAGE_FORMAT = Amqp10Format()
UUID = bytes(range(16))
UUID_TEXT = "00010203-0405-0607-0809-0a0b0c0d0e0f"


def message(application: dict[object, object] | None = None, **properties: object) -> bytes:
    found = encode(spec.PROPERTIES, **properties)
    if application is not None:
        found += section(spec.APPLICATION_PROPERTIES, application)
    return found + section(spec.DATA, b"body")


def lookup(content: bytes, name: str) -> object:
    return SELECTABLE_MESSAGE_FORMAT.selectable(content).lookup(Field(name))


@pytest.mark.parametrize(
    ("properties", "name", "value"),
    [
        ({"message_id": "ID:1"}, "JMSMessageID", "ID:1"),
        ({"message_id": "order"}, "JMSMessageID", "ID:AMQP_NO_PREFIX:order"),
        ({"message_id": ulong(7)}, "JMSMessageID", "ID:AMQP_ULONG:7"),
        ({"message_id": Typed(values.UUID, UUID)}, "JMSMessageID", f"ID:AMQP_UUID:{UUID_TEXT}"),
        ({"message_id": b"\x01\xab"}, "JMSMessageID", "ID:AMQP_BINARY:01AB"),
        ({"correlation_id": "order"}, "JMSCorrelationID", "order"),
        ({"correlation_id": ulong(7)}, "JMSCorrelationID", "ID:AMQP_ULONG:7"),
        ({"message_id": ulong(7)}, "amqp.message_id", 7),
        ({"correlation_id": Typed(values.UUID, UUID)}, "amqp.correlation_id", UUID_TEXT),
        ({"correlation_id": b"\x01"}, "amqp.correlation_id", b"\x01"),
        ({"subject": "s"}, "JMSType", "s"),
        ({"creation_time": 5}, "JMSTimestamp", 5),
        ({"absolute_expiry_time": 6}, "amqp.absolute_expiry_time", 6),
        ({"group_id": "g"}, "JMSXGroupID", "g"),
        ({"group_sequence": 3}, "JMSXGroupSeq", 3),
        ({"reply_to_group_id": "g"}, "amqp.reply_to_group_id", "g"),
        ({"user_id": "günther".encode()}, "JMSXUserID", "günther"),
        ({"to": "/queues/q"}, "amqp.to", "/queues/q"),
        ({"reply_to": "r"}, "amqp.reply_to", "r"),
        ({"content_type": "text/plain"}, "amqp.content_type", "text/plain"),
        ({"content_encoding": "gzip"}, "amqp.content_encoding", "gzip"),
    ],
)
def test_field_of_the_properties_section(properties: dict[str, object], name: str, value: object) -> None:
    assert lookup(message(**properties), name) == value
    assert lookup(message(), name) is None
    assert lookup(section(spec.DATA, b"body"), name) is None


def test_fields_of_the_header_have_the_defaults_of_the_specification() -> None:
    header = encode(spec.HEADER, durable=True, priority=7)
    assert lookup(header + message(), "JMSPriority") == 7
    assert lookup(header + message(), "JMSDeliveryMode") == "PERSISTENT"
    assert lookup(encode(spec.HEADER) + message(), "JMSDeliveryMode") == "NON_PERSISTENT"
    assert lookup(message(), "JMSPriority") == 4
    assert lookup(message(), "JMSDeliveryMode") == "NON_PERSISTENT"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("text", "text"),
        ("x" * 300, "x" * 300),
        (Symbol("s"), "s"),
        (True, True),
        (-7, -7),
        (2**40, 2**40),
        (ulong(2**64 - 1), 2**64 - 1),
        (1.5, 1.5),
        (timestamp(9), 9),
        (Typed(values.CHAR, "é"), "é"),
        (None, None),
        (b"\x01", b"\x01"),
        (Typed(values.DECIMAL32, b"\x00\x01\x02\x03"), b"\x00\x01\x02\x03"),
        ([1, 2], b""),
    ],
)
def test_application_property_of_each_type(value: object, found: object) -> None:
    content = message({"other": 1, "grün": value})
    assert lookup(content, "grün") == found
    assert lookup(content, "missing") is None
    assert lookup(message(), "grün") is None


@settings(max_examples=examples(500))
@given(messages())
def test_selector_field_of_a_message_can_be_looked_up(parts: dict[int, list[bytes]]) -> None:
    content = octets_of(parts)
    found = SELECTABLE_MESSAGE_FORMAT.selectable(content)
    for name in (*FIELDS, "a"):
        found.lookup(Field(name))
    sections = walked(content)
    if sections.application_properties >= 0:
        entries = decode_value(content, int(sections.application_properties))[0]
        for key, value in entries.items():
            if isinstance(key, str) and len(key.encode()) < 256 and isinstance(value, str | bool | float):
                seen = lookup(content, key)
                assert seen == value or value != value


def test_malformed_message_is_unreadable() -> None:
    with pytest.raises(UnreadableContent):
        SELECTABLE_MESSAGE_FORMAT.selectable(b"\x00\x53\x74\xc1")


def test_selector_finds_the_same_in_a_message_that_crosses_from_amqp_0_9_1() -> None:
    there = message({"region": "EU", "price": 5}, message_id="ID:1", group_id="g")
    frames = Amqp091Format()
    here = frames.encode(SELECTABLE_MESSAGE_FORMAT.properties(there), b"body")
    for text in ("region = 'EU' AND price > 4", "JMSMessageID = 'ID:1'", "JMSPriority = 4 AND JMSXGroupID LIKE '_'"):
        selector = parse_selector(text)
        assert selector.matches(SELECTABLE_MESSAGE_FORMAT.selectable(there))
        assert selector.matches(frames.selectable(here))
