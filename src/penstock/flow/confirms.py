"""Publisher confirms of one producer: in order, each exactly once, withheld while a gate on the road is closed.

Theory of operation. Publishes of one producer are numbered 1, 2, 3 ... Most are accepted on an open road: they only
raise `published`, and all numbers up to it may be confirmed as one range. Every other publish has a `PendingConfirm`,
ordered by number. It is *withheld* if the message is in the queue and a gate is closed. Publishes in a row behind the
same gates with the same deadline share one withheld entry. It is *held* if the message is not in the queue yet. All
numbers before the first pending entry may be confirmed. A refused publish is nacked at once by its own number, and
later ranges leave that number out.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.flow.gate import NO_GATES, Gate, Refusal
from penstock.flow.level import UNLIMITED

HELD: Final = 0
WITHHELD: Final = 1
READY: Final = 2
REFUSED: Final = 3


class PendingConfirm:
    """The confirm of one or several consecutive publishes that cannot be sent yet."""

    __slots__ = ("first", "number", "state", "road", "deadline")

    def __init__(self, number: i64, state: int, road: list[Gate], deadline: float) -> None:
        self.first: i64 = number
        self.number: i64 = number
        """The last number; equal to `first` while the publish is held."""
        self.state = state
        self.road = road
        self.deadline = deadline
        """Latest time of sending, whatever the gates say: monotonic seconds."""

    def obstacle(self) -> Gate | None:
        """Return the first closed gate on the message's road."""
        for gate in self.road:
            if not gate.open:
                return gate
        return None

    def publishes(self) -> int:
        """Return the number of publishes that share this entry."""
        return int(self.number - self.first) + 1

    def takes(self, road: list[Gate], deadline: float) -> bool:
        """Return whether the next publish, with this road and deadline, may share this entry."""
        if self.state != WITHHELD or self.deadline != deadline or len(self.road) != len(road):
            return False
        for at in range(len(road)):
            if self.road[at] is not road[at]:
                return False
        return True


class ConfirmRange:
    """A range of publish numbers, `first`..`last`, that is confirmed, or refused for a reason."""

    __slots__ = ("first", "last", "confirmed", "refusal")

    def __init__(self, first: i64, last: i64, refusal: Refusal | None = None) -> None:
        self.first: i64 = first
        self.last: i64 = last
        self.confirmed = refusal is None
        self.refusal = refusal
        """The reason of a refusal; None if the range is confirmed."""


class LaneNumbers:
    """Numbers of the publishes of a lane. The next session of the lane continues them."""

    __slots__ = ("offset", "refused")

    def __init__(self, offset: i64, refused: list[int], most: int) -> None:
        self.offset: i64 = offset
        """The lane's number of a publish minus its confirm number."""
        self.refused: deque[int] = deque(refused, most)
        """The latest refused numbers of the lane, at most `most`."""

    def refuse(self, number: i64) -> None:
        """Record that the publish with this confirm was refused, or returned."""
        self.refused.append(int(self.offset + number))


NO_PENDING: Final[deque[PendingConfirm]] = deque(maxlen=0)
NO_NUMBERS: Final[deque[int]] = deque(maxlen=0)
"""Empty queues that producers share until the first pending confirm: most producers have none, and an empty deque takes
640 bytes.
"""


