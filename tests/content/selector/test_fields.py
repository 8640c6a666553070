"""Fields that selectors name, and their values in messages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.content.properties import Properties
from penstock.content.selector.fields import (
    AMQP,
    EXCLUDED,
    FIELDS,
    JMS_MESSAGE_ID,
    MESSAGE_ID,
    PROPERTY,
    Field,
    NeutralMessage,
    id_text,
)


def test_name_without_a_meaning_is_an_application_property() -> None:
    assert [int(Field(name).code) for name in ("JMSMessageID", "amqp.message_id", "jmsmessageid", "JMS_VENDOR")] == [
        JMS_MESSAGE_ID,
        MESSAGE_ID,
        PROPERTY,
        PROPERTY,
    ]
    assert Field("grün").key == "grün".encode()


def test_known_selector_fields_are_not_excluded() -> None:
    assert not EXCLUDED & FIELDS.keys()
    assert all(name.startswith(("JMS", AMQP)) for name in FIELDS)


@pytest.mark.parametrize(
    ("text", "kind", "is_message_id", "shown"),
    [
        ("ID:1", "", True, "ID:1"),
        ("order-1", "", True, "ID:AMQP_NO_PREFIX:order-1"),
        ("order-1", "", False, "order-1"),
        ("7", "AMQP_ULONG:", True, "ID:AMQP_ULONG:7"),
        ("7", "AMQP_ULONG:", False, "ID:AMQP_ULONG:7"),
    ],
)
def test_ids_are_texts_as_qpid_jms_forms_them(text: str, kind: str, is_message_id: bool, shown: str) -> None:
    assert id_text(text, kind, is_message_id) == shown


FULL = NeutralMessage(
    Properties(
        "text/plain",
        "gzip",
        {"price": 1.5, "x-hidden": 1, "at": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), "list": [1]},
        2,
        9,
        "c1",
        "replies",
        "5000",
        "m1",
        17,
        "t",
        "u",
        "app",
    )
)
EMPTY = NeutralMessage(Properties())


@pytest.mark.parametrize(
    ("name", "full", "empty"),
    [
        ("JMSMessageID", "ID:AMQP_NO_PREFIX:m1", None),
        ("JMSCorrelationID", "c1", None),
        ("JMSPriority", 9, 4),
        ("JMSDeliveryMode", "PERSISTENT", "NON_PERSISTENT"),
        ("JMSTimestamp", 17_000, None),
        ("JMSType", None, None),
        ("JMSXGroupID", "app", None),
        ("JMSXGroupSeq", None, None),
        ("JMSXUserID", "u", None),
        ("amqp.message_id", "m1", None),
        ("amqp.correlation_id", "c1", None),
        ("amqp.reply_to", "replies", None),
        ("amqp.content_type", "text/plain", None),
        ("amqp.content_encoding", "gzip", None),
        ("amqp.to", None, None),
        ("price", 1.5, None),
        ("at", 2000, None),
        ("list", [1], None),
        ("x-hidden", None, None),
    ],
)
def test_selector_field_has_the_value_that_an_amqp10_receiver_sees(name: str, full: object, empty: object) -> None:
    assert FULL.lookup(Field(name)) == full
    assert EMPTY.lookup(Field(name)) == empty


def test_selector_field_can_be_looked_up() -> None:
    for name in FIELDS:
        FULL.lookup(Field(name))
