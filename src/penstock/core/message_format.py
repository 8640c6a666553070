"""Message formats: how a protocol encodes the content of its messages, and the format of large messages.

A message keeps the content that its publisher sent, in memory and in the store. Its first byte identifies the format: 2
begins a content header frame of AMQP 0-9-1. A content is read with its format. A protocol that delivers a message of
another format converts the content; the message and its charge do not change.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.content.death_entries import Entry, deaths_in
from penstock.content.message_columns import MessageColumns
from penstock.content.properties import CC, Properties
from penstock.content.selector.fields import NeutralMessage, SelectableMessage
from penstock.core.deaths import SUMMARY_HEADERS, DeathRecord, added_headers, pairs_of
from penstock.core.large_bodies import PIECE_OCTETS, LargeBody
from penstock.core.large_content import LARGE_OCTET, body_of, head_of, is_large, with_head
from penstock.core.message import Message
from penstock.errors import FrameError, PreconditionFailed
from penstock.flow.level import OVERHEAD
from penstock.flow.timers import NEVER

HEADS_MAX: Final = 256
"""Most converted heads that a format caches for each source; at the bound all are dropped."""
HEAD_OCTETS_MAX: Final = 512
"""Most bytes of a head whose conversion is cached."""
NO_NUMBER: Final = -(1 << 63)
"""Result of `number_property` for an absent number."""
FIRST_PROPERTY: Final = 0x8000
EVERY_PROPERTY: Final = 0xFFFF
"""Bits of properties, in the order of the flags of AMQP 0-9-1 (section 1.8.1)."""


PropertyOctets = list[bytes]
"""Properties by `PROPERTY_NAMES`, empty if absent: a text after its size in one byte; a number big-endian, in as many
bytes as in AMQP 0-9-1.
"""


class UnreadableContent(FrameError):
    """A content whose format is unknown, or whose encoding is malformed."""


class StoredContent:
    """A content that a client publishes as a broker stores it, once it is checked. One object serves many messages."""

    __slots__ = ("content", "charge", "limited_bytes", "persistent", "priority", "ttl_s", "expires_ms")

    def __init__(self) -> None:
        self.content: bytes = b""
        """The content, without what its publisher may not say: the user-id of another user."""
        self.charge: i64 = 0
        """Bytes of its properties and body that count."""
        self.limited_bytes: i64 = 0
        """Bytes that the largest message of the broker limits."""
        self.persistent: bool = False
        self.priority: i64 = 0
        self.ttl_s: float = NEVER
        self.expires_ms: i64 = 0
        """Time at which it expires, in milliseconds since 1970; 0 for none."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RowEncoder:
    """Encoder of the rows of one block, in one format."""

    def __init__(self) -> None:
        self.charge: i64 = 0
        """Charge of the last encoded row."""

    def encode(self, row: i64) -> bytes:
        """Return the content of a row. Raises PreconditionFailed (406) for a row that cannot be a message."""
        raise NotImplementedError


