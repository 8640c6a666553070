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
    """Outcome of one message. Either `await` the receipt, or call `wait()` in the blocking form: both return the
    receipt.

    `state` is current at any time: "on the wire", "confirmed", "refused" or "unknown". Waiting raises `MessageRefused`
    for the second last and `ConnectionLost` for the last, or the error that ended its publisher (`LinkClosed` and
    others). Ending a wait changes nothing: the message stays under way.
    """

    def __init__(self, publisher: PublisherCore, message: object, sent_at: float) -> None:
        self.publisher = publisher
        self.message: object = message
        """The published message; None once it is confirmed."""
        self.outcome: i64 = PENDING
        self.reason: str = ""
        """Reason why the message was refused, or why the outcome is unknown; empty otherwise."""
        self.sent_at: float = sent_at
        self.sender: Wait | None = None
        """Wait of the `send` that published it."""
        self.withdrawn: bool = False
        """True if the broker held the message and has returned it on request: it is in no queue."""
        self.cause: ClientError | None = None
        """Error that decided the outcome, without a receipt; None if the broker answered for this message."""
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
        """Call `callback(receipt)` when the message has its outcome; at once if it has one already."""
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

        Raises as `check`, and `ConfirmTimeout` after the time-out.
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
        """Wake awaiting tasks. The shell calls callbacks, because they may raise."""
        futures, self.futures = self.futures, None
        if futures is not None:
            for future in futures:
                if not future.done():  # The future may have been cancelled.
                    future.set_result(None)

    def __repr__(self) -> str:
        return f"<Receipt {self.state}{': ' + self.reason if self.reason else ''}>"


def with_receipt(cause: ClientError, receipt: Receipt) -> ClientError:
    """Return an error of the same kind and text with a receipt; one is raised for each message."""
    make: Any = type(cause)
    error: ClientError = make(*cause.args, receipt)
    return error


class ConnectionLost(ConnectionClosed):
    """Lost connection; `receipt` belongs to the message whose outcome is unknown, None if none was under way."""

    def __init__(self, code: int | str | None, text: str, receipt: Receipt | None = None) -> None:
        super().__init__(code, text)
        self.receipt = receipt

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.text)


class ReplayUncertain(ConnectionLost):
    """Lost connection to a broker that has lost its record of this publisher's messages.

    `receipt` belongs to a message that may be in its queue; it was not sent again, because of the option `replay`.
    """


class TransactionError(ClientError):
    """Transaction that is not committed, or perhaps not; `reason` is the cause."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TransactionAborted(TransactionError):
    """Transaction that was rolled back: none of its messages is in a queue, and none of its settlements took effect.

    `reason` is the cause. The work can be repeated, in a new transaction.
    """

    def __str__(self) -> str:
        return f"the transaction was rolled back: {self.reason}"


class TransactionInDoubt(TransactionError):
    """Commit that was sent and has no answer: the whole transaction took effect, or nothing; `reason` is the cause."""

    def __str__(self) -> str:
        return f"the commit was sent, and whether it took place is unknown: {self.reason}"


class CommitRefused(TransactionError):
    """Commit without room until the broker's hold deadline: the transaction is still open, with all its work.

    `reason` is the broker's reason. Commit again, or roll back.
    """

    def __str__(self) -> str:
        return f"the broker refused the commit, and the transaction is open: {self.reason}"


NO_ROUTE: Final = "NO_ROUTE"
"""Reason of a message that reached no queue, in the words of RabbitMQ and Penstock over AMQP 0-9-1."""


def no_route(receipt: Receipt) -> str:
    """Return the target of a message that reached no queue, as the beginning of a reason."""
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
    """Expired time-out of a message that waited for room: nothing of it was written, and the publisher is still usable.

    `seconds` is the time that it waited; `blocked` is the reason of the wait.
    """

    def __init__(self, seconds: float, blocked: Blocked) -> None:
        super().__init__(seconds, blocked)
        self.seconds = seconds
        self.blocked = blocked

    def __str__(self) -> str:
        return f"the message was not sent: it waited {self.seconds:g} s for room ({self.blocked})"


class ConfirmTimeout(ClientError):
    """Expired time-out of a message that was written: it has no outcome yet; `receipt` will have it.

    `blocked` is the possible reason of a withheld confirm.
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
    WINDOW_BYTES: "the window of unconfirmed bytes is full",
    RATE: "the rate of this publisher is reached",
    TURN: "other messages of this publisher wait before it",
    SOCKET: "the broker does not read",
}
"""Meaning of each cause, as a sentence without its end."""
ENFORCED: Final = frozenset({CHANNEL_FLOW, CONNECTION_BLOCKED, CREDIT, WINDOW, WINDOW_BYTES, SOCKET, TURN})
"""Causes that are flow control of the broker; a full window counts, because the broker withholds its confirms."""


class Amounts:
    """Messages and bytes; None for an unknown or unlimited number."""

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
    """Return the amounts of an object with `messages` and `bytes`, as in `why` and the flow properties."""
    if not isinstance(row, dict):
        return Amounts()
    messages, size = row.get("messages"), row.get("bytes")
    return Amounts(messages if isinstance(messages, int) else None, size if isinstance(size, int) else None)


class Blocked:
    """Reason why a message cannot be sent now. Parts that the broker does not report are None."""

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
        """The broker's reason, if any, otherwise the meaning of the cause."""
        self.since = since
        """Seconds since the block began."""
        self.queue = queue
        self.depth = depth
        self.stop = stop
        self.resume = resume
        self.capacity = capacity
        self.retry_after = retry_after
        """Seconds after which another attempt is useful."""

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
