"""A message format of a toy protocol: T, the properties as JSON, a line feed, the body."""

from __future__ import annotations

import json
from datetime import datetime

from penstock.content.properties import Properties
from penstock.core.message_format import MessageFormat, UnreadableContent
from penstock.errors import PreconditionFailed


class ToyFormat(MessageFormat):
    """It has only what a format must have; it cannot carry numbers for types."""

    def __init__(self) -> None:
        super().__init__("toy", b"T")

    def properties(self, content: bytes) -> Properties:
        try:
            return Properties(**json.loads(content[1 : content.index(b"\n")]))
        except (ValueError, TypeError):
            raise UnreadableContent("a toy's properties are no JSON") from None

    def body(self, content: bytes) -> bytes:
        if b"\n" not in content:
            raise UnreadableContent("a toy's body begins after a line feed")
        return content[content.index(b"\n") + 1 :]

    def encode(self, properties: Properties, body: bytes) -> bytes:
        if properties.cluster_id is not None:
            raise PreconditionFailed("a toy has no clusters")
        values = json.dumps(properties.as_dict(), separators=(",", ":"), default=_moment)
        return b"T" + values.encode() + b"\n" + body


def _moment(value: object) -> object:
    """Times travel as texts."""
    assert isinstance(value, datetime)
    return value.isoformat()
