"""Malformed frames and methods as broker errors."""

from __future__ import annotations

from penstock.errors import BrokerError
from penstock.wire.amqp091.codec import CodecError


class Malformed(BrokerError):
    """Error for malformed bytes, with the code that the codec chose."""

    def __init__(self, error: CodecError) -> None:
        super().__init__(error.reason)
        self.code = int(error.code)
