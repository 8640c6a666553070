"""Work: the cost of what clients ask for, and whose input is acted on next. Fair queueing by cost.

Theory of operation. What the broker does is counted in units, about a microsecond each of the compiled broker: the
meter only grows. A client's input is acted on until its *share* is used up; the rest of it waits in the line of
`WorkQueue`, and the socket is not read meanwhile. A turn of the event loop takes clients from the line, each once,
until the *turn* is used up. So a turn is bounded whatever clients send, but for the one action that passes the bound;
such actions have bounds of their own (docs/memory.md).

The line is ordered as in start-time fair queueing (Goyal, Vin, Cheng 1996): a client stands where its last share
ended, on a scale of units, and nobody stands more than a share before the clock, which is the place of who was served
last. So a client that has used little stands before all that have used much, however many those are; one whose single
action cost ten shares stands ten shares further back, unless nobody else wants anything.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator
from typing import Final, TypeVar

from mypy_extensions import i64, mypyc_attr

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""Work that is done step by step, in as many turns as it takes; each step counts what it costs."""

SHARE: Final = 2_500
"""Units of one client's work in a turn."""
TURN: Final = 8_000
"""Units of all clients' input in a turn; one share more at most."""
ENDS_A_TURN: Final = 10_000
"""Units of work that are done at once in a turn for all ends that begin in it; one end has a share."""
AT_ONCE: Final = 1_000
"""Messages (no units) that are dropped, settled or given back on the spot: fewer are not worth a turn."""
UNLIMITED_WORK: Final = 1 << 62


def finish(steps: Steps[Result]) -> Result:
    """Do all steps at once: where nobody is kept waiting, as before the broker serves anybody."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


class WorkMeter:
    """The units of work that have been done, and where the share of the client that is served ends."""

    __slots__ = ("done", "limit")

    def __init__(self) -> None:
        self.done: i64 = 0
        self.limit: i64 = UNLIMITED_WORK

    def used_up(self) -> bool:
        """Tell whether the present share is used up."""
        return self.done >= self.limit


@mypyc_attr(allow_interpreted_subclasses=True)
class Worker:
    """A client whose input costs work."""

    def __init__(self) -> None:
        self.work_done: i64 = 0
        """Units that it has cost."""
        self.finish: i64 = 0
        """Where its last share ended, on the scale of the line."""
        self.in_line: bool = False
        """Whether input of it waits in the line."""
        self.turn: i64 = 0
        """The turn in which it had its last share: it has one in each."""


class WorkQueue:
    """The line of clients whose input waits for its share of a turn."""

    def __init__(self, meter: WorkMeter) -> None:
        self.meter = meter
        self._line: list[tuple[i64, i64, Worker]] = []
        self._after: list[Worker] = []
        """Those that have had their share of this turn, and want more."""
        self._least_after: i64 = UNLIMITED_WORK
        """Where the first of them stands."""
        self._turn: i64 = 1
        self._drawn: i64 = 0
        self._clock: i64 = 0
        self._furthest: i64 = 0
        self._turn_ends: i64 = TURN
        self._began: i64 = 0

    def __len__(self) -> int:
        return len(self._line) + len(self._after)

    def begin_turn(self) -> None:
        """Begin another turn: its work counts from now."""
        self._turn += 1
        self._turn_ends = self.meter.done + TURN
        if self._after:
            for worker in self._after:
                self._push(worker)
            self._after.clear()
            self._least_after = UNLIMITED_WORK
        elif not self._line:
            self._clock = self._furthest  # Nobody wants anything: what was used before counts no more.

    def has_room(self) -> bool:
        """Tell whether the present turn is not used up."""
        return self.meter.done < self._turn_ends

    def may_go(self, worker: Worker) -> bool:
        """Tell whether new input of a client is acted on at once: nobody in the line stands before it.

        And it has not had its share of this turn.
        """
        if worker.in_line or worker.turn == self._turn or not self.has_room():
            return False
        place = self._place(worker)
        return place <= self._least_after and (not self._line or place <= self._line[0][0])

    def begin(self, worker: Worker) -> None:
        """Begin a client's share."""
        meter = self.meter
        worker.turn = self._turn
        self._began = meter.done
        meter.limit = meter.done + SHARE

    def end(self, worker: Worker) -> i64:
        """End the share that was begun last; returns the units that it took."""
        meter = self.meter
        cost = meter.done - self._began
        meter.limit = UNLIMITED_WORK
        worker.work_done += cost
        worker.finish = self._place(worker) + cost
        if worker.finish > self._furthest:
            self._furthest = worker.finish
        return cost

    def enter(self, worker: Worker) -> None:
        """Let a client whose input waits stand in the line; doing so twice is harmless."""
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
        heapq.heappush(self._line, (self._place(worker), self._drawn, worker))

    def next(self) -> Worker | None:
        """Take the client whose share is next; None when that is nobody's in this turn."""
        if not self._line or not self.has_room() or self._line[0][0] > self._least_after:
            return None  # Those come first who have had a share of this turn, and still stand before the next.
        place, _, worker = heapq.heappop(self._line)
        worker.in_line = False
        if place > self._clock:
            self._clock = place
        return worker

    def _place(self, worker: Worker) -> i64:
        """Return where a client stands: who has not used its last share stands one share before the clock."""
        earliest = self._clock - SHARE
        return worker.finish if worker.finish > earliest else earliest
