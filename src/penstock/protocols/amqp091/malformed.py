"""Bytes that are no method, as an error of the broker."""

from __future__ import annotations

from penstock.errors import BrokerError
from penstock.wire.amqp091.codec import CodecError, short_text


class Malformed(BrokerError):
    """Bytes that are no method; the codec knows the code."""

    reply = "FRAME_ERROR"

    def __init__(self, error: CodecError) -> None:
        super().__init__(error.reason)
        self.reason = error

    def reply_code(self) -> int:
        """Return the code that the codec chose."""
        return int(self.reason.code)

    @property
    def reply_text(self) -> str:
        """Text for the wire."""
        return short_text(f"{self.reason.code.name} - {self.reason.reason}")
