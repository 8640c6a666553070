"""Notices to a client that a gate blocks it, or no longer does: connection.blocked and connection.unblocked.

Clients that announce the capability get both, if connection.blocked stops only their publishes (decision 138). A
library that is known to go on writing always gets both. A library that is known to stop writing, or an unknown one,
gets both only while its connection does nothing but publish without confirms; `connection.unblocked` precedes its first
delivery. The rule holds for every gate: a gate opens by acknowledgements of consumers, or must not stop
acknowledgements.

A client gets the notice within 100 ms after the gate closed, also if the client sends meanwhile (decision 94).

A publisher without confirms may exit with the notice unread. The kernel of its host then resets the connection, and
drops unsent data. Three rules save the publishes of the process:

- A notice that is the whole output waits for `DELAY_S` (`delay_s`). A process that exits meanwhile is detected,
  and gets no notice.
- Until its first notice is written, the connection is read beyond its hold budget (`ReadPausing.reads_ahead`).
  After the first notice the bound is one hold budget more: pika reads no notice while it still sends a message.
- A reset after a notice counts as the end of the socket: held publishes stay in line, and received input is
  read first (`Losses.may_be_unread`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.connections.connection import blocking_gate
from penstock.connections.connection_state import ConnectionState
from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER, TimerHandler
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame, short_text

if TYPE_CHECKING:
    from penstock.protocols.amqp091.engine import Amqp091Engine


DELAY_S: Final = 0.05
"""Seconds that a notice waits for the end of a publisher without confirms, if the output holds nothing else.

The other half of the 100 ms is for the turns of the event loop before and after the wait.
"""
RENEWAL_S: Final = 1.0
"""Fewest seconds between two notices that differ only in the named gate: some clients log each."""


class BlockedNotice(TimerHandler):
    """Blocked state of one client, as last sent to it.

    A second connection.blocked follows when the named gate no longer blocks the connection and another gate does.
    Clients take the second notice for a new reason, which no client in docs/clients.md minds. A connection.unblocked in
    between would wake publishers, and restart pika's `blocked_connection_timeout`.
    """

    def __init__(self, engine: Amqp091Engine) -> None:
        super().__init__()
        self.engine = engine
        self._gate: Gate | None = None
        """Gate that the last notice named; None if the last notice was connection.unblocked."""
        self._taken: Gate | None = None
        """Gate of the last notice whose output was taken; None for connection.unblocked."""
        self._octets: int = 0
        """Bytes of the last notice, if the output holds nothing else."""
        self._since: float = 0.0
        self._buffered: bool = False
        """True while the output holds a notice."""
        self._passing: bytes = b""
        """Notices that overtake the output while the output waits for fsync and contains no notice."""

    def update(self) -> None:
        """Send a notice if the blocking gate differs from the gate of the last notice."""
        engine, connection = self.engine, self.engine.connection
        if engine.capabilities.get("connection.blocked") is not True or connection.state is not ConnectionState.RUNNING:
            return
        gate = blocking_gate(connection, self._gate) if connection.reported_blocks > 0 and self._hears() else None
        if gate is self._gate:
            return
        now = since = engine.broker.now
        if self.is_alone():
            since = self._since
            engine.out.truncate(0)  # The notice is out of date, and still unsent.
            self._octets = 0
            self._buffered = False
            self._gate = self._taken
            connection.pausing.reads_ahead = False
        if gate is not None and self._gate is not None and now < self._since + RENEWAL_S:
            engine.broker.timers.add(self, self._since + RENEWAL_S)
        elif gate is not self._gate:
            self._send(gate, since)

    def _send(self, gate: Gate | None, since: float) -> None:
        engine = self.engine
        alone = len(engine.out) == 0
        self._gate = gate
        if engine.connection.output.waits_for_disk() and not self._buffered:
            self._passing += self._frame(gate)
            self._on_notice()
        else:
            self._buffered = True
            engine.out.write(self._frame(gate))
        engine.connection.request_flush()
        self._octets = len(engine.out) if alone else 0
        self._since = since
        if self._may_have_gone():
            engine.connection.losses.may_be_unread = True
            engine.connection.pausing.reads_ahead = alone and gate is not None and self._taken is None

    def _frame(self, gate: Gate | None) -> bytes:
        if gate is None:
            return method_frame(0, spec.CONNECTION_UNBLOCKED)
        reason = short_text(self.engine.services.block_reason(self.engine.connection, gate))
        return method_frame(0, spec.CONNECTION_BLOCKED, reason=reason)

    def take(self) -> bytes:
        """Take the notices that overtake the output; empty if there are none."""
        passing, self._passing = self._passing, b""
        return passing

    @override
    def on_deadline(self, now: float) -> float:
        self.update()
        return NEVER

    def end(self) -> None:
        """Cancel the timer: the connection has ended."""
        self.engine.broker.timers.drop(self)

    def is_alone(self) -> bool:
        """Return whether the output holds nothing but a notice."""
        return self._octets > 0 and self._octets == len(self.engine.out)

    def on_taken(self) -> None:
        """Record that the output was taken, to be written."""
        self._octets = 0
        self._buffered = False
        if self._taken is not self._gate:
            self._on_notice()

    def _on_notice(self) -> None:
        """Record that the last notice goes to the client now."""
        pausing = self.engine.connection.pausing
        if self._taken is None:
            pausing.begin_notice()
        elif self._gate is None:
            pausing.end_notice()
        self._taken = self._gate

    def delay_s(self, now: float) -> float:
        """Return the seconds for which the output must wait because it is only a notice; 0 if it need not."""
        engine = self.engine
        if engine.connection.state is not ConnectionState.RUNNING or not self.is_alone() or not self._may_have_gone():
            return 0.0
        return max(self._since + DELAY_S - now, 0.0)

    def stops_client(self) -> bool:
        """Return whether the client may be silent because it got connection.blocked."""
        return self._gate is not None and self.engine.profile.stops_writing

    def _hears(self) -> bool:
        """Return whether the notice stops no acknowledgements of the client, and makes no publish fail."""
        engine, profile = self.engine, self.engine.profile
        if profile.fails_when_blocked or not profile.stops_writing:
            return not profile.fails_when_blocked
        return not engine.has_asked and engine.publishes_unconfirmed()

    def _may_have_gone(self) -> bool:
        return not self.engine.profile.obeys_flow and self.engine.publishes_unconfirmed()
