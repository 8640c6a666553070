"""Fields of AMQP 1.0 messages, read in place for selectors."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from penstock.content.selector.fields import FIELDS, Field
from penstock.content.selector.selector import parse_selector
from penstock.core.message_format import UnreadableContent
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.protocols.amqp10.message_format import Amqp10Format
from penstock.wire.amqp10 import spec, values
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.values import Symbol, Typed, timestamp, ulong
from tests.profiles import examples
from tests.support.amqp10_strategies import messages, octets_of, section

FORMAT = Amqp10Format()
UUID = bytes(range(16))
UUID_TEXT = "00010203-0405-0607-0809-0a0b0c0d0e0f"


def message(application: dict[object, object] | None = None, **properties: object) -> bytes:
    found = encode(spec.PROPERTIES, **properties)
    if application is not None:
        found += section(spec.APPLICATION_PROPERTIES, application)
    return found + section(spec.DATA, b"body")


def lookup(content: bytes, name: str) -> object:
    return FORMAT.selectable(content).lookup(Field(name))


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
def test_every_field_of_any_message_can_be_looked_up(parts: dict[int, list[bytes]]) -> None:
    content = octets_of(parts)
    found = FORMAT.selectable(content)
    for name in (*FIELDS, "a"):
        found.lookup(Field(name))
    sections = Sections()
    sections.walk(content, 0, len(content))
    if sections.application_properties >= 0:
        entries = decode_value(content, int(sections.application_properties))[0]
        assert isinstance(entries, dict)
        for key, value in entries.items():
            if isinstance(key, str) and len(key.encode()) < 256 and isinstance(value, str | bool | float):
                seen = lookup(content, key)
                assert seen == value or value != value


def test_malformed_message_is_unreadable() -> None:
    with pytest.raises(UnreadableContent):
        FORMAT.selectable(b"\x00\x53\x74\xc1")


def test_selector_finds_the_same_in_a_message_that_crosses_from_amqp_0_9_1() -> None:
    there = message({"region": "EU", "price": 5}, message_id="ID:1", group_id="g")
    frames = Amqp091Format()
    here = frames.encode(FORMAT.properties(there), b"body")
    for text in ("region = 'EU' AND price > 4", "JMSMessageID = 'ID:1'", "JMSPriority = 4 AND JMSXGroupID LIKE '_'"):
        selector = parse_selector(text)
        assert selector is not None
        assert selector.matches(FORMAT.selectable(there))
        assert selector.matches(frames.selectable(here))
