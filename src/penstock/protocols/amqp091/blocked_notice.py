"""connection.blocked and connection.unblocked, for clients that announce that they understand them.

A publisher without confirms may have gone meanwhile. A process that ends leaves the rest to the kernels: input that we
have not read, and input that its own kernel has not sent yet; and what it has not read itself has its kernel reset the
connection. So output that is nothing but such a notice can wait (`waits`): while reading is paused, and for a moment
after the last publish. By then the end of the process would have been seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.protocols.amqp091.connection_state import RUNNING
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import short_text

if TYPE_CHECKING:
    from penstock.protocols.amqp091.connection import Connection

QUIET_S: Final = 0.5
"""Seconds without input after which a notice goes out that waits."""
LATEST_S: Final = 1.0
"""Seconds after which it goes out, whatever comes in, unless reading is paused."""


class BlockedNotice:
    """What one client has been told."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.held_unconfirmed: bool = False
        """Whether a publish of it without confirms has been held: its process may end before it goes in."""
        self._blocked: bool = False
        """Whether the client was told last that it is blocked."""
        self._octets: int = 0
        """Octets of the last notice, where the output is nothing else."""
        self._since: float = 0.0

    def update(self) -> None:
        """Bring what the client has been told up to date."""
        connection = self.connection
        if connection.state != RUNNING or (connection.blocked_count > 0) == self._blocked:
            return
        self._blocked = not self._blocked
        if connection.capabilities.get("connection.blocked") is not True:
            return
        if self.is_alone():
            connection.out.truncate(0)  # The client has not heard of the change that is over.
            self._octets = 0
            return
        alone = len(connection.out) == 0
        if self._blocked:
            reason = short_text(connection.driver.notifier.reason(connection))
            connection.send(0, spec.CONNECTION_BLOCKED, {"reason": reason})
        else:
            connection.send(0, spec.CONNECTION_UNBLOCKED, {})
        self._octets = len(connection.out) if alone else 0
        self._since = connection.broker.now

    def is_alone(self) -> bool:
        """Tell whether a notice is all that there is to write."""
        return self._octets > 0 and self._octets == len(self.connection.out)

    def is_taken(self) -> None:
        """Note that the output has been taken, to be written."""
        self._octets = 0

    def waits(self, now: float) -> float:
        """Return for how many seconds the output is to wait, for it is a notice to one that may have gone; 0: not."""
        connection = self.connection
        if connection.state != RUNNING or not self.is_alone() or not self._may_have_gone():
            return 0.0
        if connection.may_pause() and connection.may_pulse(now):
            return connection.limits.pulse_s
        return max(min(connection.last_received + QUIET_S, self._since + LATEST_S) - now, 0.0)

    def _may_have_gone(self) -> bool:
        connection = self.connection
        if connection.profile.obeys_flow or not connection.publishes_only():
            return False
        return not any(channel.producer.confirming for channel in connection.channels.values())
