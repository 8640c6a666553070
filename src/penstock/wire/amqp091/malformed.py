"""`CodecError`, the error of the AMQP 0-9-1 codec."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.wire.amqp091.spec import ReplyCode


class CodecError(PenstockError):
    """Octets that are not valid AMQP 0-9-1, or a value that AMQP 0-9-1 cannot carry.

    `reason` says in one sentence what is wrong, `code` is the reply code to close the connection with.
    """

    def __init__(self, reason: str, code: ReplyCode = ReplyCode.FRAME_ERROR) -> None:
        super().__init__(reason, code)
        self.reason = reason
        self.code = code

    def __str__(self) -> str:
        return self.reason
