"""The message format of AMQP 1.0: the sections of a message as its sender wrote them, from byte 0 on.

A content begins with the header section, if the message has one; delivery annotations end where the message arrived.
Rewriting copies the bare message byte by byte.

Selectors read the fields of a message in place: only fields that the selector uses are decoded. A message without
`durable` or `priority` has the defaults of the specification (section 3.2.1). A sender of transient messages, such as
Qpid JMS's, leaves `durable` out.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64
from typing_extensions import override

from penstock.content.death_entries import Entry, deaths_in
from penstock.content.properties import Properties
from penstock.content.selector import fields
from penstock.content.selector.fields import Field, SelectableMessage, id_text
from penstock.core.deaths import SUMMARY_HEADERS, DeathRecord, added_headers
from penstock.core.large_bodies import LargeBody
from penstock.core.message_format import (
    EVERY_PROPERTY,
    MessageFormat,
    PropertyOctets,
    StoredContent,
    UnreadableContent,
    keys_in,
    large_octets,
)
from penstock.errors import InvalidField, PreconditionFailed
from penstock.protocols.amqp10.stored_content import StoredSections
from penstock.texts import worded
from penstock.wire.amqp10 import sections as at
from penstock.wire.amqp10 import values
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor
from penstock.wire.amqp10.neutral_deaths import DEATHS, annotation_of, entries_in, last_times
from penstock.wire.amqp10.neutral_reader import annotations_of, properties_of, property_octets
from penstock.wire.amqp10.neutral_values import AMQP10_TYPE, COPIES, to_amqp10, to_neutral, uuid_text
from penstock.wire.amqp10.neutral_writer import encode_head, encode_message
from penstock.wire.amqp10.sections import Sections, data_octets, joined_data, property_at, with_annotations
from penstock.wire.amqp10.spec import AMQP_VALUE, DATA, HEADER
from penstock.wire.amqp10.value_reader import ValueReader
from penstock.wire.amqp10.value_walk import DESCRIBED, KINDS, STRING32, UNFIT, text_at, value_at
from penstock.wire.amqp10.values import ULONG, CodecError, Symbol, Typed

VALUE_START: Final = b"\x00\x53\x77"
"""Descriptor of an amqp-value."""
FIRST_OCTET: Final = 0
"""First byte of a section: a section is a described value, which begins with 0 (section 1.2)."""


class Amqp10Format(MessageFormat):
    """The format whose contents are message sections."""

    def __init__(self) -> None:
        super().__init__("AMQP 1.0", bytes([FIRST_OCTET]))
        self._selectable = SelectableAmqp10()
        self._walked = Sections()
        """Sections of the last message that was split."""
        self._stored = StoredSections()

    @override
    def check_stored(self, content: bytes, user: bytes, into: StoredContent) -> None:
        self._stored.check(content, user, into)

    @override
    def whole(self, head: bytes, body: LargeBody) -> bytes:
        try:
            return head[: _sections(head).body_at] + large_octets(body)
        except CodecError as error:
            raise UnreadableContent(error.reason) from None

    @override
    def properties(self, content: bytes) -> Properties:
        try:
            return properties_of(content, _sections(content))
        except CodecError as error:
            raise UnreadableContent(error.reason) from None

    @override
    def present(self, content: bytes) -> i64:
        if content[1] == 0x53 and content[2] == DATA:
            return 0
        return EVERY_PROPERTY

    @override
    def body(self, content: bytes) -> bytes:
        try:
            sections = _sections(content)
        except CodecError as error:
            raise UnreadableContent(error.reason) from None
        if sections.body_code == DATA:
            return joined_data(content, sections)
        return content[sections.body_at : sections.body_end]

    @override
    def payload(self, content: bytes) -> bytes:
        try:
            sections = _sections(content)
            if sections.body_code == AMQP_VALUE:
                text = text_at(content, _body_value_at(content, sections))
                if text is not None:
                    return text.encode()
        except CodecError as error:
            raise UnreadableContent(error.reason) from None
        return self.body(content)

    @override
    def text_at(self, beginning: bytes) -> i64:
        if len(beginning) < 8 or beginning[:3] != VALUE_START or beginning[3] != STRING32:
            return 0
        return 8

    @override
    def body_bytes(self, content: bytes) -> i64:
        try:
            sections = _sections(content)
        except CodecError:
            return len(content)
        if sections.body_code == DATA:
            return data_octets(content, sections)
        return sections.body_end - sections.body_at

    @override
    def encode(self, properties: Properties, body: bytes) -> bytes:
        try:
            return encode_message(properties, body)
        except CodecError as error:
            raise PreconditionFailed(f"the properties cannot be sent: {error.reason}") from None

    @override
    def split(self, content: bytes) -> tuple[bytes, bytes, PropertyOctets | None] | None:
        sections = self._walked
        try:
            sections.walk(content, 0, len(content))
        except CodecError:
            return None
        if sections.body_code != DATA:
            return None  # A property names the kind of the body.
        return content[: sections.body_at], joined_data(content, sections), property_octets(content, sections)

    @override
    def encode_head(self, properties: Properties | PropertyOctets) -> bytes | None:
        if isinstance(properties, list) or properties.type == AMQP10_TYPE:
            return None  # A body of that type may be sections.
        try:
            return encode_head(properties)
        except CodecError as error:
            raise PreconditionFailed(f"the properties cannot be sent: {error.reason}") from None

    @override
    def join(self, head: bytes, body: bytes) -> bytes:
        out = BytesWriter()
        out.write(head)
        size: i64 = len(body)
        if size < 256:
            out.write(b"\x00\x53\x75\xa0")
            out.append(int(size))
        else:
            out.write(b"\x00\x53\x75\xb0")
            write_i32_be(out, i32(size))
        out.write(body)
        return out.getvalue()

    @override
    def selectable(self, content: bytes) -> SelectableMessage:
        try:
            self._selectable.open(content)
        except CodecError as error:
            raise UnreadableContent(error.reason) from None
        return self._selectable

    @override
    def with_headers(self, content: bytes, added: dict[str, object]) -> bytes | None:
        if not all(name.startswith("x-") and name.isascii() for name in added):
            return None  # Other headers would be application properties, and the bare message does not change.
        try:
            converted = {name: to_amqp10(value) for name, value in added.items()}
            return with_annotations(content, _sections(content), converted)
        except CodecError:
            return None

    @override
    def with_offset(self, content: bytes, offset: i64) -> bytes | None:
        try:
            return with_annotations(content, _sections(content), {"x-stream-offset": Typed(ULONG, int(offset))})
        except CodecError:
            return None

    @override
    def with_death(self, content: bytes, death: DeathRecord) -> bytes | None:
        try:
            sections = _sections(content)
            annotations = annotations_of(content, sections)
            before = annotations.get(Symbol(DEATHS))
            expiration = None if sections.ttl == ABSENT else str(int(sections.ttl))
            added = added_headers(
                deaths_in(entries_in(before)),
                death,
                expiration,
                keys_in(to_neutral(annotations.get(Symbol(COPIES)))),
                Symbol("x-first-death-reason") in annotations,
            )
            deaths = deaths_in(added.pop("x-death"))
            added[DEATHS] = annotation_of(deaths, last_times(before), death.time)
            removed = (COPIES,) if death.rerouted else ()
            changed = with_annotations(content, sections, added, removed)
        except CodecError:
            return None
        return _without_ttl(changed, sections)

    @override
    def without_deaths(self, content: bytes) -> bytes | None:
        try:
            return with_annotations(content, _sections(content), {}, (DEATHS, *SUMMARY_HEADERS))
        except CodecError:
            return None

    @override
    def death_entries(self, content: bytes) -> list[Entry]:
        return deaths_in(entries_in(_annotation(content, DEATHS)))

    @override
    def copies(self, content: bytes) -> list[str]:
        return keys_in(to_neutral(_annotation(content, COPIES)))

    def checked_copies(self, content: bytes) -> list[str]:
        """Return the routing keys as `copies` does. Raises InvalidField for a value other than a list of strings."""
        value = to_neutral(_annotation(content, COPIES))
        keys = keys_in(value)
        if value is not None and (not isinstance(value, list) or len(keys) < len(value)):
            raise InvalidField(f"annotation {COPIES} is {worded(value)}; a list of strings is valid")
        return keys


def _sections(content: bytes) -> Sections:
    sections = Sections()
    sections.walk(content, 0, len(content))
    return sections


def _body_value_at(content: bytes, sections: Sections) -> i64:
    """Return the position of the value in a body of amqp-value."""
    cursor = FieldCursor()
    cursor.open(content, sections.body_at, sections.body_end)
    return cursor.pos


def _annotation(content: bytes, name: str) -> object:
    try:
        return annotations_of(content, _sections(content)).get(Symbol(name))
    except CodecError:
        return None


def _without_ttl(content: bytes, sections: Sections) -> bytes:
    """Return a message without its ttl; `sections` are the sections of the message before annotations were added."""
    if sections.ttl == ABSENT:
        return content
    header = encode(
        HEADER,
        durable=None if sections.durable == ABSENT else sections.durable == 1,
        priority=None if sections.priority == ABSENT else int(sections.priority),
        first_acquirer=sections.first_acquirer != 0,
        delivery_count=max(int(sections.delivery_count), 0),
    )
    return header + content[sections.annotated_at :]


_INDEXES: Final[list[int]] = [
    *(-1, at.MESSAGE_ID, at.CORRELATION_ID, at.MESSAGE_ID, at.CORRELATION_ID, -1, -1, at.CREATION_TIME, at.SUBJECT),
    *(at.TO, at.REPLY_TO, at.USER_ID, at.CONTENT_TYPE, at.CONTENT_ENCODING, at.ABSOLUTE_EXPIRY_TIME, at.GROUP_ID),
    *(at.GROUP_SEQUENCE, at.REPLY_TO_GROUP_ID),
]
"""Indexes of the properties section by the codes of fields; -1 for fields that are elsewhere."""


class SelectableAmqp10(SelectableMessage):
    """The last opened message. One object serves all messages of a format, one after the other."""

    has_groups = True

    def __init__(self) -> None:
        self._content: bytes = b""
        self._sections = Sections()

    def open(self, content: bytes) -> None:
        """Move to a message. Raises CodecError."""
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
    """Return the value at `pos` of well-formed bytes: a text, number, boolean or None; bytes for other types."""
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
    """Return bytes unchanged, and empty bytes for a list, map or array: selectors only learn that a value exists."""
    return value if isinstance(value, bytes) else b""
