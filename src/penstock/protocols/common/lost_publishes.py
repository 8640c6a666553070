"""Publishes that a connection has lost: held when its session ended, or sent when their channel was closed already."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.gates.connection_gates import ConnectionGates
from penstock.core.publish.closed_sessions import DEADLINE, ENDED, LINGER_BOUND, RESET, UNCONFIRMED, Loss

CLOSED_BEFORE: Final = "channel-closed"
"""They came after the broker had closed their channel, for what flow control had refused."""
LOST_BY: Final = (RESET, LINGER_BOUND, UNCONFIRMED, ENDED, CLOSED_BEFORE)
"""Causes for which publishes are refused because their session has ended."""
_WORDS: Final = {
    DEADLINE: "held until their deadline",
    RESET: "held when the peer reset the connection",
    LINGER_BOUND: "held when the connection ended, and too much is kept for such already",
    UNCONFIRMED: "held when the connection ended, never confirmed: their publisher has to publish them again",
    ENDED: "held when the broker stopped, or ended the channel or the connection",
    CLOSED_BEFORE: "published after their channel was closed",
}


class Losses:
    """Sums of one connection since they were told last."""

    __slots__ = ("cause", "origin", "messages", "bytes", "_by_cause", "_why")

    def __init__(self) -> None:
        self.cause: str = ENDED
        """Why what is held is lost when a channel ends that its client did not close."""
        self.origin: ConnectionGates | None = None
        """The connection as the gates know it, or knew it; it knows the producers that are not gone yet."""
        self.clear()

    def clear(self) -> None:
        """Forget the sums: they have been told."""
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self._by_cause: dict[str, int] = {}
        self._why: str = ""

    def add(self, loss: Loss, origin: ConnectionGates | None) -> None:
        """Add what one producer has lost; `origin` is where it published from."""
        self.origin = origin
        self.messages += loss.messages
        self.bytes += loss.bytes
        self._by_cause[loss.cause] = self._by_cause.get(loss.cause, 0) + int(loss.messages)
        self._why = self._why or loss.why

    def are_known(self) -> bool:
        """Tell whether nothing more can be lost: no producer of the connection is left."""
        return self.origin is None or not self.origin.producers

    def describe(self) -> str:
        """Say how many were lost why."""
        causes = [f"{count:,} {_WORDS[cause]}" for cause, count in self._by_cause.items()]
        return "; ".join([*causes, self._why] if self._why else causes)
