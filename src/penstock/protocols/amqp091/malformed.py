"""Malformed frames and methods as broker errors."""

from __future__ import annotations

from penstock.errors import BrokerError
from penstock.wire.amqp091.codec import CodecError, short_text


class Malformed(BrokerError):
    """Error for malformed bytes, with the code that the codec chose."""

    reply = "FRAME_ERROR"

    def __init__(self, error: CodecError) -> None:
        super().__init__(error.reason)
        self.reason = error

    def reply_code(self) -> int:
        """Return the code that the codec chose."""
        return int(self.reason.code)

    @property
    def reply_text(self) -> str:
        """Return the text for the wire."""
        return short_text(f"{self.reason.code.name} - {self.reason.reason}")