class _NeutralRowEncoder(RowEncoder):
    """Encoder of rows by way of neutral properties."""

    def __init__(self, target: MessageFormat, columns: MessageColumns) -> None:
        super().__init__()
        self._target = target
        self._columns = columns

    @override
    def encode(self, row: i64) -> bytes:
        content = self._target.encode(self._columns.properties(row), self._columns.body(row))
        self.charge = self._target.charge(content) + OVERHEAD
        return content


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageFormat:
    """The format of one protocol's contents.

    A subclass has at least `properties`, `body` and `encode`; the other methods have a default that decodes and
    encodes the whole content.
    """

    def __init__(self, name: str, first_octets: bytes) -> None:
        self.name = name
        """Displayed name, such as "AMQP 0-9-1"."""
        self.first_octets = first_octets
        """All first bytes of the format's contents; no other format has any of them."""
        self.heads: dict[int, dict[bytes, bytes]] = {}
        """Converted heads by the first byte of their source, and the source's head: most messages share a few heads."""
        self.names_left_out: i64 = 0
        """Headers that `header_table` has left out since the caller set this to 0: their names are not UTF-8."""

    def check_stored(self, content: bytes, user: bytes, into: StoredContent) -> None:
        """Check a content that a client publishes as it is stored, and set what its publish needs to know.

        Raises PreconditionFailed (406) for a content that a single publish could not have, and unless the format can
        check contents.
        """
        raise PreconditionFailed(f"a content of {self.name} is not published as it is stored")

    def whole(self, head: bytes, body: LargeBody) -> bytes:
        """Return the content of a large message in one piece; its body is in memory. Raises PreconditionFailed."""
        return self.encode(self.properties(head), large_data(body))

    def properties(self, content: bytes) -> Properties:
        """Return the properties of a message. Raises UnreadableContent."""
        raise NotImplementedError

    def body(self, content: bytes) -> bytes:
        """Return the body of a message."""
        raise NotImplementedError

    def encode(self, properties: Properties, body: bytes) -> bytes:
        """Return the content of a message. Raises PreconditionFailed (406) for properties that the format cannot
        carry.
        """
        raise NotImplementedError

    def row_encoder(self, columns: MessageColumns) -> RowEncoder:
        """Return an encoder of the rows of a block."""
        return _NeutralRowEncoder(self, columns)

    def present(self, content: bytes) -> i64:
        """Return the properties that a message may have, as bits: `FIRST_PROPERTY >> index` in `PROPERTY_NAMES`.

        The result is 0 for a message without properties. The check is cheaper than reading the properties.
        """
        return EVERY_PROPERTY

    def reads_in_place(self, content: bytes) -> bool:
        """Return whether `text_property`, `number_property` and `header_table` read this content.

        For few properties these are cheaper than `properties`. Each property is read by itself: a malformed one counts
        as absent. A property is an index in `PROPERTY_NAMES`.
        """
        return False

    def text_property(self, content: bytes, index: i64) -> bytes | None:
        """Return a text property, in UTF-8."""
        raise NotImplementedError

    def number_property(self, content: bytes, index: i64) -> i64:
        """Return a number property, or NO_NUMBER; a number from 2^63 on is returned as the signed number of its
        bits.
        """
        raise NotImplementedError

    def header_table(self, content: bytes) -> dict[str, object] | None:
        """Return the headers; None without any. A header whose name is not UTF-8 is left out."""
        raise NotImplementedError

    def headers(self, content: bytes) -> dict[str, object]:
        """Return the headers that exchanges route by; empty if they cannot be read."""
        try:
            return self.properties(content).headers or {}
        except UnreadableContent:
            return {}

    def payload(self, content: bytes) -> bytes:
        """Return the body of a message as a program reads it: a text in the protocol's own encoding is returned in
        UTF-8.
        """
        return self.body(content)

    def payload_at(self, content: bytes) -> i64:
        """Return the index of the payload, if the content has it in one piece of `body_bytes` bytes; otherwise -1."""
        return -1

    def text_at(self, beginning: bytes) -> i64:
        """Return the index of the text in a body with these first bytes; 0 unless the body is a text in the protocol's
        encoding.
        """
        return 0

    def body_bytes(self, content: bytes) -> i64:
        """Return the bytes of a message's body."""
        return len(self.body(content))

    def charge(self, content: bytes) -> i64:
        """Return the bytes of a message's properties and body that count in its charge."""
        return len(content)

    def with_headers(self, content: bytes, added: dict[str, object]) -> bytes | None:
        """Return a message with additional headers; None if the format cannot carry them."""
        try:
            properties = self.properties(content)
            properties.headers = {**(properties.headers or {}), **added}
            return self.encode(properties, self.body(content))
        except (UnreadableContent, PreconditionFailed):
            return None

    def with_offset(self, content: bytes, offset: i64) -> bytes | None:
        """Return the content with the offset of a message of a stream; None if the format cannot carry it."""
        return self.with_headers(content, {"x-stream-offset": int(offset)})

    def split(self, content: bytes) -> tuple[bytes, bytes, PropertyOctets | None] | None:
        """Return the bytes that alone decide the properties of a message, and its body; None if there are no such
        bytes.

        Also None if the message has an id and no unusual property: no other message has the same properties.
        """
        return None

    def encode_head(self, properties: Properties | PropertyOctets) -> bytes | None:
        """Return the bytes that `join` puts before the body of a message with these properties.

        None if the body depends on the properties, or they do not fit, or the bytes must be decoded. Raises
        PreconditionFailed (406) as `encode` does.
        """
        return None

    def join(self, head: bytes, body: bytes) -> bytes:
        """Return the content of a message from its head (`encode_head`) and its body."""
        raise NotImplementedError

    def selectable(self, content: bytes) -> SelectableMessage:
        """Return the fields of a message for selectors; valid until the next call. Raises UnreadableContent."""
        return NeutralMessage(self.properties(content))

    def fields(self, content: bytes) -> SelectableMessage:
        """Return the fields of a message as `selectable` does; no fields if they cannot be read."""
        try:
            return self.selectable(content)
        except UnreadableContent:
            return NeutralMessage(Properties())

    # Dead letters

    def with_death(self, content: bytes, death: DeathRecord) -> bytes | None:
        """Return a message with a death record and without its expiration; None if the format cannot carry one."""
        try:
            properties = self.properties(content)
            headers = dict(properties.headers or {})
            added = added_headers(
                deaths_in(headers.get("x-death")),
                death,
                properties.expiration,
                keys_in(headers.get(CC)),
                "x-first-death-reason" in headers,
            )
            if death.rerouted:
                headers.pop(CC, None)
            properties.headers = {**headers, **added}
            properties.expiration = None
            return self.encode(properties, self.body(content))
        except (UnreadableContent, PreconditionFailed):
            return None

    def without_deaths(self, content: bytes) -> bytes | None:
        """Return a message without its death headers; None if the format cannot remove them."""
        try:
            properties = self.properties(content)
            headers = properties.headers or {}
            properties.headers = {
                name: value for name, value in headers.items() if name != "x-death" and name not in SUMMARY_HEADERS
            }
            return self.encode(properties, self.body(content))
        except (UnreadableContent, PreconditionFailed):
            return None

    def deaths(self, content: bytes) -> list[tuple[str, str]]:
        """Return the death records of a message, the last one first: queue and reason, each pair once."""
        return pairs_of(self.death_entries(content))

    def death_entries(self, content: bytes) -> list[Entry]:
        """Return the entries of x-death, the last death first; none if they cannot be read."""
        return deaths_in(self.headers(content).get("x-death"))

    def copies(self, content: bytes) -> list[str]:
        """Return the additional routing keys of a message (CC)."""
        return keys_in(self.headers(content).get(CC))


