"""Pausing of reads: the hold budget of a connection, beyond which it is not read, or its publishes are refused.

A connection that only publishes is paused when its hold budget is used up, and read in small pulses, so that heartbeats
and closes arrive. A connection that consumes or has transactions is never paused, nor one of a protocol whose senders
have credit: its next publish is refused instead.
"""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.large_bodies import PieceBudget
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.unlinking import unlink_gate
from penstock.flow.timers import NEVER
from penstock.protocols.common.connection_limits import AHEAD, ConnectionLimits


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
        """True while a publisher without confirms is about to get its blocked notice. The input that it sent before is
        read."""
        self._held_at_notice: int = 0
        """Bytes (charges) that were held when the blocked notice was sent; 0 while the client is not blocked."""
        self._paused_at: float = NEVER
        """Time at which the present pause began, in monotonic seconds; NEVER without one."""

    def is_used_up(self) -> bool:
        """Return whether the hold budget is used up: a connection that only publishes is paused then."""
        return self.budget.bytes >= self._bytes()

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

        A connection that only publishes may finish the message that it is sending, and the input read in pulses.
        """
        if publishes_only:
            self.budget.bound = self._most() + (self._limits.asked_bytes if self.asked else 0)
        elif in_transaction:
            self.budget.bound = max(self._bytes(), self._limits.transaction_bytes)
        else:
            self.budget.bound = self._bytes()

    def _bytes(self) -> int:
        """Return the hold budget in bytes (charges)."""
        if self.asked:
            return self._limits.asked_bytes
        return AHEAD * self._limits.hold_bytes if self.reads_ahead else self._held_at_notice + self._limits.hold_bytes

    def _most(self) -> int:
        return self._limits.hold_bytes_most(self._broker.defaults.hold_deadline_s)
