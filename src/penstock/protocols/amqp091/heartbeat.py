"""Heartbeats of one connection, both ways (AMQP 0-9-1 section 4.2.7).

One is sent when nothing else was for half of the agreed interval; a peer of which nothing came for two intervals is
given up. Each connection has its entry in the broker's one timer, so an interval of a second is kept as well as one of
a minute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.flow.timers import NEVER, TimerHandler
from penstock.protocols.amqp091.connection_state import RUNNING

if TYPE_CHECKING:
    from penstock.protocols.amqp091.connection import Connection

HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"


class Heartbeat(TimerHandler):
    """Looks at a connection when its next heartbeat is due, or its peer has been silent for too long."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self._due: bool = False
        """Whether one is to be sent though all other output waits for the disk."""

    def begin(self) -> None:
        """Heartbeats have been agreed on and the connection is open."""
        if self.connection.heartbeat_s:
            now = self.connection.broker.now
            self.connection.broker.timers.add(self, now + self.connection.heartbeat_s / 2)

    def end(self) -> None:
        """The connection is gone."""
        self.connection.broker.timers.drop(self)

    def on_deadline(self, now: float) -> float:
        """See `TimerHandler.on_deadline`."""
        connection = self.connection
        if connection.state != RUNNING:
            return NEVER
        if connection.in_line:
            connection.last_received = now  # It is not read meanwhile: its silence says nothing about the peer.
        silent_at = connection.last_received + 2 * connection.heartbeat_s
        if now >= silent_at:
            connection.driver.silent.append(connection)
            return NEVER
        if now >= connection.last_sent + connection.heartbeat_s / 2 and connection.writable:
            self._beat(now)
        due = connection.last_sent + connection.heartbeat_s / 2
        return min(due if due > now else now + connection.heartbeat_s / 2, silent_at)

    def take(self) -> bytes:
        """Take the heartbeat that is to be sent though all other output waits for the disk; empty if none is."""
        due, self._due = self._due, False
        return HEARTBEAT_FRAME if due else b""

    def _beat(self, now: float) -> None:
        connection = self.connection
        connection.last_sent = now
        if connection.waits_for_disk():
            self._due = True
        else:
            connection.out.write(HEARTBEAT_FRAME)
        connection.request_flush()
