"""A limit on a sum over many queues: the contents of a virtual host, or the messages of the node in memory.

Theory of operation. A queue's hot path must not touch a sum that all queues share. So each member is *counted* with its
depth and a *slack*, up to which it may grow without asking. The counted sum is never below the exact one. While the sum
is far from the thresholds, slacks are generous and renewed at every check of a member. Near the thresholds all slacks
are reclaimed, the sum is exact, every member asks for every message, and the gate is updated each time. Reclaiming also
finds room that falling depths have freed. Its cost is amortised over the slacks handed out since the last reclaim, so
the cost for each message stays constant.

A shared limit may give each queue a guaranteed share, which it may fill even while the limit's gate is closed. So one
full queue never blocks an empty one. The guaranteed bytes lie between the thresholds' capacity and `ceiling`.

Room that a queue reserves for granted credit does not count here: a reservation is a promise of its queue. A message on
credit is held like any publish while the limit is full (decision 97).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.flow.gate import NO_GUARANTEE, Gate, GateOwner
from penstock.flow.level import UNLIMITED, Level, Measure, Thresholds
from penstock.flow.turns import Turns


class CountedDepth(GateOwner):
    """Messages and bytes that are counted, their thresholds and their gate.

    The thresholds are compared with the depth alone, the capacity with the depth plus the promised amounts.
    """

    def __init__(self, kind: str, name: str, thresholds: Thresholds, turns: Turns) -> None:
        self.turns = turns
        self.gate = Gate(kind, name, turns.transitions)
        self.gate.owner = self
        self.thresholds = thresholds
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.promised_messages: i64 = 0
        self.promised_bytes: i64 = 0
        """Room promised to commits that are entering, besides the depth. Granted credit has none here: its room is in
        its queues.
        """

    def judge(self, now: float) -> None:
        """Close or open the gate by the counted depth; schedule its waiters if it is open."""
        gate = self.gate
        if gate.open:
            if self.thresholds.overfull(self.messages, self.bytes):
                gate.close(self.messages, self.thresholds.stop.counted(self.messages, self.bytes), now)
        elif self.thresholds.underfull(self.messages, self.bytes):
            gate.reopen(self.messages, self.thresholds.resume.counted(self.messages, self.bytes), now)
        if gate.open and gate.has_line():
            self.turns.schedule(gate)

    @override
    def has_room(self, messages: i64, bytes: i64, now: float) -> bool:
        return self.covers(messages, bytes)

    def covers(self, messages: i64, bytes: i64) -> bool:
        """Return whether this additional amount stays within the capacity, promises included."""
        return self.thresholds.capacity.covers(
            self.messages + self.promised_messages + messages, self.bytes + self.promised_bytes + bytes
        )

    def free_room(self, messages: i64, bytes: i64, now: float) -> Level:
        """Return the room that is neither filled nor promised; exact if it is less than these amounts."""
        self.has_room(messages, bytes, now)
        return self.thresholds.capacity.less(self.messages + self.promised_messages, self.bytes + self.promised_bytes)

    @override
    def limits_increase(self, messages: i64, bytes: i64) -> bool:
        return self.thresholds.bound(messages, bytes)

    @override
    def could_ever_take(self, messages: i64, bytes: i64) -> bool:
        return self.thresholds.capacity.covers(messages, bytes)

    @override
    def measure(self) -> Measure:
        return Measure(self.thresholds, self.messages, self.bytes, self.promised_messages, self.promised_bytes)

    @override
    def describe_cause(self, now: float) -> str:
        return self.measure().describe_cause(self.gate.open)

    @override
    def describe_refusal(self) -> str:
        return f"{self.gate.kind} '{self.gate.name}' {self.measure().describe_refusal(self.gate.open)}"


SLACK_MESSAGES_MAX: Final = 65_536
SLACK_BYTES_MAX: Final = 4 * 1024 * 1024
"""Largest slack: bytes that a member may grow by without asking."""
SLACK_BYTES_MIN: Final = 16 * 1024
"""Smallest slack worth handing out; below it the member asks each time."""
SHARE_BYTES_MAX: Final = 1024 * 1024
"""Largest guaranteed share of one queue."""


@mypyc_attr(allow_interpreted_subclasses=True)
class LimitMember:
    """A queue or other owner of messages whose depth counts in shared limits."""

    def reclaim_slack(self) -> None:
        """Return all slack: be counted with the exact depth in every shared limit."""
        raise NotImplementedError


class SharedLimit(CountedDepth):
    """The counted sum of the members' depths and slacks, its thresholds and its gate."""

    def __init__(self, kind: str, name: str, thresholds: Thresholds, turns: Turns) -> None:
        super().__init__(kind, name, thresholds, turns)
        self.reserve: i64 = 0
        """Bytes beyond the capacity for all guaranteed shares together; 0 without shares."""
        self.members: i64 = 0
        self.highest_bytes: i64 = 0
        """The highest exact sum."""
        self.exact: bool = False
        """True near the thresholds: the counted sum is exact."""
        self._has_slack: dict[int, LimitMember] = {}
        """Members that may be counted with more than their depth."""
        self._near = _near(thresholds)

    def set_thresholds(self, thresholds: Thresholds, now: float) -> None:
        """Replace the thresholds and update the gate."""
        self.thresholds = thresholds
        self._near = _near(thresholds)
        self.exact = True
        self.update_gate(now)

    def slack(self) -> Level:
        """Return the slack that a member gets."""
        if self.exact:
            return Level(0, 0)
        near = self._near
        shares: i64 = 2 * (len(self._has_slack) + 1)
        messages = _share(near.messages - self.messages, shares, SLACK_MESSAGES_MAX)
        size = _share(near.bytes - self.bytes, shares, SLACK_BYTES_MAX)
        if size < SLACK_BYTES_MIN or messages == 0:
            return Level(0, 0)
        return Level(messages, size)

    def count(self, member: LimitMember, messages: i64, bytes: i64, loose: bool, now: float) -> None:
        """Change the counted amount of a member; `loose`: part of the amount may be slack."""
        self.messages += messages
        self.bytes += bytes
        if loose:
            self._has_slack[id(member)] = member
        elif self._has_slack:
            self._has_slack.pop(id(member), None)
        self._recheck(now)

    def join(self) -> None:
        """Count one more member."""
        self.members += 1

    def part(self, member: LimitMember) -> None:
        """Remove a member; its counted amount must be 0 by then."""
        self.members -= 1
        self._has_slack.pop(id(member), None)

    @override
    def admits(self, charge: i64, copies: i64, now: float) -> bool:
        return self.has_room(copies, charge * copies, now)

    @override
    def has_room(self, messages: i64, bytes: i64, now: float) -> bool:
        if self.covers(messages, bytes):
            return True
        self._reclaim_slack()
        return self.covers(messages, bytes)

    def exact_measure(self, now: float) -> Measure:
        """See `GateOwner.exact_measure`: slack is reclaimed first, so the depth is the true sum."""
        self.update_gate(now)
        return self.measure()

    @override
    def guaranteed_total(self) -> i64:
        return self.reserve

    @override
    def update_gate(self, now: float) -> None:
        self._reclaim_slack()
        self._recheck(now)

    def _recheck(self, now: float) -> None:
        """Check whether the thresholds are near, or waiters exist; if so, make the sum exact and update the gate.

        A waiter with a large message depends on every decrease, however far the thresholds are.
        """
        near, gate = self._near, self.gate
        is_near = not near.covers(self.messages, self.bytes)
        if not self.exact and (is_near or gate.in_line()):
            self.exact = True  # Before the reclaim: otherwise members would get new slack while they return theirs.
            self._reclaim_slack()
        if self.exact:
            self.judge(now)
            if gate.open and not gate.in_line() and near.covers(self.messages * 10 // 9, self.bytes * 10 // 9):
                self.exact = False

    def _reclaim_slack(self) -> None:
        loose = self._has_slack
        if loose:
            self._has_slack = {}
            for member in loose.values():
                member.reclaim_slack()

    def judge(self, now: float) -> None:
        """See `CountedDepth.judge`; the sum is exact here."""
        if self.bytes > self.highest_bytes:
            self.highest_bytes = self.bytes
        if self.reserve:
            self.gate.guaranteed_bytes = self._guarantee()
        super().judge(now)

    def _guarantee(self) -> i64:
        """Return the guaranteed share of a queue, within the room left below the ceiling."""
        share = self.reserve // self.members if self.members > 0 else self.reserve
        if share > SHARE_BYTES_MAX:
            share = SHARE_BYTES_MAX
        left = self.thresholds.capacity.bytes + self.reserve - self.bytes
        if left < share:
            share = left
        return share if share >= 0 else NO_GUARANTEE


def _share(room: i64, shares: i64, most: i64) -> i64:
    if room <= 0:
        return 0
    share = room // shares
    return share if share < most else most


def _near(thresholds: Thresholds) -> Level:
    """Return the level above which the sum must be exact: three quarters of the way to the nearest threshold."""
    resume, stop = thresholds.resume, thresholds.stop
    messages = resume.messages if resume.messages < stop.messages else stop.messages
    size = resume.bytes if resume.bytes < stop.bytes else stop.bytes
    return Level(
        UNLIMITED if messages == UNLIMITED else messages * 3 // 4,
        UNLIMITED if size == UNLIMITED else size * 3 // 4,
    )
