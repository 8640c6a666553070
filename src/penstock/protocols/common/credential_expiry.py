"""Expiry of the token that a client logged in with: its connection is closed, as operations are refused in RabbitMQ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from penstock.errors import AccessRefused
from penstock.flow.timers import NEVER, TimerHandler

if TYPE_CHECKING:
    from penstock.protocols.common.connection import Connection


class CredentialExpiry(TimerHandler):
    """Close of a connection when its token has expired by the wall clock, which may be set meanwhile."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection: Connection | None = connection
        self._at: float = NEVER

    def set(self, at: float) -> None:
        """Set the wall-clock time in seconds; infinity for none."""
        connection = self._connection
        if connection is None:
            return
        self._at = at
        connection.broker.timers.drop(self)
        if at != NEVER:
            connection.broker.timers.add(self, at - connection.broker.wall_offset)

    def end(self) -> None:
        """Do nothing any more: the connection is closed."""
        if self._connection is not None:
            self._connection.broker.timers.drop(self)
            self._connection = None

    @override
    def on_deadline(self, now: float) -> float:
        connection = self._connection
        if connection is None or connection.is_closing():
            return NEVER
        left = self._at - connection.broker.wall_offset - now
        if left > 0:
            return now + left
        wall = now + connection.broker.wall_offset
        connection.close(
            AccessRefused(f"provided JWT token has expired at timestamp {self._at:.0f} (validated at {wall:.0f})")
        )
        return NEVER
