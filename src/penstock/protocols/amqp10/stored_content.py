"""Contents of AMQP 1.0 that a client publishes as a broker stores them: the sections of a message, checked.

The rules are those of a single transfer. Delays that annotations ask for are not begun again: a message that a broker
hands on is due. `x-cc` is not routed again either.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from penstock.content.selector.fields import DEFAULT_PRIORITY
from penstock.core.message_format import StoredContent
from penstock.errors import BrokerError, PreconditionFailed
from penstock.flow.timers import NEVER
from penstock.protocols.amqp10.error_scopes import check_annotations
from penstock.wire.amqp10.composite import write_list
from penstock.wire.amqp10.field_cursor import ABSENT, FieldCursor
from penstock.wire.amqp10.sections import USER_ID, Sections, expiry_ms, property_at
from penstock.wire.amqp10.spec import PROPERTIES
from penstock.wire.amqp10.value_walk import BINARY32, u32, value_end
from penstock.wire.amqp10.values import CodecError

_NULL: Final = b"\x40"


class StoredSections:
    """Check of stored contents; its sections are walked once for each."""

    def __init__(self) -> None:
        self._sections = Sections()

    def check(self, content: bytes, user: bytes, into: StoredContent) -> None:
        """See `MessageFormat.check_stored`."""
        sections = self._sections
        try:
            sections.walk(content, 0, len(content))
            if sections.annotations_end > sections.header_end:
                check_annotations(content, sections)
        except CodecError as error:
            raise PreconditionFailed(error.reason) from None
        except BrokerError as refused:
            raise PreconditionFailed(str(refused)) from None
        into.persistent = sections.durable != 0
        into.priority = DEFAULT_PRIORITY if sections.priority == ABSENT else sections.priority
        into.ttl_s = NEVER if sections.ttl == ABSENT else sections.ttl / 1000
        into.expires_ms = expiry_ms(content, sections.properties, sections.end)
        into.limited_bytes = sections.end
        kept = content
        if sections.properties != ABSENT:
            kept = _without_other_user(content, sections, user)
        if sections.delivery_annotations != ABSENT:
            kept = kept[: sections.header_end] + kept[sections.annotated_at :]
        into.content = kept
        into.charge = len(kept)


def _without_other_user(content: bytes, sections: Sections, user: bytes) -> bytes:
    """Return a message without the user-id of another user."""
    at = property_at(content, sections.properties, sections.end, USER_ID)
    if at == ABSENT or _octets_at(content, at) == user:
        return content
    cursor = FieldCursor()
    cursor.enter_at(content, sections.properties, sections.end)
    count, start, end = cursor.left, cursor.pos, cursor.end
    out = BytesWriter()
    out.write(content[: sections.annotations_end])
    out.write(bytes((0x00, 0x53, PROPERTIES)))
    fields = content[start:at] + _NULL + content[value_end(content, at, end) : end]
    write_list(out, int(count), fields)
    out.write(content[end:])
    return out.getvalue()


def _octets_at(content: bytes, pos: i64) -> bytes:
    """Return the bytes of the binary at `pos` of well-formed bytes."""
    if content[pos] == BINARY32:
        return content[pos + 5 : pos + 5 + u32(content, pos + 1)]
    size: i64 = content[pos + 1]
    return content[pos + 2 : pos + 2 + size]
