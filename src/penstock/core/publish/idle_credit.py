"""Idle credit: room that is taken back from senders that do not use it, and only when others wait for it.

When the first of those that wait at an open gate lacks room, the gate's owner asks all who have reserved room there
(`recall`). A link that has not sent for its idle time is then asked to drain: its sender answers with what it will not
use. Some senders never answer. So a second later what is left is set aside (`HoldShare.set_aside`), and its room in the
queues or in the hold room is free. The credit stays: its messages are held if they do not fit when they come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from penstock.core.queue.queue_settings import CREDIT_IDLE_S
from penstock.flow.timers import NEVER, TimerHandler

if TYPE_CHECKING:
    from penstock.core.publish.sender_credit import SenderCredit

DRAIN_S: Final = 1.0
"""Seconds in which a sender is to answer a drain."""


class IdleCredit(TimerHandler):
    """The timer of one link that others wait for."""

    def __init__(self, credit: SenderCredit, idle_s: float = CREDIT_IDLE_S) -> None:
        super().__init__()
        self.credit = credit
        self.idle_s = idle_s
        """Seconds without a message after which its credit is idle; infinity for never."""
        self.asks: bool = True
        """False if its sender would not answer a drain. Then none is sent, and its room moves at once."""
        self.is_idle: bool = False
        """True if its sender has sent nothing since it was asked to drain."""
        self.is_draining: bool = False
        """True if its sender is to give unused credit back; until it does, or sends again."""
        self._asked_at: float = NEVER
        """Time of the drain that is not answered (monotonic seconds); NEVER without one."""

    def watch(self, now: float) -> None:
        """Look when its credit becomes idle: others wait for room that it has reserved."""
        if self.due == NEVER and self.idle_s != NEVER:
            due = self.credit.used_at + self.idle_s
            self.credit.broker.timers.add(self, due if due > now else now)

    def end_drain(self) -> None:
        """Forget a drain: the sender has answered it, or sends again."""
        self.is_draining = False
        self._asked_at = NEVER

    def on_used(self) -> None:
        """End the idle time: the sender sends again."""
        self.is_idle = False
        self.end_drain()

    def others_wait(self) -> bool:
        """Return whether anybody else waits at a gate of an amount in which the link has room."""
        credit = self.credit
        reservation, hold = credit.reservation, credit.hold
        if hold.messages > 0 and hold.room.gate.in_line() > (1 if hold.room.gate is credit.gate else 0):
            return True
        for queue in reservation.queues:
            for gate in queue.gates:
                if gate.in_line() > (1 if gate is credit.gate else 0):
                    return True
        for gate in reservation.gates:
            if gate.in_line() > (1 if gate is credit.gate else 0):
                return True
        return False

    @override
    def on_deadline(self, now: float) -> float:
        credit = self.credit
        credit.settle(now)
        if credit.is_closed or (credit.reservation.messages == 0 and credit.hold.messages == 0):
            return NEVER  # There is nothing to take back.
        idle_at = credit.used_at + self.idle_s
        if now < idle_at:
            return idle_at
        if not self.others_wait():
            return NEVER
        if self._asked_at == NEVER and self.asks:
            self._ask_drain(now)
            return now + DRAIN_S
        if not self.asks and not self.is_idle:
            self.is_idle = True
            self.credit.counts.idle += 1
        if self.asks and now < self._asked_at + DRAIN_S:
            return self._asked_at + DRAIN_S
        self._set_aside(now)
        if credit.reservation.messages == 0 and credit.hold.messages == 0:
            return NEVER
        return now + DRAIN_S  # The rest is set aside when that has room.

    def _ask_drain(self, now: float) -> None:
        """Ask the sender to give its unused credit back."""
        self._asked_at = now
        self.is_idle = True
        self.is_draining = True
        self.credit.counts.idle += 1
        self.credit.notify()

    def _set_aside(self, now: float) -> None:
        """Free the room of unused credit in the amounts that others share."""
        credit = self.credit
        credit.counts.moved += credit.hold.set_own_aside()
        moved = credit.hold.set_aside(credit.reservation.messages, credit.reservation.charge)
        if moved > 0:
            credit.counts.moved += moved
            credit.reservation.settle(moved, now)
