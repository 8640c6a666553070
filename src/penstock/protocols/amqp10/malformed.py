"""Malformed performatives and messages as broker errors, with the condition that the codec chose."""

from __future__ import annotations

from typing import Final

from penstock.errors import BrokerError
from penstock.wire.amqp10.malformed import DECODE_ERROR, FRAMING_ERROR, INVALID_FIELD, NOT_IMPLEMENTED, CodecError

_CODES: Final[dict[str, int]] = {FRAMING_ERROR: 501, DECODE_ERROR: 502, INVALID_FIELD: 406, NOT_IMPLEMENTED: 540}
"""Keys of `errors.CODES` by condition of the codec."""


class MalformedPerformative(BrokerError):
    """A frame or performative that cannot be read. The connection is closed."""

    def __init__(self, error: CodecError) -> None:
        super().__init__(error.reason)
        self.code = _CODES[error.condition]
        self.finer_condition = error.condition


class MalformedMessage(BrokerError):
    """A message whose sections cannot be read. Its delivery is rejected, and the link stays."""

    ends = "delivery"

    def __init__(self, error: CodecError) -> None:
        super().__init__(error.reason)
        self.code = _CODES[error.condition]
        self.finer_condition = error.condition
