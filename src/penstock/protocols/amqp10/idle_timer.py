"""Idle time-outs of one connection, in both directions (section 2.4.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.errors import ResourceError
from penstock.flow.timers import NEVER, TimerHandler
from penstock.protocols.common.connection_state import ConnectionState
from penstock.wire.amqp10.frames import frame

if TYPE_CHECKING:
    from penstock.protocols.amqp10.engine import Amqp10Engine

EMPTY_FRAME: Final = frame(0)
PEER_TIMEOUT_MIN_S: Final = 0.1
"""Shortest idle-time-out of a peer that is obeyed: an empty frame every 50 ms."""


class IdleTimer(TimerHandler):
    """Timer of one connection: sends empty frames in time, and detects a silent peer."""

    def __init__(self, engine: Amqp10Engine, peer_timeout_s: float) -> None:
        super().__init__()
        self._engine = engine
        self.peer_timeout_s = max(peer_timeout_s, PEER_TIMEOUT_MIN_S) if peer_timeout_s > 0 else 0.0
        """Seconds after which the peer closes a silent connection; 0.0 for never. Half of it is used."""
        self._own_timeout_s = 2.0 * engine.limits.heartbeat_s
        """Seconds of silence after which the peer is given up: twice what was announced, as section 2.4.5 has it."""
        self._due: bool = False
        """True if an empty frame is due although all other output waits for fsync."""

    def begin(self) -> None:
        """Start the timer."""
        due = self._next(self._engine.broker.now)
        if due != NEVER:
            self._engine.broker.timers.add(self, due)

    def end(self) -> None:
        """Stop: the connection is closed."""
        self._engine.broker.timers.drop(self)

    @override
    def on_deadline(self, now: float) -> float:
        engine, connection = self._engine, self._engine.connection
        if connection.state is not ConnectionState.RUNNING:
            return NEVER
        if connection.in_line or connection.busy > 0:
            connection.times.received = now  # The broker does not read it now: silence proves nothing about the peer.
        if self._own_timeout_s > 0 and now >= connection.times.received + self._own_timeout_s:
            silent_s = now - connection.times.received
            engine.close(ResourceError(f"nothing was received for {silent_s:.0f} s (idle-time-out)"))
            return NEVER
        if self.peer_timeout_s > 0 and now >= connection.times.sent + self.peer_timeout_s / 2:
            self._beat(now)
        return self._next(now)

    def take(self) -> bytes:
        """Take the empty frame that is due although other output waits for fsync; empty if none is."""
        due, self._due = self._due, False
        return EMPTY_FRAME if due else b""

    def _next(self, now: float) -> float:
        times = self._engine.connection.times
        due = NEVER
        if self._own_timeout_s > 0:
            due = times.received + self._own_timeout_s
        if self.peer_timeout_s > 0:
            beat = times.sent + self.peer_timeout_s / 2
            due = min(due, beat if beat > now else now + self.peer_timeout_s / 2)
        return due

    def _beat(self, now: float) -> None:
        connection = self._engine.connection
        connection.times.sent = now
        if not connection.output.writable:
            return
        if connection.output.waits_for_disk():
            self._due = True
        else:
            self._engine.out.write(EMPTY_FRAME)
        connection.request_flush()
