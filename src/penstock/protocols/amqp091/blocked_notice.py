"""connection.blocked and connection.unblocked, for clients that announce the capability.

A notice can wait (`delay_s`), because a publisher without confirms may have exited. When a process exits, its kernel
still sends what we have not read, and resets the connection if the process left input unread: a notice could cause that
reset and lose publishes. So output that is nothing but a notice waits while reading is paused, and for a moment after
the last publish. By then the end of the process has been seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER, TimerHandler
from penstock.protocols.common.connection import blocking_gate
from penstock.protocols.common.connection_state import ConnectionState
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import short_text

if TYPE_CHECKING:
    from penstock.protocols.amqp091.engine import Amqp091Engine

QUIET_S: Final = 0.5
"""Seconds without input after which a waiting notice is sent."""
LATEST_S: Final = 1.0
"""Most seconds that a notice waits while input arrives, unless reading is paused."""
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
        """Octets of the last notice, if the output holds nothing else."""
        self._since: float = 0.0

    def update(self) -> None:
        """Send a notice if the gate that blocks the connection is another one than that of the last notice."""
        engine, connection = self.engine, self.engine.connection
        if engine.capabilities.get("connection.blocked") is not True or connection.state is not ConnectionState.RUNNING:
            return
        gate = blocking_gate(connection, self._gate) if connection.reported_blocks > 0 else None
        if gate is self._gate:
            return
        if self.is_alone():
            engine.out.truncate(0)  # What it says is out of date, and still unsent.
            self._octets = 0
            self._gate = self._taken
        now = engine.broker.now
        if gate is not None and self._gate is not None and now < self._since + RENEWAL_S:
            engine.broker.timers.add(self, self._since + RENEWAL_S)
        elif gate is not self._gate:
            self._send(gate)

    def _send(self, gate: Gate | None) -> None:
        engine = self.engine
        alone = len(engine.out) == 0
        if gate is None:
            engine.send(0, spec.CONNECTION_UNBLOCKED, {})
        else:
            reason = short_text(engine.services.block_reason(engine.connection, gate))
            engine.send(0, spec.CONNECTION_BLOCKED, {"reason": reason})
        self._gate = gate
        self._octets = len(engine.out) if alone else 0
        self._since = engine.broker.now

    @override
    def on_deadline(self, now: float) -> float:
        self.update()
        return NEVER

    def end(self) -> None:
        """Cancel the timer: the connection has ended."""
        self.engine.broker.timers.drop(self)

    def is_alone(self) -> bool:
        """Tell whether the output holds nothing but a notice."""
        return self._octets > 0 and self._octets == len(self.engine.out)

    def on_taken(self) -> None:
        """Record that the output was taken, to be written."""
        self._octets = 0
        self._taken = self._gate

    def delay_s(self, now: float) -> float:
        """Return the seconds for which the output must wait because it is only a notice; 0 if it need not."""
        engine = self.engine
        if engine.connection.state is not ConnectionState.RUNNING or not self.is_alone() or not self._may_have_gone():
            return 0.0
        if engine.connection.may_pause() and engine.connection.may_pulse(now):
            return engine.limits.pulse_s
        return max(min(engine.connection.times.received + QUIET_S, self._since + LATEST_S) - now, 0.0)

    def _may_have_gone(self) -> bool:
        engine = self.engine
        if engine.profile.obeys_flow or not engine.connection.publishes_only():
            return False
        return not any(channel.producer.confirming for channel in engine.channels.values())
