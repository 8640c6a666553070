"""The format of large messages: properties, headers and deaths are those of the head, in its publisher's format.

A changed head refers to the same body. The body itself is returned only while all of it is in memory.
"""

from __future__ import annotations

from librt.strings import BytesWriter
from mypy_extensions import i64
from typing_extensions import override

from penstock.content.properties import Properties
from penstock.content.selector.fields import SelectableMessage
from penstock.core.death_record import DeathRecord
from penstock.core.large_bodies import LargeBody, write_data
from penstock.core.large_content import LARGE_OCTET, body_of, head_of, with_head
from penstock.core.message_format import MessageFormat, MessageFormats, UnreadableContent
from penstock.errors import PreconditionFailed


class LargeFormat(MessageFormat):
    """The format whose contents refer to a body in pieces."""

    def __init__(self, formats: MessageFormats) -> None:
        super().__init__("large message", bytes([LARGE_OCTET]))
        self._formats = formats

    def of_head(self, content: bytes) -> MessageFormat:
        """Return the format of the head, which is the publisher's."""
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
        write_data(out, _in_memory(content), 0)
        return out.getvalue()

    @override
    def payload(self, content: bytes) -> bytes:
        out = BytesWriter()
        body = _in_memory(content)
        skipped: i64 = 0
        if body.spans[0].start == 0:  # Data sections begin behind their descriptor.
            skipped = self.of_head(content).text_at(body.pieces[0][:8])
        write_data(out, body, skipped)
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
    def deaths(self, content: bytes) -> list[tuple[str, str]]:
        return self.of_head(content).deaths(head_of(content))

    @override
    def copies(self, content: bytes) -> list[str]:
        return self.of_head(content).copies(head_of(content))


def _in_memory(content: bytes) -> LargeBody:
    """Return the body of a large message. Raises UnreadableContent unless all of it is in memory."""
    body = body_of(content)
    if body is None or not body.is_in_memory():
        raise UnreadableContent("the body of a large message is not in memory")
    return body
