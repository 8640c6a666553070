"""Pausing of reads: beyond its hold budget a connection is not read, or its publishes are refused.

A connection that only publishes is paused when its hold budget is used up, and read in small pulses, so that heartbeats
and closes arrive.

Of a publisher without confirms only bytes are read that can drain within half a hold deadline, by the recent share of
its gates (`HoldBudget.share`). Later bytes wait in its socket. So such a publisher is not read in pulses while messages
pass, and little would be lost at a standstill. The share is measured from the first passing publish, and for a whole
deadline after the last.

A connection that consumes, has transactions, or has a protocol with sender credit is never paused: its next publish is
refused instead.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.connections.connection_limits import AHEAD, CHARGE_PER_OCTET, ConnectionLimits
from penstock.core.broker import Broker
from penstock.core.large_bodies import PieceBudget
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.unlinking import unlink_gate
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER

SHARE_LEAST_BYTES: Final = 64 * 1024
"""Bytes (charges) that a publisher without confirms may have held, however little drains: it may soon consume, or use
confirms.
"""
READ_LEAST_BYTES: Final = 4096
"""Least bytes that are read at once."""


class ReadPausing:
    """Hold budget of one connection, and the time of its pause."""

    def __init__(self, broker: Broker, limits: ConnectionLimits) -> None:
        self._broker = broker
        self._limits = limits
        self.budget = HoldBudget(self._most())
        self.pieces = PieceBudget(broker.large, None)
        """Pieces of large messages that the store has not written yet."""
        self.asked: int = 0
        """Number of sessions whose client was asked to stop publishing (channel.flow)."""
        self.reads_ahead: bool = False
        """True while a publisher without confirms is about to get its blocked notice.

        Input sent before the notice is read.
        """
        self._held_at_notice: int = 0
        """Bytes (charges) that were held when the blocked notice was sent; 0 while the client is not blocked."""
        self._paused_at: float = NEVER
        """Time at which the present pause began, in monotonic seconds; NEVER without one."""

    def is_used_up(self) -> bool:
        """Return whether the hold budget is used up: a connection that only publishes is paused then."""
        return self.budget.bytes >= self._bytes()

    def has_share(self) -> bool:
        """Return whether the share of a publisher without confirms is known now."""
        return self.budget.share(self._broker.now) != UNLIMITED

    def readable(self) -> int:
        """Return how many bytes may be read at once: within the room that the share leaves, whatever the bytes
        contain."""
        room = self._bytes() - int(self.budget.bytes)
        return max(room // CHARGE_PER_OCTET, READ_LEAST_BYTES)

    def begin_pause(self, now: float) -> None:
        """Record that the connection is paused. No-op if it is paused already."""
        if self._paused_at == NEVER:
            self._paused_at = now

    def end_pause(self) -> None:
        """Record that the connection is read again."""
        self._paused_at = NEVER

    def begin_notice(self) -> None:
        """Record that the blocked notice is sent now. The hold budget begins after the bytes held at this time."""
        self.reads_ahead = False
        self._held_at_notice = min(int(self.budget.bytes), AHEAD * self._limits.hold_bytes)

    def end_notice(self) -> None:
        """Record that the unblocked notice is sent now."""
        self._held_at_notice = 0

    def end(self) -> None:
        """Stop waiting for the store: the connection has ended."""
        listener = self.pieces.listener
        self.pieces.listener = None
        if listener is not None:
            listener.end()

    def unlink(self) -> None:
        """Cut the references of the hold room: the connection is gone, with all its producers."""
        room = self.budget.room
        if room is not None:
            self.budget.room = None
            unlink_gate(room.gate, self._broker.turns)

    def may_pulse(self, now: float) -> bool:
        """Return whether a paused connection may still be read in small pulses."""
        return now - self._paused_at < self._limits.pulsing_s(self._broker.defaults.hold_deadline_s)

    def set_bound(self, publishes_only: bool, in_transaction: bool) -> None:
        """Set the bound of the hold budget by the use of the connection.

        A connection that only publishes may finish the message that it is sending, and the input read in pulses. The
        share of a publisher without confirms bounds what is read, and refuses nothing.
        """
        if publishes_only:
            self.budget.bound = self._most() + (self._limits.asked_bytes if self.asked else 0)
        elif in_transaction:
            self.budget.bound = max(self._whole(), self._limits.transaction_bytes)
        else:
            self.budget.bound = self._whole()

    def _whole(self) -> int:
        """Return the hold budget in bytes (charges), however little drains: a refused publish is lost at once."""
        if self.asked:
            return self._limits.asked_bytes
        return AHEAD * self._limits.hold_bytes if self.reads_ahead else self._held_at_notice + self._limits.hold_bytes

    def _bytes(self) -> int:
        """Return the bytes (charges) beyond which a connection that only publishes is not read."""
        ahead = self._whole()
        if self.asked:
            return ahead
        share: i64 = self.budget.share(self._broker.now)
        return ahead if share >= ahead else min(ahead, max(int(share), SHARE_LEAST_BYTES))

    def _most(self) -> int:
        return self._limits.hold_bytes_most(self._broker.defaults.hold_deadline_s)
