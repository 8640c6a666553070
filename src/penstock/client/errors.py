"""Errors of the client.

ClientError
├── ConnectError        the connection failed; the text says why and what to do
│   ├── LoginRefused    the broker refuses the user, the password or the virtual host: another attempt does not help
│   └── WrongServer     the host's name cannot be resolved, or its certificate or SCRAM signature is not trusted
├── ConnectionClosed    the connection is closed, with the broker's reason if it gave one
│   └── ConnectionLost      it was lost with a message under way, whose outcome is unknown
│       └── ReplayUncertain     the broker does not know it any more either, and it was not sent again
├── ChannelClosed       the broker closed a channel, with its reason
├── LinkClosed          a publisher or receiver has ended, with the reason; the connection goes on
│   └── ReceiverClosed      the broker has ended a receiver, or its queue was deleted
├── ControlError        a control operation was refused, with its reason
├── MessageRefused      the broker refused a message, with its reason
├── InvalidValue        a header, property or argument that the protocol does not carry; it is a ValueError too
├── MessageTooLarge     a message is larger than the broker takes; it is in no queue
├── FlowControlTimeout  a message was not sent: it waited for room until its time-out
├── ConfirmTimeout      a message was sent, and no answer came until its time-out
├── CommitRefused       the broker refused a commit, and the transaction is open as before
├── TransactionAborted  a transaction was rolled back, with the reason
├── TransactionInDoubt  a commit was sent, and has no answer
└── Timeout             no answer in time; the operation may still complete

ConnectionLost, ReplayUncertain, MessageRefused, both time-outs of messages and the three of transactions are in
`engine.outcomes`: they have a receipt, or what the broker says. All of them can be pickled, because they travel from
Spark's executors to its driver.
"""

from __future__ import annotations

from typing import Any

from penstock.errors import PenstockError


def without_name(text: str) -> str:
    """Return a reply text without the name of its code, which RabbitMQ writes in front: "NOT_FOUND - no queue"."""
    name, dash, rest = text.partition(" - ")
    return rest if dash and name and not name.strip("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") else text


class ClientError(PenstockError):
    """Root of the client's errors."""


class ConnectError(ClientError):
    """Failure to connect."""

    def __init__(self, host: str, port: int, text: str) -> None:
        super().__init__(host, port, text)
        self.host = host
        self.port = port
        self.text = text

    def __str__(self) -> str:
        where = f"unix:{self.host}" if self.host.startswith("/") else f"{self.host}:{self.port}"
        return f"cannot connect to {where}: {self.text}"


class LoginRefused(ConnectError):
    """Refused user, password or virtual host."""


class WrongServer(ConnectError):
    """Name that cannot be resolved, or certificate or SCRAM signature that is not trusted."""


class WrongProtocol(ConnectError):
    """Broker that speaks another version of AMQP."""


class ConnectionClosed(ClientError):
    """Closed connection.

    `code` is the reply code of AMQP 0-9-1 or the condition of AMQP 1.0, None if the socket failed without one.
    """

    def __init__(self, code: int | str | None, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"the connection is closed: {self.text}" + ("" if self.code is None else f" ({self.code})")


class LinkClosed(ClientError):
    """Ended publisher or receiver.

    `code` is the reply code of AMQP 0-9-1 or the condition of AMQP 1.0, None without one. `receipt` belongs to a
    message that was under way; its state is "refused" if the message is in no queue, or "unknown"; None without such a
    message.
    """

    def __init__(self, code: int | str | None, text: str, receipt: Any = None) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text
        self.receipt = receipt

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.text)

    def __str__(self) -> str:
        return without_name(self.text) + ("" if self.code is None else f" ({self.code})")


class ReceiverClosed(LinkClosed):
    """Receiver that the broker has ended; `reason` is the broker's reason, or that the queue was deleted."""

    @property
    def reason(self) -> str:
        """Return the reason, without the name of a reply code."""
        return without_name(self.text)


class InvalidValue(ClientError, ValueError):
    """Header, property or argument that the protocol does not carry, with its name; nothing was sent."""


class MessageTooLarge(ClientError):
    """Message that is larger than the broker accepts; `receipt` has it if it was sent, and None if it was not."""

    def __init__(self, text: str, receipt: Any = None) -> None:
        super().__init__(text)
        self.text = text
        self.receipt = receipt

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.text,)


class ChannelClosed(ClientError):
    """Channel closed by the broker; `code` is the AMQP reply code, None if the client closed it.

    The text of the error is the broker's sentence without the name of the code.
    """

    def __init__(self, code: int | None, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        if self.code is None:
            return f"the channel is closed: {self.text}"
        return f"{without_name(self.text)} ({self.code})"


class ControlError(ClientError):
    """Refused control operation; `name` is stable and for programs, `text` is one sentence for users."""

    def __init__(self, code: int, name: str, text: str) -> None:
        super().__init__(code, name, text)
        self.code = code
        self.name = name
        self.text = text

    def __str__(self) -> str:
        return f"{self.text} ({self.code} {self.name})"


class Timeout(ClientError):
    """Expired time-out."""


FIRST_STEP = "an answer to the protocol header"
"""First step of a login, whose failures have their own causes."""


def why_closed(user: str, step: str, code: int | str | None, text: str, *, is_encrypted: bool) -> str:
    """Return why the broker closed the connection where `step` was due."""
    from penstock.wire.amqp091.spec import ReplyCode  # A successful login over AMQP 1.0 does not need this text.

    if code == ReplyCode.ACCESS_REFUSED:
        return f"the broker refuses {user}; check user, password and permissions ({text})"
    if step == FIRST_STEP and code is not None:
        return f"the server there does not speak AMQP 0-9-1; check the port ({text})"
    if step == FIRST_STEP:
        causes = "it is full, or no AMQP broker" if is_encrypted else "it is full, no AMQP broker, or needs amqps://"
        return f"the server there closed the connection at once: {causes} ({text})"
    if code is None:
        return f"the broker hung up where {step} was due; check user, password and virtual host ({text})"
    return f"{without_name(text)} ({code})"