class _Opaque(MessageFormat):
    """Contents of no known format: the whole content is the body, and nothing can be added."""

    def __init__(self) -> None:
        super().__init__("opaque", b"")

    def properties(self, content: bytes) -> Properties:
        return Properties()

    def body(self, content: bytes) -> bytes:
        return content

    def encode(self, properties: Properties, body: bytes) -> bytes:
        return body

    def present(self, content: bytes) -> i64:
        return 0

    def with_headers(self, content: bytes, added: dict[str, object]) -> bytes | None:
        return None

    def with_death(self, content: bytes, death: DeathRecord) -> bytes | None:
        return content


class MessageFormats:
    """The formats of a broker, by the first byte of their contents."""

    def __init__(self) -> None:
        opaque = _Opaque()
        self._opaque: MessageFormat = opaque
        self._by_octet: list[MessageFormat] = [opaque] * 256
        self.default: MessageFormat = opaque
        """Format of messages that the broker itself makes; the first format added."""

    def add(self, added: MessageFormat) -> None:
        """Add a format. Raises ValueError if the format has no first byte, or shares one with another format."""
        if not added.first_octets:
            raise ValueError(f"message format {added.name} has no first byte")
        for octet in added.first_octets:
            other = self._by_octet[octet]
            if other is not self._opaque:
                raise ValueError(f"message formats {other.name} and {added.name} have the same first byte {octet}")
        for octet in added.first_octets:
            self._by_octet[octet] = added
        if self.default is self._opaque:
            self.default = added

    def add_large(self, added: MessageFormat) -> None:
        """Add the format of large messages, which is never the default."""
        for octet in added.first_octets:
            self._by_octet[octet] = added

    def knows(self, octet: i64) -> bool:
        """Return whether there is a format of contents that begin with a byte."""
        return self._by_octet[octet] is not self._opaque

    def names(self) -> str:
        """Return the protocols' formats, each with its first byte."""
        found: dict[str, str] = {}
        for octet, each in enumerate(self._by_octet):
            if each is not self._opaque and octet != LARGE_OCTET:
                found.setdefault(each.name, f"{each.name} ({octet})")
        return " and ".join(found.values())

    def by_octet(self, octet: i64) -> MessageFormat:
        """Return the format of contents that begin with a byte. Raises UnreadableContent if there is none."""
        message_format = self._by_octet[octet]
        if message_format is self._opaque:
            raise UnreadableContent(f"content of an unknown format: its first byte is {octet}")
        return message_format

    def of(self, content: bytes) -> MessageFormat:
        """Return the format of a content. Raises UnreadableContent if the content is empty, or of no known format."""
        if not content:
            raise UnreadableContent("content without a byte: its format is unknown")
        return self.by_octet(content[0])

    def find(self, content: bytes) -> MessageFormat:
        """Return the format of a content; for an unknown one, a format that takes the whole content as its body."""
        return self._by_octet[content[0]] if content else self._opaque

    def body_bytes(self, content: bytes) -> i64:
        """Return the bytes of a message's body."""
        return self.find(content).body_bytes(content)

    def whole(self, content: bytes) -> bytes:
        """Return a content in one piece, as its publisher sent it: a large message has its body, which is in memory.

        Raises UnreadableContent if it is not in memory.
        """
        if not is_large(content):
            return content
        body = _in_memory(content)
        head = head_of(content)
        return self.find(head).whole(head, body)

    def encode(self, properties: Properties, body: bytes) -> bytes:
        """Return a message of the broker in the default format, without properties if the format cannot carry them."""
        return _encoded(self.default, properties, body)

    def convert(self, content: bytes, target: MessageFormat) -> bytes:
        """Return a content in another format.

        Properties that cannot be read, or that the target cannot carry, are left out: a consumer gets at least the
        body. The body of an unknown format is the whole content. A large body that is not in memory is left out.
        """
        source = self.find(content)
        if source is target:
            return content
        parts = source.split(content)
        if parts is not None:
            head = _converted_head(content, parts[0], parts[2], source, target)
            if head is not None:
                return target.join(head, parts[1])
        try:
            properties = source.properties(content)
        except UnreadableContent:
            properties = Properties()
        try:
            body = source.body(content)
        except UnreadableContent:
            body = b"" if is_large(content) else content
        return _encoded(target, properties, body)

    def parts(self, content: bytes, target: MessageFormat) -> tuple[bytes, bytes] | None:
        """Return the parts from which another format joins its content; None if the content is used or converted as a
        whole.
        """
        source = self.find(content)
        parts = None if source is target else source.split(content)
        if parts is None:
            return None
        head = _converted_head(content, parts[0], parts[2], source, target)
        return None if head is None else (head, parts[1])

    def with_delivery_count(self, message: Message) -> Message:
        """Return a message with its delivery count (x-delivery-count), as RabbitMQ's quorum queues add it."""
        if message.failures == 0:
            return message
        added: dict[str, object] = {"x-delivery-count": message.failures}
        content = self.find(message.content).with_headers(message.content, added)
        if content is None:
            return message
        counted = Message(message.envelope, content, message.charge, message.sequence, message.arrived)
        counted.past = message.past
        return counted


