"""Limits of a connection, each with its reason. login_limits.py has the limits of open connections and of logins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from penstock.settings.start import Start

PULSING_S_MAX: Final = 60.0
"""Most seconds of pulses that are budgeted if there is no deadline, or a long one."""
AHEAD: Final = 4
"""Hold budgets that may be held before connection.blocked is written: 4 MiB is the largest send buffer of Linux."""
CHARGE_PER_OCTET: Final = 7
"""Highest charge per byte on the wire: the shortest publish has 39 bytes and is charged a little over OVERHEAD."""


READ_NATIVELY: Final = ("hold_bytes", "message_bytes_max", "min_large_message", "transaction_bytes")
"""Settings that are read for a message: attributes of the compiled class, which take a nanosecond and not thirty."""


class ConnectionLimits:
    """Limits of connections, read by protocols and the event loop: settings at the start, and times and sizes of ours.

    A setting has its name, unit, range and default in `settings.start` alone.
    """

    start: Start
    """Settings at the start; those in READ_NATIVELY are attributes too."""
    hold_bytes: int
    message_bytes_max: int
    min_large_message: int
    transaction_bytes: int

    def __init__(self, start: Start | None = None) -> None:
        self._set(start or Start())
        self.asked_bytes: int = 16 * 1024 * 1024
        """Hold budget that replaces `hold_bytes` after channel.flow(active=false), for publishes in flight."""
        self.pulse_bytes: int = 64 * 1024
        self.pulse_s: float = 0.3
        """Size and interval of the reads from a paused connection: py-amqp's socket fails when unread for a second."""
        self.close_s: float = 3.0
        """Seconds that a peer has to answer connection.close."""

    def _set(self, start: Start) -> None:
        self.start = start
        for name in READ_NATIVELY:
            setattr(self, name, getattr(start, name))

    def change(self, **values: Any) -> None:
        """Set settings of these names."""
        self._set(replace(self.start, **values))

    def pulsing_s(self, deadline_s: float) -> float:
        """Return the seconds for which a paused connection is read in pulses: the hold deadline, within a bound.

        A connection that is held longer has a queue with a longer deadline, or without one, and is no longer read.
        """
        return min(deadline_s, PULSING_S_MAX) if deadline_s > 0 else PULSING_S_MAX

    def largest_arrival(self) -> int:
        """Return the highest charge of a message that arrives in pieces of a KiB, with a large header."""
        return self.message_bytes_max + self.message_bytes_max // 16 + 2 * self.start.frame_max

    def hold_bytes_most(self, deadline_s: float) -> int:
        """Return the bytes (charges) at which the next publish of a connection that only publishes is refused.

        The number is the sum of the bytes held before connection.blocked and after it, the bytes read by pulses in the
        worst case, and one message.
        """
        pulses = self.pulsing_s(deadline_s) / self.pulse_s
        pulsed = int(pulses * self.pulse_bytes) * CHARGE_PER_OCTET
        return (AHEAD + 1) * self.hold_bytes + pulsed + self.message_bytes_max
