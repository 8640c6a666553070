"""Fields that selectors name."""

from __future__ import annotations

import pytest

from penstock.content.selector.fields import (
    AMQP,
    EXCLUDED,
    FIELDS,
    JMS_MESSAGE_ID,
    MESSAGE_ID,
    PROPERTY,
    Field,
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


def test_no_field_is_known_and_excluded() -> None:
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
