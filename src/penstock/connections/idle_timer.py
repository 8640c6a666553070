"""Idle time-outs of one connection, in both directions (AMQP 0-9-1 section 4.2.7, AMQP 1.0 section 2.4.5).

The broker sends an empty frame after half of the agreed interval without other output. The broker gives up a peer that
was silent for two intervals. Each connection has an entry in the broker's one timer, so intervals of a second are as
precise as those of a minute. Empty frames are sent up to an eighth early, at times that connections share: many idle
connections cost one wake-up together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.connections.connection_state import ConnectionState
from penstock.flow.timers import NEVER, TimerHandler

if TYPE_CHECKING:
    from penstock.connections.engine import ProtocolEngine


STEP_MOST_S: Final = 1.0
"""Most seconds between two times at which empty frames are sent."""


class IdleTimer(TimerHandler):
    """Timer of one connection: sends empty frames in time, and detects a silent peer."""

    def __init__(self, engine: ProtocolEngine, empty_frame: bytes, beat_s: float, silent_s: float) -> None:
        super().__init__()
        self._engine = engine
        self._empty_frame = empty_frame
        self.beat_s = beat_s
        """Seconds without output after which an empty frame is sent; 0.0 for never."""
        self._step_s: float = STEP_MOST_S
        """Seconds between the times at which an empty frame may be sent: a power of two, at most an eighth of
        `beat_s`."""
        while self._step_s > beat_s / 8 > 0:
            self._step_s /= 2
        self._silent_s = silent_s
        """Seconds without input after which the peer is given up; 0.0 for never."""
        self._due: bool = False
        """True if an empty frame is due although all other output waits for fsync."""

    def begin(self) -> None:
        """Start the timer."""
        now = self._engine.connection.broker.now
        due = self._next(now)
        if due != NEVER:
            self._engine.connection.broker.timers.add(self, due)

    def end(self) -> None:
        """Stop: the connection is closed."""
        self._engine.connection.broker.timers.drop(self)

    @override
    def on_deadline(self, now: float) -> float:
        connection = self._engine.connection
        if connection.state is not ConnectionState.RUNNING:
            return NEVER
        times = connection.times
        if connection.in_line or connection.busy > 0 or self._engine.may_be_silent():
            times.received = now  # The broker does not read it, or has told it to stop: silence proves nothing.
        if self._silent_s > 0 and now >= times.received + self._silent_s:
            self._engine.on_silence(now - times.received)
            return NEVER
        if self.beat_s > 0 and now >= self._beat_at() and connection.output.writable:
            self._beat(now)
        return self._next(now)

    def take(self) -> bytes:
        """Take the empty frame that is due although other output waits for fsync; empty if no frame is due."""
        due, self._due = self._due, False
        return self._empty_frame if due else b""

    def _next(self, now: float) -> float:
        times = self._engine.connection.times
        due = NEVER
        if self._silent_s > 0:
            due = times.received + self._silent_s
        if self.beat_s > 0:
            beat = self._beat_at()
            due = min(due, beat if beat > now else now + self.beat_s)
        return due

    def _beat_at(self) -> float:
        """Return the time of the next empty frame, if no other output is sent by then."""
        return (self._engine.connection.times.sent + self.beat_s) // self._step_s * self._step_s

    def _beat(self, now: float) -> None:
        connection = self._engine.connection
        connection.times.sent = now
        self._engine.renew_output()
        if connection.output.waits_for_disk():
            self._due = True
        else:
            connection.output.buffer.write(self._empty_frame)
        connection.request_flush()
