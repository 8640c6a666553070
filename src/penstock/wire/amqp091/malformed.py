"""The one error of the codec; `codec` gives it to the outside."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.wire.amqp091.spec import ReplyCode


class CodecError(PenstockError):
    """Octets that are no AMQP 0-9-1, or a value that AMQP 0-9-1 cannot carry.

    `reason` names what was wrong in one sentence, `code` is the reply code to close the connection with.
    """

    def __init__(self, reason: str, code: ReplyCode = ReplyCode.FRAME_ERROR) -> None:
        super().__init__(reason, code)
        self.reason = reason
        self.code = code

    def __str__(self) -> str:
        return self.reason
