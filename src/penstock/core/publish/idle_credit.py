"""Idle credit: revocation of room from senders that do not use it, only when others lack room.

A sender that an open gate cannot admit because of reserved room recalls that room (`ReservedRoom.recall`). A link that
has not sent for its idle time loses the room of its credit at once. A link that has sent is examined again after that
time, and keeps room for as many messages as arrived meanwhile. The credit remains valid: its messages are held if they
do not fit when they arrive. So the sender is also asked to drain, and answers with the credit that it will not use.
Some senders never answer.

A link that lost its room starts again like a new link: with one message of credit that takes no room from others, later
with twice the messages that have arrived since.
"""

from __future__ import annotations

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.publish.credit_line import CreditedLink
from penstock.core.publish.credit_state import CreditState, is_draining, is_idle, without_room
from penstock.core.publish.reservation import Reservation
from penstock.flow.timers import NEVER, TimerHandler, Timers
from penstock.settings.table import CREDIT_IDLE_S


class IdleCredit(TimerHandler):
    """The timer of one link whose room other senders lack."""

    __deletable__ = ("credit",)

    def __init__(
        self, credit: CreditedLink, reservation: Reservation, timers: Timers, idle_s: float = CREDIT_IDLE_S
    ) -> None:
        super().__init__()
        self.credit = credit
        self.reservation = reservation
        self.timers = timers
        self.idle_s = idle_s
        """Seconds without a message after which credit is idle; infinity for never."""
        self.asks: bool = True
        """False if the sender would not answer a drain. Then no drain is sent."""
        self._used_before: i64 = 0
        """Messages that had arrived at the last examination."""

    def recall(self, beyond_share: bool, now: float) -> None:
        """Revoke the link's room at once if it is idle, otherwise examine it soon, because another sender lacks room.

        `beyond_share`: the connection has more than its share, so the room of a link that has sent nothing is idle.
        """
        credit = self.credit
        if self.idle_s == NEVER or credit.state is CreditState.CLOSED:
            return
        credit.settle(now)
        if self.reservation.messages == 0 and credit.hold.messages == 0:
            return
        if now >= credit.used_at + self.idle_s or (beyond_share and credit.window.is_unproven()):
            self._take_back(0, now)
        elif self.due == NEVER:
            self._used_before = self._used()
            self.timers.add(self, now + self.idle_s)

    def end(self) -> None:
        """End with the link."""
        self.timers.drop(self)
        self.idle_s = NEVER  # An ended timer watches no link.
        del self.credit

    def others_wait(self) -> bool:
        """Return whether others wait at the gate of an amount in which the link has room."""
        credit = self.credit
        reservation, hold = self.reservation, credit.hold
        if hold.messages > 0 and hold.room.gate.in_line() > (1 if hold.room.gate is credit.gate else 0):
            return True
        for queue in reservation.queues:
            if queue.gate.in_line() > (1 if queue.gate is credit.gate else 0):
                return True
        return False

    @override
    def on_deadline(self, now: float) -> float:
        credit = self.credit
        credit.settle(now)
        if credit.state is CreditState.CLOSED or not self.others_wait():
            return NEVER
        used = self._used()
        self._take_back(used - self._used_before, now)
        self._used_before = used
        return NEVER if self.reservation.messages == 0 and credit.hold.messages == 0 else now + self.idle_s

    def _used(self) -> i64:
        """Return the messages that have arrived since the beginning of the link."""
        counts = self.credit.counts
        return counts.granted - counts.drained - self.credit.credit

    def _take_back(self, remaining: i64, now: float) -> None:
        """Release the room of unused credit except for so many messages, and ask the sender to drain."""
        credit = self.credit
        reservation, hold = self.reservation, credit.hold
        moved = hold.set_own_aside(remaining)
        left = reservation.messages - remaining
        if left > 0:
            aside = hold.set_aside(left, reservation.charge)
            reservation.settle(aside, now)
            reservation.revoke(left - aside, now)
            moved += left
        if moved == 0:
            return
        credit.counts.moved += moved
        credit.window.restart()
        if not is_idle(credit.state):
            credit.counts.idle += 1
        if self.asks and not is_draining(credit.state):
            credit.notify()
        credit.state = without_room(credit.state, remaining == 0, self.asks)
