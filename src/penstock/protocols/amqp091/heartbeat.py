"""Heartbeats of one connection, in both directions (AMQP 0-9-1 section 4.2.7).

The broker sends one after half of the agreed interval without other output. It drops a peer that was silent for two
intervals. Each connection has an entry in the broker's one timer, so intervals of a second are as precise as those of a
minute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.flow.timers import NEVER, TimerHandler
from penstock.protocols.common.connection_state import ConnectionState

if TYPE_CHECKING:
    from penstock.protocols.amqp091.engine import Amqp091Engine

HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"


class Heartbeat(TimerHandler):
    """Heartbeat timer of one connection: sends heartbeats and detects a silent peer."""

    def __init__(self, engine: Amqp091Engine) -> None:
        super().__init__()
        self.engine = engine
        self._due: bool = False
        """True if a heartbeat is due although all other output waits for fsync."""

    def begin(self) -> None:
        """Start: heartbeats were negotiated and the connection is open."""
        if self.engine.heartbeat_s:
            now = self.engine.broker.now
            self.engine.broker.timers.add(self, now + self.engine.heartbeat_s / 2)

    def end(self) -> None:
        """Stop: the connection is closed."""
        self.engine.broker.timers.drop(self)

    @override
    def on_deadline(self, now: float) -> float:
        engine, connection = self.engine, self.engine.connection
        if connection.state is not ConnectionState.RUNNING:
            return NEVER
        if connection.in_line or connection.busy > 0:
            connection.times.received = now  # The broker does not read it now: silence proves nothing about the peer.
        silent_at = connection.times.received + 2 * engine.heartbeat_s
        if now >= silent_at:
            engine.services.report_silent(connection)
            return NEVER
        if now >= connection.times.sent + engine.heartbeat_s / 2 and connection.output.writable:
            self._beat(now)
        due = connection.times.sent + engine.heartbeat_s / 2
        return min(due if due > now else now + engine.heartbeat_s / 2, silent_at)

    def take(self) -> bytes:
        """Take the heartbeat that is due although other output waits for fsync; empty if none is."""
        due, self._due = self._due, False
        return HEARTBEAT_FRAME if due else b""

    def _beat(self, now: float) -> None:
        engine = self.engine
        engine.connection.times.sent = now
        if engine.connection.output.waits_for_disk():
            self._due = True
        else:
            engine.out.write(HEARTBEAT_FRAME)
        engine.connection.request_flush()
