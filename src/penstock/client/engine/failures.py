"""Errors of the client that have a receipt, or a reason of the broker. A receipt stays in its process when pickled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.client.errors import ClientError, ConnectionClosed

if TYPE_CHECKING:
    from penstock.client.engine.blocked import Blocked
    from penstock.client.engine.receipt import Receipt


class ConnectionLost(ConnectionClosed):
    """Lost connection; `receipt` is that of the message whose outcome is unknown, None if none was under way."""

    def __init__(self, code: int | str | None, text: str, receipt: Receipt | None = None) -> None:
        super().__init__(code, text)
        self.receipt = receipt

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.text)


class ReplayUncertain(ConnectionLost):
    """Lost connection to a broker that does not know any more what it took of this publisher's messages.

    `receipt` is that of a message that may be in its queue; it was not sent again, as the option `replay` says.
    """


class TransactionAborted(ClientError):
    """Transaction that was rolled back: none of its messages is in a queue, and none that it settled is settled.

    `reason` says why. Its work can be done again, in a new transaction.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the transaction was rolled back: {self.reason}"


class TransactionInDoubt(ClientError):
    """Commit that was sent and has no answer: all of the transaction is done, or nothing; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the commit was sent, and whether it took place is unknown: {self.reason}"


class CommitRefused(ClientError):
    """Commit that found no room until the broker's hold deadline: the transaction is open as before, with all its work.

    `reason` is the broker's. Commit again, or roll back.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the broker refused the commit, and the transaction is open: {self.reason}"


class MessageRefused(ClientError):
    """Refused message, which is in no queue; `receipt` has it."""

    def __init__(self, reason: str, receipt: Receipt | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.receipt = receipt

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason,)

    def __str__(self) -> str:
        return f"the broker refused the message: {self.reason or 'it gave no reason'}"


class FlowControlTimeout(ClientError):
    """Expired time-out of a message that waited for room: nothing of it was written, and all is usable as before.

    `seconds` is how long it waited; `blocked` says what it waited for.
    """

    def __init__(self, seconds: float, blocked: Blocked) -> None:
        super().__init__(seconds, blocked)
        self.seconds = seconds
        self.blocked = blocked

    def __str__(self) -> str:
        return f"the message was not sent: it waited {self.seconds:g} s for room ({self.blocked})"


class ConfirmTimeout(ClientError):
    """Expired time-out of a message that was written: it has no outcome yet, and `receipt` will have it.

    `blocked` says what may withhold it.
    """

    def __init__(self, seconds: float, blocked: Blocked, receipt: Receipt | None = None) -> None:
        super().__init__(seconds, blocked)
        self.seconds = seconds
        self.blocked = blocked
        self.receipt = receipt

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.seconds, self.blocked)

    def __str__(self) -> str:
        return f"the message was sent, and its outcome is unknown after {self.seconds:g} s ({self.blocked})"
