"""Confirmations: in order, each exactly once, withheld while the road is closed.

Theory of operation. Publishes of one producer are numbered 1, 2, 3 ... Most are accepted on an open road: they only
raise `published`, and everything up to it may be confirmed as one range. Anything else is a `PendingConfirm`, kept in
order of its number: *withheld* (the message is in the queue, a gate is closed; one entry for all that went in one after
the other behind the same gate until the same deadline) or *held* (the message is not in yet). All numbers before the
first pending one may be confirmed. A refused one is told at once, by its own number,
and later ranges leave it out.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED

HELD: Final = 0
WITHHELD: Final = 1
READY: Final = 2
REFUSED: Final = 3


class PendingConfirm:
    """The confirmation of a publish, or of several in a row, that cannot be given yet."""

    __slots__ = ("first", "number", "state", "road", "deadline")

    def __init__(self, number: i64, state: int, road: list[Gate], deadline: float) -> None:
        self.first: i64 = number
        self.number: i64 = number
        """The last of them; the only one while it is held."""
        self.state = state
        self.road = road
        self.deadline = deadline
        """By then it is sent, whatever the gates say: monotonic seconds."""

    def obstacle(self) -> Gate | None:
        """Return the first closed gate of the road that the message has taken."""
        for gate in self.road:
            if not gate.open:
                return gate
        return None

    def publishes(self) -> int:
        """Return how many publishes it is about."""
        return int(self.number - self.first) + 1

    def takes(self, road: list[Gate], deadline: float) -> bool:
        """Tell whether the next publish is as those that it is about, and may be one of them."""
        if self.state != WITHHELD or self.deadline != deadline or len(self.road) != len(road):
            return False
        for at in range(len(road)):
            if self.road[at] is not road[at]:
                return False
        return True


class ConfirmRange:
    """Numbers `first`..`last` are confirmed, or refused."""

    __slots__ = ("first", "last", "confirmed")

    def __init__(self, first: i64, last: i64, confirmed: bool) -> None:
        self.first: i64 = first
        self.last: i64 = last
        self.confirmed = confirmed


@mypyc_attr(allow_interpreted_subclasses=True)
class Confirms:
    """The confirmations of one producer."""

    def __init__(self) -> None:
        self.published: i64 = 0
        """The number of the last publish."""
        self.durable_upto: i64 = UNLIMITED
        """Publishes after this number are not as safe yet as was promised: they are not on the disk."""
        self.pending: deque[PendingConfirm] = deque()
        self._sent_upto: i64 = 0
        self._refused: list[int] = []
        self._nacked: deque[int] = deque()

    def withhold(self, road: list[Gate], deadline: float) -> None:
        """Number a publish that was accepted behind a closed gate, or behind one that waits."""
        self.published += 1
        if self.pending:
            last = self.pending[-1]
            if last.takes(road, deadline):
                last.number = self.published
                return
        self.pending.append(PendingConfirm(self.published, WITHHELD, road, deadline))

    def hold(self, deadline: float) -> PendingConfirm:
        """Number a publish that is held; its holder later calls `accepted` or `refuse`."""
        self.published += 1
        pending = PendingConfirm(self.published, HELD, [], deadline)
        self.pending.append(pending)
        return pending

    def accepted(self, pending: PendingConfirm, road: list[Gate]) -> None:
        """A held publish went in; its confirmation now depends on the road it took."""
        pending.state = WITHHELD
        pending.road = road

    def refuse(self, pending: PendingConfirm) -> None:
        """A publish did not go in and never will: told at once."""
        pending.state = REFUSED
        self._refused.append(int(pending.number))
        while self.pending and self.pending[0].state == REFUSED:
            self._nacked.append(int(self.pending.popleft().number))  # It keeps nobody back who comes after.

    def release(self) -> Gate | None:
        """Let go, in order, what no closed gate keeps back any more; returns the gate that keeps the next one back."""
        while self.pending:
            first = self.pending[0]
            if first.state == HELD:
                return None
            if first.state == WITHHELD:
                obstacle = first.obstacle()
                if obstacle is not None:
                    return obstacle
            elif first.state == REFUSED:
                self._nacked.append(int(first.number))
            self.pending.popleft()
        return None

    def expire(self, now: float) -> list[PendingConfirm]:
        """Confirm what is in the queue and due, and with it everything withheld before; returns what that was.

        Order is kept, nobody waits longer.
        """
        last_due = 0
        late: list[PendingConfirm] = []
        for pending in self.pending:
            if pending.state == WITHHELD and pending.deadline <= now:
                last_due = int(pending.number)
        for pending in self.pending:
            if pending.number > last_due:
                break
            if pending.state == WITHHELD:
                pending.state = READY
                late.append(pending)
        self.release()
        return late

    def due(self) -> float:
        """Return the earliest deadline of a withheld confirmation, infinity if there is none."""
        earliest = float("inf")
        for pending in self.pending:
            if pending.state == WITHHELD and pending.deadline < earliest:
                earliest = pending.deadline
        return earliest

    def ready(self) -> bool:
        """Tell whether `take` has something to give."""
        return self._sent_upto < self._clear() or bool(self._refused)

    def take(self) -> list[ConfirmRange]:
        """Take the outcomes that may be told now: refusals by number, confirmations as ranges, in order."""
        outcomes: list[ConfirmRange] = []
        for number in self._refused:
            outcomes.append(ConfirmRange(number, number, False))
        self._refused.clear()
        clear = self._clear()
        while self._sent_upto < clear:
            until = clear
            if self._nacked and self._nacked[0] <= clear:
                until = self._nacked.popleft() - 1
                if until > self._sent_upto:
                    outcomes.append(ConfirmRange(self._sent_upto + 1, until, True))
                self._sent_upto = until + 1
                continue
            outcomes.append(ConfirmRange(self._sent_upto + 1, until, True))
            self._sent_upto = until
        return outcomes

    def _clear(self) -> i64:
        clear = self.pending[0].first - 1 if self.pending else self.published
        return clear if clear < self.durable_upto else self.durable_upto