def keys_in(value: object) -> list[str]:
    """Return the routing keys in the value of a header CC or BCC; empty if the value is no array."""
    return [key for key in value if isinstance(key, str)] if isinstance(value, list) else []


def _converted_head(
    content: bytes, head: bytes, octets: PropertyOctets | None, source: MessageFormat, target: MessageFormat
) -> bytes | None:
    """Return the head of a content in another format, and cache it; None if there is no such head."""
    converted = None if octets is None else target.encode_head(octets)
    if converted is not None:
        return converted
    if len(head) > HEAD_OCTETS_MAX:
        return None
    octet = content[0]
    heads = target.heads.get(octet)
    if heads is None:
        heads = {}
        target.heads[octet] = heads
    converted = heads.get(head)
    if converted is None:
        try:
            converted = target.encode_head(source.properties(content))
        except (UnreadableContent, PreconditionFailed):
            return None
        if converted is None:
            return None
        if len(heads) >= HEADS_MAX:
            heads.clear()
        heads[head] = converted
    return converted


def _encoded(target: MessageFormat, properties: Properties, body: bytes) -> bytes:
    try:
        return target.encode(properties, body)
    except PreconditionFailed:
        return target.encode(Properties(), body)


class LargeFormat(MessageFormat):
    """The format whose contents refer to a body in pieces."""

    def __init__(self, formats: MessageFormats) -> None:
        super().__init__("large message", bytes([LARGE_OCTET]))
        self._formats = formats

    def of_head(self, content: bytes) -> MessageFormat:
        """Return the format of the head, which is the publisher's format."""
        return self._formats.find(head_of(content))

    @override
    def properties(self, content: bytes) -> Properties:
        return self.of_head(content).properties(head_of(content))

    @override
    def present(self, content: bytes) -> i64:
        return self.of_head(content).present(head_of(content))

    @override
    def headers(self, content: bytes) -> dict[str, object]:
        return self.of_head(content).headers(head_of(content))

    @override
    def body(self, content: bytes) -> bytes:
        out = BytesWriter()
        _write_data(out, _in_memory(content), 0)
        return out.getvalue()

    @override
    def payload(self, content: bytes) -> bytes:
        out = BytesWriter()
        body = _in_memory(content)
        skipped: i64 = 0
        if body.spans[0].start == 0:  # Data sections begin behind their descriptor.
            skipped = self.of_head(content).text_at(body.pieces[0][:8])
        _write_data(out, body, skipped)
        return out.getvalue()

    def body_bytes(self, content: bytes) -> i64:
        """See `MessageFormat.body_bytes`."""
        body = body_of(content)
        return 0 if body is None else body.data_octets()

    def charge(self, content: bytes) -> i64:
        """See `MessageFormat.charge`."""
        body = body_of(content)
        octets: i64 = 0 if body is None else body.octets
        return self.of_head(content).charge(head_of(content)) + octets

    @override
    def encode(self, properties: Properties, body: bytes) -> bytes:
        raise PreconditionFailed("a large message is not encoded at once")

    @override
    def with_headers(self, content: bytes, added: dict[str, object]) -> bytes | None:
        head = self.of_head(content).with_headers(head_of(content), added)
        return None if head is None else with_head(content, head)

    @override
    def selectable(self, content: bytes) -> SelectableMessage:
        return self.of_head(content).selectable(head_of(content))

    @override
    def with_death(self, content: bytes, death: DeathRecord) -> bytes | None:
        head = self.of_head(content).with_death(head_of(content), death)
        return None if head is None else with_head(content, head)

    @override
    def without_deaths(self, content: bytes) -> bytes | None:
        head = self.of_head(content).without_deaths(head_of(content))
        return None if head is None else with_head(content, head)

    @override
    def death_entries(self, content: bytes) -> list[Entry]:
        return self.of_head(content).death_entries(head_of(content))

    @override
    def copies(self, content: bytes) -> list[str]:
        return self.of_head(content).copies(head_of(content))


def _in_memory(content: bytes) -> LargeBody:
    """Return the body of a large message. Raises UnreadableContent unless all of it is in memory."""
    body = body_of(content)
    if body is None or not body.is_in_memory():
        raise UnreadableContent("the body of a large message is not in memory")
    return body


def large_data(body: LargeBody) -> bytes:
    """Return the data of a body whose pieces are all in memory."""
    out = BytesWriter()
    _write_data(out, body, 0)
    return out.getvalue()


def large_octets(body: LargeBody) -> bytes:
    """Return a body whose pieces are all in memory, with the encoding of its publisher's protocol."""
    return b"".join([body.pieces[index] for index in range(body.piece_count())])


def _write_data(out: BytesWriter, body: LargeBody, skipped: i64) -> None:
    """Write the data of a body whose pieces are all in memory, without its first bytes."""
    for span in body.spans:
        position = span.start + skipped
        skipped = 0
        end = span.start + span.octets
        while position < end:
            at = position % PIECE_OCTETS
            count = end - position if end - position < PIECE_OCTETS - at else PIECE_OCTETS - at
            out.write(body.pieces[int(position // PIECE_OCTETS)][at : at + count])
            position += count
