"""Outcomes: receipts of messages, errors with a receipt or a reason of the broker, and causes of a wait for room."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import i64

from penstock.client.engine.waits import Wait
from penstock.client.errors import ClientError, ConnectionClosed

if TYPE_CHECKING:
    from penstock.client.engine.publisher import PublisherCore

PENDING: Final = 0
CONFIRMED: Final = 1
REFUSED: Final = 2
UNKNOWN: Final = 3
STATES: Final = ("on the wire", "confirmed", "refused", "unknown")
"""Names of the states, as in docs/how-to/client.md."""


class Receipt:
    """Outcome of one message. `await` it, or `wait()` for it in the blocking form: either returns the receipt.

    `state` is true at any time: "on the wire", "confirmed", "refused" or "unknown". Waiting raises `MessageRefused` for
    the second last and `ConnectionLost` for the last, or the error that ended its publisher (`LinkClosed` and others).
    To stop waiting changes nothing: the message is under way.
    """

    def __init__(self, publisher: PublisherCore, message: object, sent_at: float) -> None:
        self.publisher = publisher
        self.message: object = message
        """Message that was published; None once it is confirmed."""
        self.outcome: i64 = PENDING
        self.reason: str = ""
        """Reason why it was refused, or why the outcome is unknown; empty otherwise."""
        self.sent_at: float = sent_at
        self.sender: Wait | None = None
        """Wait of the `send` that published it."""
        self.withdrawn: bool = False
        """True if the broker held it and has given it back: it is in no queue."""
        self.cause: ClientError | None = None
        """Error that gave it its outcome, without a receipt; None if that is the broker's answer to this message."""
        self.futures: list[Any] | None = None
        self.callbacks: list[Callable[[Receipt], object]] | None = None

    @property
    def state(self) -> str:
        """Return the state of the message."""
        return STATES[self.outcome]

    @property
    def done(self) -> bool:
        """Return whether the message has its outcome."""
        return self.outcome != PENDING

    def add_callback(self, callback: Callable[[Receipt], object]) -> None:
        """Call `callback(receipt)` when the message has its outcome; at once if it has."""
        if self.outcome != PENDING:
            callback(self)
        elif self.callbacks is None:
            self.callbacks = [callback]
        else:
            self.callbacks.append(callback)

    def check(self) -> Receipt:
        """Return the receipt of a confirmed message.

        Raises `MessageRefused` and `ConnectionLost` for another outcome, or the error that has ended its publisher.
        """
        if self.cause is not None:
            raise with_receipt(self.cause, self)
        if self.outcome == REFUSED:
            raise MessageRefused(self.reason, self)
        if self.outcome == UNKNOWN:
            raise ConnectionLost(None, self.reason, self)
        return self

    def wait(self, timeout: float | None = None) -> Receipt:
        """Wait for the outcome, at most `timeout` seconds (None: without a limit); in the blocking form only.

        Raises as `check`, and `ConfirmTimeout` when the time is over.
        """
        block = self.publisher.wakes.block_for
        if block is None:
            raise TypeError("a receipt of an asyncio connection is awaited: `await receipt`")
        if self.outcome == PENDING:
            block(self, timeout)
        return self.check()

    def __await__(self) -> Generator[Any, None, Receipt]:
        while self.outcome == PENDING:
            make = self.publisher.wakes.new_future
            if make is None:
                raise TypeError("a receipt of a blocking connection is waited for by `receipt.wait()`")
            future = make()
            if self.futures is None:
                self.futures = [future]
            else:
                self.futures.append(future)
            yield from future.__await__()
        return self.check()

    def release(self) -> None:
        """Wake who waits; callbacks are the shell's to call, for they may raise."""
        futures, self.futures = self.futures, None
        if futures is not None:
            for future in futures:
                if not future.done():  # It may have been cancelled.
                    future.set_result(None)

    def __repr__(self) -> str:
        return f"<Receipt {self.state}{': ' + self.reason if self.reason else ''}>"


def with_receipt(cause: ClientError, receipt: Receipt) -> ClientError:
    """Return an error of the same kind and text that has a receipt; one is raised for each message."""
    make: Any = type(cause)
    error: ClientError = make(*cause.args, receipt)
    return error


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


