"""Causes that keep a message from being sent, and what the broker says of them."""

from __future__ import annotations

from typing import Final

OFFLINE: Final = "offline"
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
