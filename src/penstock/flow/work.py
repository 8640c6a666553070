"""Work in fair shares: clients' input by the cost that it causes, and background work in slices.

Theory of operation. The broker counts work in units of about a microsecond (compiled), on a meter that only grows. A
client's input is handled until its *share* is used up. The rest waits in the `WorkQueue`, and the socket is not read
meanwhile. A turn of the event loop takes clients from the queue, each once, until the *turn* is used up. So a turn is
bounded whatever clients send, except for the one action that exceeds the bound; tests/bounds.md lists the bounds of
such actions.

The order is start-time fair queueing (Goyal, Vin, Cheng 1996): a client's position is where its last share ended, on a
scale of units. No position is more than one share before the clock, which is the position of the last client served. So
a client that used little comes before all clients that used much, however many. A client whose single action cost ten
shares is ten shares further back, unless it is alone.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Generator
from typing import Final, TypeVar

from mypy_extensions import i64, mypyc_attr

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""Work in steps, spread over as many turns as needed; each step counts its cost."""

SHARE: Final = 2_500
"""Units of one client's work in a turn."""
ASKING_SHARE: Final = 500
"""Units in a turn for all jobs that answer waiting clients by reading, such as ranges of a cursor, besides changes."""
JOBS_SHARE: Final = 100
"""Least units in a turn for all long jobs together. They may use a part (`JOBS_PART`) of what the turn has used before,
`SHARE` at most: so they lengthen a turn by this part, or by a tenth of a millisecond.
"""
JOBS_PART: Final = 4
JOB_SLICE: Final = 50
"""Units of one long job, before the job with the least units so far is next."""
STORE_SHARE: Final = 250
"""Least units in a turn to encode a store transaction. As many may be used as the turn has used before, `SHARE` at
most.
"""
LOOKING_SHARE: Final = 150
"""Units of a slice of monitoring jobs, such as `top` and lists: other work waits for one slice at most."""
TURN: Final = 8_000
"""Units of all clients' input in a turn; at most one share more."""
ENDS_A_TURN: Final = 10_000
"""Units of immediate work in a turn for all sessions that close in it; one session has a share."""
AT_ONCE: Final = 1_000
"""Messages (not units) that are dropped, settled or requeued at once: fewer do not need turns of their own."""
UNLIMITED_WORK: Final = 1 << 62


def finish(steps: Steps[Result]) -> Result:
    """Do all steps at once, where no client waits: for example before the broker listens."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


class WorkMeter:
    """The units of work done so far, and the end of the present client's share."""

    __slots__ = ("done", "limit")

    def __init__(self) -> None:
        self.done: i64 = 0
        self.limit: i64 = UNLIMITED_WORK

    def count(self, units: i64) -> None:
        """Count the units that a call returns. `done += call()` would lose the units that the call itself counts."""
        self.done += units

    def used_up(self) -> bool:
        """Return whether the present share is used up."""
        return self.done >= self.limit

    def spend(self, units: i64) -> bool:
        """Count units of work; return whether the present share is used up, so that work in steps must yield."""
        self.done += units
        return self.done >= self.limit


@mypyc_attr(allow_interpreted_subclasses=True)
class Worker:
    """A client whose input costs work."""

    def __init__(self) -> None:
        self.work_done: i64 = 0
        """Units used so far."""
        self.finish: i64 = 0
        """Position where its last share ended."""
        self.in_line: bool = False
        """True while its input waits in the queue."""
        self.turn: i64 = 0
        """Number of the turn of the last share: a client has one share a turn."""


