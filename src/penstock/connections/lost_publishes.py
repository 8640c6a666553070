"""Lost publishes of a connection: held when its session ended, or sent after their channel was closed."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.publish.connection_gates import ConnectionGates
from penstock.core.publish.held import ENDED, LINGER_BOUND, RESET, UNCONFIRMED, Loss
from penstock.flow.gate import DEADLINE

CLOSED_BEFORE: Final = "channel-closed"
"""Cause of publishes that arrived after flow control had closed their channel."""
LOST_BY: Final = (RESET, LINGER_BOUND, UNCONFIRMED, ENDED, CLOSED_BEFORE)
"""Causes of refusals at the end of a session."""
_WORDS: Final = {
    DEADLINE: "held until their deadline",
    RESET: "held when the peer reset the connection",
    LINGER_BOUND: "held when the connection ended, beyond the bound for such publishes",
    UNCONFIRMED: "held when the connection ended, never confirmed: their publisher has to publish them again",
    ENDED: "held when the broker stopped, or ended the channel or the connection",
    CLOSED_BEFORE: "published after their channel was closed",
}

NONE_LOST: Final[dict[str, int]] = {}
"""Losses by cause of a connection without any; never changed."""


class Losses:
    """Counts of lost publishes of one connection since the last report."""

    __slots__ = ("cause", "held_unconfirmed", "may_be_unread", "origin", "messages", "bytes", "_by_cause", "_why")

    def __init__(self) -> None:
        self.cause: str = ENDED
        """Cause for held publishes of a channel whose client did not close it."""
        self.held_unconfirmed: bool = False
        """True if a publish without a confirm was held: the process may exit before the publish is admitted."""
        self.may_be_unread: bool = False
        """True after a notice to a publisher without confirms: a process that exits without reading the notice resets
        the socket."""
        self.origin: ConnectionGates | None = None
        """The connection in the gates of the core, present or past, which lists its remaining producers."""
        self.clear()

    def clear(self) -> None:
        """Reset the counts after a report."""
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self._by_cause: dict[str, int] = NONE_LOST
        self._why: str = ""

    def add(self, loss: Loss, origin: ConnectionGates | None) -> None:
        """Add the lost publishes of one producer; `origin` is its connection in the gates."""
        self.origin = origin
        self.messages += loss.messages
        self.bytes += loss.bytes
        self._by_cause = {**self._by_cause, loss.cause: self._by_cause.get(loss.cause, 0) + int(loss.messages)}
        self._why = self._why or loss.why

    def are_known(self) -> bool:
        """Return whether the counts are final: the connection has no producers left."""
        return self.origin is None or not self.origin.producers

    def describe(self) -> str:
        """Describe how many publishes were lost, by cause."""
        causes = [f"{count:,} {_WORDS[cause]}" for cause, count in self._by_cause.items()]
        return "; ".join([*causes, self._why] if self._why else causes)
