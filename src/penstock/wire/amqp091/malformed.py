"""`CodecError`, the error of the AMQP 0-9-1 codec."""

from __future__ import annotations

from penstock.errors import CODES, PenstockError
from penstock.wire.amqp091.spec import ReplyCode


class CodecError(PenstockError):
    """Octets that are not valid AMQP 0-9-1, or a value that AMQP 0-9-1 cannot carry.

    `reason` says in one sentence what is wrong, `code` is the reply code to close the connection with. Its AMQP 1.0
    condition and HTTP status are those of the code.
    """

    def __init__(self, reason: str, code: ReplyCode = ReplyCode.FRAME_ERROR) -> None:
        super().__init__(reason, code)
        self.reason = reason
        self.code = code

    @property
    def condition(self) -> str:
        """AMQP 1.0 error condition."""
        return CODES[self.code].condition

    @property
    def http_status(self) -> int:
        """HTTP status."""
        return CODES[self.code].http_status

    def __str__(self) -> str:
        return self.reason
