"""Neutral properties read from the sections of a message of AMQP 1.0."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.neutral_reader import properties_of
from penstock.wire.amqp10.values import Symbol, Typed, timestamp, ulong
from tests.support.amqp10_sections import walked
from tests.support.amqp10_strategies import section

BODY = section(spec.DATA, b"body")
UUID = "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f"


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