class WorkQueue:
    """Queue of clients whose input waits for a share of a turn."""

    def __init__(self, meter: WorkMeter) -> None:
        self.meter = meter
        self._line: list[tuple[i64, i64, Worker]] = []
        self._after: list[Worker] = []
        """Clients that had their share of this turn and want more."""
        self._least_after: i64 = UNLIMITED_WORK
        """Lowest position among these clients."""
        self._turn: i64 = 1
        self._drawn: i64 = 0
        self._clock: i64 = 0
        self._furthest: i64 = 0
        self._turn_began: i64 = 0
        self._turn_ends: i64 = TURN
        self._began: i64 = 0

    def __len__(self) -> int:
        return len(self._line) + len(self._after)

    def begin_turn(self) -> None:
        """Begin a new turn with its own units."""
        self._turn += 1
        self._turn_began = self.meter.done
        self._turn_ends = self._turn_began + TURN
        if self._after:
            for worker in self._after:
                self._push(worker)
            self._after.clear()
            self._least_after = UNLIMITED_WORK
        elif not self._line:
            self._clock = self._furthest  # No client waits: earlier use does not count any more.

    def used(self) -> i64:
        """Return the units of the present turn so far, all work included."""
        return self.meter.done - self._turn_began

    def has_room(self) -> bool:
        """Return whether the present turn has units left."""
        return self.meter.done < self._turn_ends

    def end_turn(self) -> None:
        """End the present turn's units: the turn has lasted long enough."""
        self._turn_ends = self.meter.done

    def may_start(self, worker: Worker) -> bool:
        """Return whether a client's new input is handled at once.

        True if the client has had no share in this turn, and no queued client comes before it.
        """
        if worker.in_line or worker.turn == self._turn or not self.has_room():
            return False
        position = self._position(worker)
        return position <= self._least_after and (not self._line or position <= self._line[0][0])

    def begin(self, worker: Worker) -> None:
        """Begin a client's share."""
        meter = self.meter
        worker.turn = self._turn
        self._began = meter.done
        meter.limit = meter.done + SHARE

    def end(self, worker: Worker) -> i64:
        """End the present share; returns its units."""
        meter = self.meter
        cost = meter.done - self._began
        meter.limit = UNLIMITED_WORK
        worker.work_done += cost
        worker.finish = self._position(worker) + cost
        if worker.finish > self._furthest:
            self._furthest = worker.finish
        return cost

    def enter(self, worker: Worker) -> None:
        """Queue a client whose input waits; no effect if it is already queued."""
        if not worker.in_line:
            worker.in_line = True
            if worker.turn == self._turn:
                self._after.append(worker)
                if worker.finish < self._least_after:
                    self._least_after = worker.finish
            else:
                self._push(worker)

    def _push(self, worker: Worker) -> None:
        self._drawn += 1
        heapq.heappush(self._line, (self._position(worker), self._drawn, worker))

    def next(self) -> Worker | None:
        """Take the next client; None if no client may have a share in this turn."""
        if not self._line or not self.has_room() or self._line[0][0] > self._least_after:
            return None  # Clients that already had a share of this turn, and still come first, wait for the next turn.
        position, _, worker = heapq.heappop(self._line)
        worker.in_line = False
        if position > self._clock:
            self._clock = position
        return worker

    def _position(self, worker: Worker) -> i64:
        """Return a client's position: at most one share before the clock."""
        earliest = self._clock - SHARE
        return worker.finish if worker.finish > earliest else earliest


UNITS_A_TURN: Final = 4000
"""Units of work in one turn: of all chores, of waiting producers, and of due timers, each group by itself."""
UNITS_AT_LEAST: Final = 200
"""Smallest share of a chore in one turn, however many chores there are."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Chore:
    """A piece of work that takes as many turns as it needs."""

    def __init__(self) -> None:
        self.listed: bool = False
        """True while it is queued."""

    def work(self, most: i64, now: float) -> i64:
        """Do about `most` units of work; returns the units spent, without units that the meter has counted."""
        raise NotImplementedError

    def has_more(self) -> bool:
        """Return whether any work is left."""
        raise NotImplementedError


class Chores:
    """The round-robin queue of chores."""

    def __init__(self, meter: WorkMeter | None = None) -> None:
        self._meter = WorkMeter() if meter is None else meter
        self._waiting: deque[Chore] = deque()

    def add(self, chore: Chore) -> None:
        """Queue a chore from the next turn on; no effect if it is already queued."""
        if not chore.listed:
            chore.listed = True
            self._waiting.append(chore)

    def pending(self) -> bool:
        """Return whether work is left for the next turn."""
        return len(self._waiting) > 0

    def run(self, now: float) -> i64:
        """Do one turn's work, and count it; returns the units."""
        meter = self._meter
        start = meter.done
        left: i64 = len(self._waiting)
        if left == 0:
            return 0
        share = UNITS_A_TURN // left
        if share < UNITS_AT_LEAST:
            share = UNITS_AT_LEAST
        while left > 0 and meter.done - start < UNITS_A_TURN:
            left -= 1
            chore = self._waiting.popleft()
            meter.count(chore.work(share, now))
            chore.listed = False
            if chore.has_more():
                self.add(chore)
        return meter.done - start
