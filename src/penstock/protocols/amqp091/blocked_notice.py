"""connection.blocked and connection.unblocked, for clients that announce the capability.

A notice can wait (`delay_s`), because a publisher without confirms may have exited. When a process exits, its kernel
still sends what we have not read, and resets the connection if the process left input unread: a notice could cause that
reset and lose publishes. So output that is nothing but a notice waits while reading is paused, and for a moment after
the last publish. By then the end of the process has been seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.protocols.common.connection_state import ConnectionState
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import short_text

if TYPE_CHECKING:
    from penstock.protocols.amqp091.engine import Amqp091Engine

QUIET_S: Final = 0.5
"""Seconds without input after which a waiting notice is sent."""
LATEST_S: Final = 1.0
"""Most seconds that a notice waits while input arrives, unless reading is paused."""


class BlockedNotice:
    """Blocked state of one client, as last sent to it."""

    def __init__(self, engine: Amqp091Engine) -> None:
        self.engine = engine
        self._blocked: bool = False
        """True if the last notice sent was connection.blocked."""
        self._octets: int = 0
        """Octets of the last notice, if the output holds nothing else."""
        self._since: float = 0.0

    def update(self) -> None:
        """Send a notice if the blocked state has changed since the last one."""
        engine, connection = self.engine, self.engine.connection
        if connection.state is not ConnectionState.RUNNING or (connection.reported_blocks > 0) == self._blocked:
            return
        self._blocked = not self._blocked
        if engine.capabilities.get("connection.blocked") is not True:
            return
        if self.is_alone():
            engine.out.truncate(0)  # Both the change and its reversal are still unsent: drop them.
            self._octets = 0
            return
        alone = len(engine.out) == 0
        if self._blocked:
            reason = short_text(engine.services.block_reason(connection))
            engine.send(0, spec.CONNECTION_BLOCKED, {"reason": reason})
        else:
            engine.send(0, spec.CONNECTION_UNBLOCKED, {})
        self._octets = len(engine.out) if alone else 0
        self._since = engine.broker.now

    def is_alone(self) -> bool:
        """Tell whether the output holds nothing but a notice."""
        return self._octets > 0 and self._octets == len(self.engine.out)

    def on_taken(self) -> None:
        """Record that the output was taken, to be written."""
        self._octets = 0

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
