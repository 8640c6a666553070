"""Notices that gates block a client, and block it no longer: connection.blocked and connection.unblocked.

Clients that announce the capability get them, if the notice stops nothing but publishes (decision 138). A library that
is known to go on writing always gets it. One that is known to stop, or is unknown, gets it only while its connection
does nothing but publish without confirms, and `connection.unblocked` before its first delivery. That holds for every
gate: each of them opens by what consumers acknowledge, or must not stop them.

A client gets the notice within 100 ms after its gate closed, whatever it sends meanwhile (decision 94).

A publisher without confirms may exit with the notice unread. Its kernel then resets the connection, and drops what it
has not sent yet. Three things keep what the process has published:

- A notice that is the whole output waits for `DELAY_S` (`delay_s`). The end of a process that exits by then is seen,
  and nothing is written to it.
- Until its first notice is written, the connection is read beyond its hold budget (`ReadPausing.reads_ahead`).
  From then on it has one hold budget more: pika hears nothing until the message that it is sending has left it.
- A reset after a notice counts as the end of the socket: held publishes stay in line, and input that has arrived is
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

That leaves half of the 100 ms to the turns of the event loop before and after it.
"""
RENEWAL_S: Final = 1.0
"""Fewest seconds between a notice and another one that only names another gate: some clients log each."""


class BlockedNotice(TimerHandler):
    """Blocked state of one client, as last sent to it.

    Another connection.blocked follows when the gate that was named blocks the connection no longer and another one
    does. Clients take it for a new reason: none of those in docs/clients.md minds. An unblocked before it would wake
    their publishers, and begin pika's `blocked_connection_timeout` anew.
    """

    def __init__(self, engine: Amqp091Engine) -> None:
        super().__init__()
        self.engine = engine
        self._gate: Gate | None = None
        """The gate that the last notice named; None if that was connection.unblocked."""
        self._taken: Gate | None = None
        """The same of the last notice whose output was taken."""
        self._octets: int = 0
        """Bytes of the last notice, if the output holds nothing else."""
        self._since: float = 0.0
        self._buffered: bool = False
        """True while the output holds a notice."""
        self._passing: bytes = b""
        """Notices that pass the output, which waits for fsync and holds none."""

    def update(self) -> None:
        """Send a notice if the gate that blocks the connection is another one than that of the last notice."""
        engine, connection = self.engine, self.engine.connection
        if engine.capabilities.get("connection.blocked") is not True or connection.state is not ConnectionState.RUNNING:
            return
        gate = blocking_gate(connection, self._gate) if connection.reported_blocks > 0 and self._hears() else None
        if gate is self._gate:
            return
        now = since = engine.broker.now
        if self.is_alone():
            since = self._since
            engine.out.truncate(0)  # What it says is out of date, and still unsent.
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
        """Take the notices that pass the output; empty if there are none."""
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
        """Return whether the client may be silent because it was told that it is blocked."""
        return self._gate is not None and self.engine.profile.stops_writing

    def _hears(self) -> bool:
        """Return whether the notice stops no acknowledgement of the client, and makes no publish fail."""
        engine, profile = self.engine, self.engine.profile
        if profile.fails_when_blocked or not profile.stops_writing:
            return not profile.fails_when_blocked
        return not engine.has_asked and engine.publishes_unconfirmed()

    def _may_have_gone(self) -> bool:
        return not self.engine.profile.obeys_flow and self.engine.publishes_unconfirmed()
