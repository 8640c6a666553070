"""`CodecError`, the error of the AMQP 1.0 codec, and the conditions that it has (section 2.8)."""

from __future__ import annotations

from typing import Final

from penstock.errors import PenstockError

DECODE_ERROR: Final = "amqp:decode-error"
"""Octets that are not the value that must be there."""
INVALID_FIELD: Final = "amqp:invalid-field"
"""A mandatory field that is missing, or a value out of its range."""
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
"""A type or composite that the specification does not have."""
FRAMING_ERROR: Final = "amqp:connection:framing-error"
"""Octets that are not a frame."""


class CodecError(PenstockError):
    """Octets that are not valid AMQP 1.0, or a value that AMQP 1.0 cannot carry.

    `reason` says in one sentence what is wrong, `condition` is the error condition to close with.
    """

    def __init__(self, reason: str, condition: str = DECODE_ERROR) -> None:
        super().__init__(reason, condition)
        self.reason = reason
        self.condition = condition

    def __str__(self) -> str:
        return self.reason