@mypyc_attr(allow_interpreted_subclasses=True)
class Confirms:
    """The publisher confirms of one producer."""

    def __init__(self) -> None:
        self.published: i64 = 0
        """The number of the last publish."""
        self.durable_upto: i64 = UNLIMITED
        """Number of the last durable publish; later publishes are confirmed only after fsync."""
        self.pending: deque[PendingConfirm] = NO_PENDING
        self.sent_upto: i64 = 0
        """The last number up to which every outcome was taken."""
        self.uncounted: i64 = 0
        """Numbers up to `sent_upto` that are not confirms: refusals, answers to commits, and confirms that are counted
        elsewhere.
        """
        self.lane: LaneNumbers | None = None
        """Numbers of the producer's lane; None without a lane."""
        self._refused: list[ConfirmRange] = []
        self._nacked: deque[int] = NO_NUMBERS

    def withhold(self, road: list[Gate], deadline: float) -> None:
        """Number a publish that was accepted behind a closed gate, or behind an earlier withheld publish."""
        self.published += 1
        if self.pending:
            last = self.pending[-1]
            if last.takes(road, deadline):
                last.number = self.published
                return
        self._append(PendingConfirm(self.published, WITHHELD, road, deadline))

    def hold(self, deadline: float) -> PendingConfirm:
        """Number a publish that is held; the caller later calls `accepted` or `refuse`."""
        self.published += 1
        pending = PendingConfirm(self.published, HELD, NO_GATES, deadline)  # Its road is unknown yet.
        self._append(pending)
        return pending

    def _append(self, pending: PendingConfirm) -> None:
        if self.pending is NO_PENDING:
            self.pending = deque()
        self.pending.append(pending)

    def _nack(self, pending: PendingConfirm) -> None:
        """Record that the number of a refused publish is left out of later ranges."""
        if self._nacked is NO_NUMBERS:
            self._nacked = deque()
        self._nacked.append(int(pending.number))

    def accepted(self, pending: PendingConfirm, road: list[Gate]) -> None:
        """Change a held publish to withheld: its message is in the queues that `road` guards."""
        pending.state = WITHHELD
        pending.road = road

    def refuse(self, pending: PendingConfirm, refusal: Refusal) -> None:
        """Refuse a held publish for a reason: its outcome is ready at once."""
        self._refused.append(ConfirmRange(pending.number, pending.number, refusal))
        self._leave_out(pending)
        if self.lane is not None:
            self.lane.refuse(pending.number)

    def number_decided(self, refused: bool) -> None:
        """Number a publish of a lane. The lane reports its outcome, so no range of confirms contains its number."""
        pending = self.hold(float("inf"))
        self._leave_out(pending)
        if refused and self.lane is not None:
            self.lane.refuse(pending.number)

    def _leave_out(self, pending: PendingConfirm) -> None:
        pending.state = REFUSED
        while self.pending and self.pending[0].state == REFUSED:
            self._nack(self.pending.popleft())  # A refused publish does not delay later publishes.

    def decided(self) -> i64:
        """Return the number up to which every publish is in its queues, refused or unroutable."""
        for pending in self.pending:
            if pending.state == HELD:
                return pending.number - 1
        return self.published

    def release(self) -> Gate | None:
        """Release, in order, all confirms that no closed gate delays; returns the gate that delays the next confirm."""
        obstacle: Gate | None = None
        released = 0
        for pending in self.pending:
            if pending.state == WITHHELD:
                obstacle = pending.obstacle()
            if obstacle is not None or pending.state == HELD:
                break
            if pending.state == REFUSED:
                self._nack(pending)
            released += 1
        for _ in range(released):
            self.pending.popleft()
        return obstacle

    def expire(self, now: float) -> list[PendingConfirm]:
        """Release all withheld confirms up to the last one whose deadline has passed; returns the released entries.

        The order is kept, so earlier confirms with a later deadline are released too.
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
        """Return whether `take` has outcomes to return."""
        return self.sent_upto < self._clear() or bool(self._refused)

    def confirmed(self) -> i64:
        """Return the number of publishes whose confirm was taken."""
        return self.sent_upto - self.uncounted

    def forget_confirmed(self) -> None:
        """Exclude the publishes accepted so far from the counts."""
        self.uncounted = self.sent_upto

    def take(self) -> list[ConfirmRange]:
        """Take the outcomes that may be sent now: refusals by number, then confirms as ranges, in order."""
        outcomes = self._refused
        self._refused = []
        clear = self._clear()
        while self.sent_upto < clear:
            until = clear
            if self._nacked and self._nacked[0] <= clear:
                until = self._nacked.popleft() - 1
                self.uncounted += 1
                if until > self.sent_upto:
                    outcomes.append(ConfirmRange(self.sent_upto + 1, until))
                self.sent_upto = until + 1
                continue
            outcomes.append(ConfirmRange(self.sent_upto + 1, until))
            self.sent_upto = until
        return outcomes

    def _clear(self) -> i64:
        clear = self.pending[0].first - 1 if self.pending else self.published
        return clear if clear < self.durable_upto else self.durable_upto
