"""The message format of AMQP 0-9-1: a content header frame and body frames, as they came from the publisher.

Rewriting copies what does not change octet by octet: a table may hold what no neutral value can express.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64
from typing_extensions import override

from penstock.content.death_entries import deaths_in
from penstock.content.message_columns import MessageColumns
from penstock.content.names import CC
from penstock.content.properties import Properties
from penstock.core.death_headers import added_headers, pairs_of
from penstock.core.death_record import DeathRecord
from penstock.core.message_format import (
    NO_NUMBER,
    MessageFormat,
    MessageFormats,
    RowEncoder,
    UnreadableContent,
)
from penstock.errors import PreconditionFailed
from penstock.protocols.amqp091 import content_frames
from penstock.protocols.amqp091.cc_bcc import copies_of
from penstock.protocols.amqp091.header_rewriter import HeaderRewriter
from penstock.protocols.amqp091.row_encoder import Amqp091RowEncoder
from penstock.wire.amqp091.codec import CodecError, encode_header
from penstock.wire.amqp091.content_header import (
    EXPIRATION,
    FIXED_OCTETS,
    FLAGS_AT,
    HEADERS,
    SIZES,
    flags_of,
    property_at,
)
from penstock.wire.amqp091.field_reader import FieldReader
from penstock.wire.amqp091.spec import FRAME_HEADER, FRAME_OVERHEAD

_BODY_SIZE_AT: Final = 11
"""Position of the body size in a content (sections 2.3.5.2 and 4.2.6.1)."""


class Amqp091Format(MessageFormat):
    """The format whose contents begin with a content header frame."""

    def __init__(self) -> None:
        super().__init__("AMQP 0-9-1", bytes([FRAME_HEADER]))

    @override
    def properties(self, content: bytes) -> Properties:
        try:
            return content_frames.properties_of(content)
        except CodecError as error:
            raise UnreadableContent(error.reason) from None

    @override
    def row_encoder(self, columns: MessageColumns) -> RowEncoder:
        return Amqp091RowEncoder(columns)

    @override
    def present(self, content: bytes) -> i64:
        return flags_of(content)

    @override
    def reads_in_place(self, content: bytes) -> bool:
        return True

    @override
    def text_property(self, content: bytes, index: i64) -> bytes | None:
        at = property_at(content, index)
        if at == 0:
            return None
        end = at + 1 + i64(content[at])
        if end >= content_frames.header_end(content):
            return None
        text = content[at + 1 : end]
        return text if text.isascii() or _is_utf8(text) else None

    @override
    def number_property(self, content: bytes, index: i64) -> i64:
        at = property_at(content, index)
        if at == 0:
            return NO_NUMBER
        octets: i64 = SIZES[index]
        if at + octets >= content_frames.header_end(content):
            return NO_NUMBER
        if octets == 1:
            return i64(content[at])
        return read_i64_be(content, at)

    @override
    def header_table(self, content: bytes) -> dict[str, object] | None:
        at = property_at(content, HEADERS)
        if at == 0:
            return None
        try:
            return FieldReader(content, int(at)).table()
        except CodecError:
            return None

    @override
    def body(self, content: bytes) -> bytes:
        return content_frames.body_of(content)

    @override
    def payload_at(self, content: bytes) -> i64:
        return content_frames.payload_at(content)

    def body_bytes(self, content: bytes) -> i64:
        """See `MessageFormat.body_bytes`; the size is in the header, also while the body is incomplete."""
        return read_i64_be(content, _BODY_SIZE_AT)

    def charge(self, content: bytes) -> i64:
        """See `MessageFormat.charge`: flags and properties as encoded, and the body without its frames."""
        return content_frames.header_end(content) - FRAME_OVERHEAD - FIXED_OCTETS + self.body_bytes(content)

    @override
    def encode(self, properties: Properties, body: bytes) -> bytes:
        try:
            content = content_frames.make_content(properties, body)
        except CodecError as error:
            raise PreconditionFailed(f"the properties cannot be sent: {error.reason}") from None
        octets = content_frames.header_end(content) - FRAME_OVERHEAD
        if octets > content_frames.FRAME_PAYLOAD_MAX:
            raise PreconditionFailed(
                f"the properties cannot be sent: they have {octets:,} octets, but a frame holds "
                f"{content_frames.FRAME_PAYLOAD_MAX:,}"
            )
        return content

    @override
    def split(self, content: bytes) -> tuple[bytes, bytes] | None:
        end = content_frames.header_end(content)
        return content[FLAGS_AT : end - 1], content_frames.body_of(content)

    @override
    def encode_head(self, properties: Properties) -> bytes | None:
        try:
            head = encode_header(0, properties)[FIXED_OCTETS:]
        except CodecError as error:
            raise PreconditionFailed(f"the properties cannot be sent: {error.reason}") from None
        return head if len(head) + FIXED_OCTETS <= content_frames.FRAME_PAYLOAD_MAX else None

    @override
    def join(self, head: bytes, body: bytes) -> bytes:
        return content_frames.joined(head, body)

    @override
    def with_headers(self, content: bytes, added: dict[str, object]) -> bytes | None:
        try:
            return HeaderRewriter(content).with_headers(added)
        except CodecError:
            return None

    @override
    def with_death(self, content: bytes, death: DeathRecord) -> bytes | None:
        try:
            message = HeaderRewriter(content)
            deaths = deaths_in(_x_death(message))
        except CodecError:
            return None
        octets = message.properties[EXPIRATION]
        expiration = octets[1:].decode(errors="replace") if octets else None
        died_before = "x-first-death-reason" in message.headers
        added = added_headers(deaths, death, expiration, copies_of(content), died_before)
        if death.rerouted:
            message.headers.pop(CC, None)
        message.properties[EXPIRATION] = b""
        return message.with_headers(added)

    @override
    def deaths(self, content: bytes) -> list[tuple[str, str]]:
        try:
            return pairs_of(deaths_in(_x_death(HeaderRewriter(content))))
        except CodecError:
            return []

    @override
    def copies(self, content: bytes) -> list[str]:
        return copies_of(content)


def as_frames(content: bytes, formats: MessageFormats) -> bytes:
    """Return a content of any format as header and body frames."""
    if content and content[0] == FRAME_HEADER:
        return content
    return formats.convert(content, formats.by_octet(FRAME_HEADER))


def _is_utf8(octets: bytes) -> bool:
    try:
        octets.decode()
    except UnicodeDecodeError:
        return False
    return True


def _x_death(message: HeaderRewriter) -> object:
    """Return the value of the header x-death; None without one. Raises CodecError."""
    octets = message.headers.get("x-death")
    if octets is None:
        return None
    reader = FieldReader(octets)
    reader.shortstr()
    return reader.value(1)
