"""Requests of one connection that wait for an answer, with one bound for all channels and methods.

Answers of a channel come in order. Behind a commit that is held, each further request has a record until the gate
opens, or the hold deadline ends the wait. A client that awaits each answer has one such request a channel. Requests
sent ahead are counted for the connection; at the bound its input waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.errors import ResourceError

if TYPE_CHECKING:
    from penstock.connections.connection import Connection

SENT_AHEAD_MOST: Final = 1_000
"""Most requests of a connection that are not answered yet, beside the first of each channel; each takes up to 1 KiB."""


class UnansweredRequests:
    """Unanswered requests of one connection, by channel."""

    __slots__ = ("_connection", "_of_channel", "_total", "_waits")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._of_channel: dict[int, int] = {}
        """Number of requests by channel; channels without requests are absent."""
        self._total: i64 = 0
        self._waits: bool = False
        """True while the input of the connection waits."""

    def sent_ahead(self) -> i64:
        """Return the number of requests behind others of their channel."""
        return self._total - len(self._of_channel)

    def add(self, channel: int, gated: bool) -> None:
        """Count a request of a channel; `gated` if a held commit is before it. The input waits at the bound.

        Raises ResourceError (506) for a gated request if the connection consumes: its unread input may have the
        acknowledgement that opens the gate.
        """
        ahead = self.sent_ahead()
        if gated and ahead >= SENT_AHEAD_MOST - 1 and self._consumes():
            raise ResourceError(
                f"request refused: {int(ahead):,} requests of this connection wait behind others of their channel, "
                f"the most is {SENT_AHEAD_MOST - 1:,} for a connection that also consumes; await the answers"
            )
        self._total += 1
        self._of_channel[channel] = self._of_channel.get(channel, 0) + 1
        if not self._waits and self.sent_ahead() >= SENT_AHEAD_MOST:
            self._waits = True
            self._connection.hold_input()

    def remove(self, channel: int) -> None:
        """Count a request of a channel that is answered."""
        left = self._of_channel.pop(channel) - 1
        if left:
            self._of_channel[channel] = left
        self._total -= 1
        self._review()

    def drop(self, channel: int) -> None:
        """Drop the requests of a channel that ends."""
        dropped = self._of_channel.pop(channel, 0)
        if dropped:
            self._total -= dropped
            self._review()

    def _review(self) -> None:
        if self._waits and self.sent_ahead() < SENT_AHEAD_MOST:
            self._waits = False
            self._connection.release_input()

    def _consumes(self) -> bool:
        return any(
            session.consumers or not session.unsettled.is_empty() for session in self._connection.engine.sessions()
        )
