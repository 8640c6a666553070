"""Malformed performatives and messages as broker errors, with the condition that the codec chose."""

from __future__ import annotations

from typing import Final

from penstock.errors import BrokerError, NotImplementedHere
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.malformed import DECODE_ERROR, FRAMING_ERROR, INVALID_FIELD, NOT_IMPLEMENTED, CodecError
from penstock.wire.amqp10.map_walk import reserved_key, text_at
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.value_walk import UNFIT

_CODES: Final[dict[str, int]] = {FRAMING_ERROR: 501, DECODE_ERROR: 502, INVALID_FIELD: 406, NOT_IMPLEMENTED: 540}
"""Keys of `errors.CODES` by condition of the codec."""
KEY_LETTERS: Final = 60
"""Letters of a key that an error repeats."""


class MalformedPerformative(BrokerError):
    """A frame or performative that cannot be read. The connection is closed."""

    def __init__(self, error: CodecError) -> None:
        super().__init__(error.reason)
        self.code = _CODES[error.condition]
        self.finer_condition = error.condition


def check_annotations(data: bytes, sections: Sections) -> None:
    """Check the keys of annotations. Raises NotImplementedHere for a reserved one: none is known (section 3.2.10)."""
    for place in (sections.delivery_annotations, sections.message_annotations):
        if place != ABSENT:
            at = reserved_key(data, place, sections.end)
            if at != UNFIT:
                said = text_at(data, at)
                key = "a number" if said is None else f"'{said[:KEY_LETTERS]}'"
                raise NotImplementedHere(f'an annotation with the reserved key {key}; free ones begin with "x-"')


class MalformedMessage(BrokerError):
    """A message whose sections cannot be read. Its delivery is rejected, and the link stays."""

    ends = "delivery"

    def __init__(self, error: CodecError) -> None:
        super().__init__(error.reason)
        self.code = _CODES[error.condition]
        self.finer_condition = error.condition