class TransactionError(ClientError):
    """Transaction that is not committed, or perhaps not; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TransactionAborted(TransactionError):
    """Transaction that was rolled back: none of its messages is in a queue, and none that it settled is settled.

    `reason` says why. Its work can be done again, in a new transaction.
    """

    def __str__(self) -> str:
        return f"the transaction was rolled back: {self.reason}"


class TransactionInDoubt(TransactionError):
    """Commit that was sent and has no answer: all of the transaction is done, or nothing; `reason` says why."""

    def __str__(self) -> str:
        return f"the commit was sent, and whether it took place is unknown: {self.reason}"


class CommitRefused(TransactionError):
    """Commit that found no room until the broker's hold deadline: the transaction is open as before, with all its work.

    `reason` is the broker's. Commit again, or roll back.
    """

    def __str__(self) -> str:
        return f"the broker refused the commit, and the transaction is open: {self.reason}"


NO_ROUTE: Final = "NO_ROUTE"
"""Reason of a message that reached no queue, as RabbitMQ and Penstock say it over AMQP 0-9-1."""


def no_route(receipt: Receipt) -> str:
    """Return where a message went that reached no queue, as the beginning of a reason."""
    terms, message = receipt.publisher.terms, receipt.message
    exchange: str | None = getattr(message, "exchange", None)
    key: str | None = getattr(message, "routing_key", None)
    exchange, key = terms.exchange if exchange is None else exchange, terms.key if key is None else key
    if exchange:
        return f"exchange '{exchange}' has no queue for the routing key '{key}': "
    return f"there is no queue '{key}': "


class MessageRefused(ClientError):
    """Refused message, which is in no queue; `receipt` has it."""

    def __init__(self, reason: str, receipt: Receipt | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.receipt = receipt

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason,)

    def __str__(self) -> str:
        where = no_route(self.receipt) if self.reason == NO_ROUTE and self.receipt is not None else ""
        return f"the broker refused the message: {where}{self.reason or 'it gave no reason'}"


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


OFFLINE: Final = "offline"
OPENING: Final = "opening"
CHANNEL_FLOW: Final = "channel.flow"
CONNECTION_BLOCKED: Final = "connection.blocked"
CREDIT: Final = "credit"
WINDOW: Final = "window"
WINDOW_BYTES: Final = "producerWindowSize"
RATE: Final = "producerMaxRate"
TURN: Final = "turn"
SOCKET: Final = "socket"
CLOSED: Final = "closed"

REASONS: Final[dict[str, str]] = {
    OFFLINE: "the connection is lost, and is tried again",
    OPENING: "the channel or link of this publisher is being opened",
    CHANNEL_FLOW: "the broker stopped this publisher by channel.flow",
    CONNECTION_BLOCKED: "the broker blocks this connection",
    CREDIT: "the broker gives this publisher no credit",
    WINDOW: "the window of unconfirmed messages is full",
    WINDOW_BYTES: "the window of unconfirmed octets is full",
    RATE: "the rate of this publisher is reached",
    TURN: "other messages of this publisher wait before it",
    SOCKET: "the broker does not read",
}
"""Meaning of each cause, as a sentence without its end."""
ENFORCED: Final = frozenset({CHANNEL_FLOW, CONNECTION_BLOCKED, CREDIT, WINDOW, WINDOW_BYTES, SOCKET, TURN})
"""Causes that are flow control of the broker: a full window is one whose confirms the broker withholds."""


class Amounts:
    """Messages and bytes; None for one that is unknown or has no limit."""

    def __init__(self, messages: int | None = None, bytes: int | None = None) -> None:
        self.messages = messages
        self.bytes = bytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Amounts) and self.messages == other.messages and self.bytes == other.bytes

    def __hash__(self) -> int:
        return hash((self.messages, self.bytes))

    def __reduce__(self) -> tuple[object, ...]:
        return Amounts, (self.messages, self.bytes)

    def __bool__(self) -> bool:
        return self.messages is not None or self.bytes is not None

    def __str__(self) -> str:
        amounts = (("message", self.messages), ("byte", self.bytes))
        parts = [f"{amount} {unit}{'' if amount == 1 else 's'}" for unit, amount in amounts if amount is not None]
        return ", ".join(parts) or "unknown"

    def __repr__(self) -> str:
        return f"Amounts(messages={self.messages}, bytes={self.bytes})"


def amounts_of(row: object) -> Amounts:
    """Return amounts of an object with `messages` and `bytes`, as `why` and the flow properties have them."""
    if not isinstance(row, dict):
        return Amounts()
    messages, size = row.get("messages"), row.get("bytes")
    return Amounts(messages if isinstance(messages, int) else None, size if isinstance(size, int) else None)


class Blocked:
    """Reason why a message cannot be sent now. What the broker does not say is None, or has None in it."""

    def __init__(
        self,
        cause: str,
        reason: str,
        since: float,
        queue: str | None = None,
        depth: Amounts | None = None,
        stop: Amounts | None = None,
        resume: Amounts | None = None,
        capacity: Amounts | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.cause = cause
        """One of the constants of this module, such as "credit", "channel.flow" or "window"."""
        self.reason = reason
        """The broker's words where it gave any, else what the cause means."""
        self.since = since
        """Seconds that it has lasted."""
        self.queue = queue
        self.depth = depth
        self.stop = stop
        self.resume = resume
        self.capacity = capacity
        self.retry_after = retry_after
        """Seconds after which another attempt is worth while."""

    @property
    def thresholds(self) -> tuple[Amounts | None, Amounts | None, Amounts | None]:
        """Return the thresholds at which the queue stops and resumes its publishers, and its capacity."""
        return self.stop, self.resume, self.capacity

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blocked) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash(self.__reduce__())

    def __reduce__(self) -> tuple[object, ...]:
        given = (self.cause, self.reason, self.since, self.queue, self.depth)
        return Blocked, (*given, self.stop, self.resume, self.capacity, self.retry_after)

    def __str__(self) -> str:
        figures = [f"{name} {value}" for name, value in self._figures() if value]
        queue = [] if self.queue is None else [f"queue {self.queue}: {', '.join(figures) or 'depth unknown'}"]
        return "; ".join([self.reason, *queue])

    def _figures(self) -> list[tuple[str, Amounts | None]]:
        return [("depth", self.depth), ("stop", self.stop), ("resume", self.resume), ("capacity", self.capacity)]

    def __repr__(self) -> str:
        return f"<Blocked {self.cause}: {self}>"
