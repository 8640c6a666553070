"""The fields of an AMQP 1.0 message for selectors, read in place: only what a selector asks for is decoded.

A message without `durable` or `priority` has the defaults of the specification (section 3.2.1). A sender that is not
persistent, such as that of Qpid JMS, leaves `durable` out.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.content.selector import fields
from penstock.content.selector.fields import Field, SelectableMessage, id_text
from penstock.wire.amqp10 import sections as at
from penstock.wire.amqp10 import values
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.format_codes import DESCRIBED, KINDS
from penstock.wire.amqp10.map_walk import text_at, value_at
from penstock.wire.amqp10.neutral_values import uuid_text
from penstock.wire.amqp10.sections import Sections, property_at
from penstock.wire.amqp10.value_reader import ValueReader
from penstock.wire.amqp10.value_walk import UNFIT

_INDEXES: Final[list[int]] = [
    *(-1, at.MESSAGE_ID, at.CORRELATION_ID, at.MESSAGE_ID, at.CORRELATION_ID, -1, -1, at.CREATION_TIME, at.SUBJECT),
    *(at.TO, at.REPLY_TO, at.USER_ID, at.CONTENT_TYPE, at.CONTENT_ENCODING, at.ABSOLUTE_EXPIRY_TIME, at.GROUP_ID),
    *(at.GROUP_SEQUENCE, at.REPLY_TO_GROUP_ID),
]
"""Indexes of the properties section by the codes of fields; -1 for fields that are elsewhere."""


class SelectableAmqp10(SelectableMessage):
    """The message that was opened last. One object serves all messages of a format, one after the other."""

    def __init__(self) -> None:
        self._content: bytes = b""
        self._sections = Sections()

    def open(self, content: bytes) -> None:
        """Go to a message. Raises CodecError."""
        self._content = content
        self._sections.walk(content, 0, len(content))

    @override
    def lookup(self, field: Field) -> object:
        sections = self._sections
        content = self._content
        code = field.code
        if code == fields.PROPERTY:
            if sections.application_properties == ABSENT:
                return None
            pos = value_at(content, sections.application_properties, len(content), field.key)
            return None if pos == UNFIT else _value_at(content, pos)
        if code == fields.PRIORITY:
            return fields.DEFAULT_PRIORITY if sections.priority == ABSENT else int(sections.priority)
        if code == fields.DELIVERY_MODE:
            return fields.PERSISTENT if sections.durable == 1 else fields.NON_PERSISTENT
        pos = property_at(content, sections.properties, len(content), _INDEXES[code])
        if pos == ABSENT:
            return None
        if code == fields.JMS_MESSAGE_ID or code == fields.JMS_CORRELATION_ID:
            return _jms_id(content, pos, code == fields.JMS_MESSAGE_ID)
        value = _value_at(content, pos)
        if isinstance(value, bytes):
            if KINDS[content[pos]] == values.UUID:
                return uuid_text(value)
            if code == fields.USER_ID:
                return value.decode(errors="replace")
        return value


def _jms_id(content: bytes, pos: i64, is_message_id: bool) -> str:
    """Return an id as text, as Qpid JMS shows it to applications."""
    value = _value_at(content, pos)
    if isinstance(value, bytes):
        if KINDS[content[pos]] == values.UUID:
            return id_text(uuid_text(value), "AMQP_UUID:", is_message_id)
        return id_text(value.hex().upper(), "AMQP_BINARY:", is_message_id)
    if isinstance(value, int):
        return id_text(str(value), "AMQP_ULONG:", is_message_id)
    return id_text(str(value), "", is_message_id)


def _value_at(content: bytes, pos: i64) -> object:
    """Return the value at `pos` of well-formed octets: a text, number, boolean or None; octets for anything else."""
    text = text_at(content, pos)
    if text is not None:
        return text
    code = content[pos]
    if code == DESCRIBED:
        return b""
    reader = ValueReader(content, int(pos) + 1)
    value = reader.plain(code, 1)
    return value if value is None or isinstance(value, (str, bool, int, float)) else _octets(value)


def _octets(value: object) -> bytes:
    """Return octets as they are, and none for a list, map or array: selectors only know that there is a value."""
    return value if isinstance(value, bytes) else b""
