"""Entry times: seconds that entries of the event loop take, compared with the units of work that they count.

Theory of operation. An entry is uninterrupted work of the loop for one client or one purpose: a share of a client's
input, a step of a job or of an HTTP request. The units of an entry are the broker's estimate of its cost. Work with an
estimate that is far too low delays all clients, and the client of that work would be served first again. So the loop's
clock is read at the end of each entry. If the entry took much longer than its units, the thread's processor time is
read as well, which does not depend on other load of the machine. The smaller of the two times counts.

The difference is counted in units. So the turn ends, and the client is served after other clients. The client's input
then rests for `REST` times the client's debt, so that it delays other clients for at most a tenth of the time. The debt
decays.

Short entries with too few units charge no client. So a turn also ends when its entries have taken the time of its
units, even if few were counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.connection import Connection
from penstock.connections.log_line import LogLine
from penstock.driver.log_queue import LogQueue
from penstock.flow.gate_stats import Histogram
from penstock.flow.timers import TimerHandler, Timers
from penstock.flow.work import TURN, WorkMeter
from penstock.logs.ids import LONG_ENTRY

INPUT: Final = "input"
JOB: Final = "job"
TIMERS: Final = "timers"
DELIVERIES: Final = "deliveries"
TICK: Final = "tick"
END: Final = "end"
HTTP: Final = "http"
KINDS: Final = (INPUT, JOB, TIMERS, DELIVERIES, TICK, END, HTTP)
"""Kinds of entries: a client's input, a step of a job, timers with waiting publishes and chores, the deliveries of a
turn, the work of each second, the end of a connection, a step of an HTTP request.
"""

LEAST: Final = TURN
"""Units above which a difference is charged: smaller differences are bounded by the time of a turn."""
SLACK: Final = 4
"""Factor by which an entry may exceed its units: a unit is about a microsecond, and machines differ."""
MARK_S: Final = 0.001
"""Seconds after which the processor time is read again at an entry: the precision of this time."""
REST: Final = 10
"""Seconds of rest for each second that a client owes."""
REST_MOST_S: Final = 30.0
"""Longest rest."""
HALVED_S: Final = 30.0
"""Half-life of a client's debt, in seconds."""


def _no_time() -> float:
    return 0.0


class EntryClock:
    """Clock that the event loop supplies. Without functions the clock stands still: no work takes time in
    simulations.
    """

    __slots__ = ("busy", "now", "unit_s")

    def __init__(
        self, now: Callable[[], float] = _no_time, busy: Callable[[], float] = _no_time, unit_s: float = 1e-6
    ) -> None:
        self.now = now
        """Monotonic seconds."""
        self.busy = busy
        """Processor time of the loop's thread in seconds, without garbage collections."""
        self.unit_s = unit_s
        """Seconds that a unit of work takes."""


class Debt:
    """Debt of one client: seconds that were not counted as units."""

    __slots__ = ("_at", "_seconds")

    def __init__(self) -> None:
        self._seconds: float = 0.0
        self._at: float = 0.0

    def add(self, seconds: float, now: float) -> float:
        """Add seconds; return the seconds that the client must rest."""
        self._seconds = self._seconds * 0.5 ** ((now - self._at) / HALVED_S) + seconds
        self._at = now
        return min(self._seconds * REST, REST_MOST_S)


class RestingInput(TimerHandler):
    """Rest of one connection's input."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.debt = Debt()
        self._connection = connection
        self._rests = False

    def begin(self, seconds: float, now: float, timers: Timers) -> float:
        """Start a rest because of so many more seconds of debt; return the seconds of the rest."""
        rest = self.debt.add(seconds, now)
        if not self._rests:
            self._rests = True
            self._connection.hold_input()
            timers.add(self, now + rest)
        return rest

    @override
    def on_deadline(self, now: float) -> float:
        self._rests = False
        self._connection.release_input()
        return float("inf")


class EntryTimes:
    """Times of the entries of one broker's event loop."""

    def __init__(self, meter: WorkMeter, timers: Timers, log_queue: LogQueue) -> None:
        self.clock = EntryClock()
        """Clock; the event loop sets its own clock."""
        self.counts: dict[str, int] = dict.fromkeys(KINDS, 0)
        """Number of entries that took longer than their units, by kind."""
        self.seconds: dict[str, float] = dict.fromkeys(KINDS, 0.0)
        """Excess seconds of these entries, by kind."""
        self._meter = meter
        self.spent_s: float = 0.0
        """Seconds that the entries of the present turn have taken; the scheduler resets the sum."""
        self._timers = timers
        self._log_queue = log_queue
        self._began: float = 0.0
        self._units: i64 = 0
        """Time and units at which the present entry began."""
        self._marked: float = 0.0
        self._busy: float = 0.0
        """Time of the last reading of the processor time, and the reading."""
        self._resting: dict[int, RestingInput] = {}
        """Rests by number of the connection."""

    def begin(self, now: float) -> None:
        """Begin an entry at `now` (monotonic seconds)."""
        self._began = now
        self._units = self._meter.done
        if now - self._marked >= MARK_S:
            self._marked = now
            self._busy = self.clock.busy()

    def end(self, kind: str, name: str = "") -> float:
        """End an entry and begin the next. Return the seconds beyond its units; usually 0.0.

        These seconds are counted in units, and logged with the name of the client. Without a name no client is logged.
        """
        now = self.clock.now()
        seconds = now - self._began
        self.spent_s += seconds
        if seconds < LEAST * self.clock.unit_s:
            self.begin(now)
            return 0.0
        return self._owed(kind, name, None, seconds, now)

    def end_of(self, kind: str, connection: Connection) -> None:
        """End an entry of a connection and begin the next; its input rests if the entry took longer than its units."""
        now = self.clock.now()
        seconds = now - self._began
        self.spent_s += seconds
        if seconds < LEAST * self.clock.unit_s:
            self.begin(now)
        else:
            self._owed(kind, "", connection, seconds, now)

    def view(self) -> list[tuple[str, int, float]]:
        """Return the kinds, with the number of entries that took too long, and their seconds."""
        return [(kind, self.counts[kind], self.seconds[kind]) for kind in KINDS]

    def forget(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        resting = self._resting.pop(connection.number, None)
        if resting is not None:
            self._timers.drop(resting)

    def _owed(self, kind: str, name: str, connection: Connection | None, seconds: float, now: float) -> float:
        """Examine an entry that took long; begin the next."""
        unit_s = self.clock.unit_s
        units = self._meter.done - self._units
        seconds = min(seconds, self.clock.busy() - self._busy)
        owed = 0.0
        if seconds >= (SLACK * float(units) + LEAST) * unit_s:
            owed = seconds - float(units) * unit_s
            self._meter.done += int(owed / unit_s)
            self.counts[kind] += 1
            self.seconds[kind] += owed
            rest = 0.0
            if connection is not None:
                name = connection.name()
                rest = self._rest(connection, owed, now)
            self._log_queue.add(_line(kind, name, seconds, int(units), owed, rest))
        self.begin(now)
        return owed

    def _rest(self, connection: Connection, owed: float, now: float) -> float:
        resting = self._resting.get(connection.number)
        if resting is None:
            resting = RestingInput(connection)
            self._resting[connection.number] = resting
        return resting.begin(owed, now, self._timers)


def _line(kind: str, name: str, seconds: float, units: int, owed: float, rest: float) -> LogLine:
    whose = f" of [{name}]" if name else ""
    then = f"; its input rests {rest:.1f} s" if rest else ""
    return LogLine(
        f"{kind}{whose} took {seconds * 1000:.0f} ms and counted {units:,} units of work: "
        f"{owed * 1000:.0f} ms more than they say{then}",
        {
            "id": LONG_ENTRY, "kind": kind, "connection": name or None, "ms": round(seconds * 1000, 3), "work": units,
            "rest_s": round(rest, 3),
        },
    )  # fmt: skip


RECENT_S: Final = 60.0
"""Seconds of a period; the recent longest turn covers one to two periods."""


class LongTurn:
    """Turn: its seconds, its units of work, and the connection with most of the units."""

    __slots__ = ("seconds", "work", "connection", "connection_work")

    def __init__(self, seconds: float, work: i64, connection: str, connection_work: i64) -> None:
        self.seconds = seconds
        self.work: i64 = work
        self.connection = connection
        """Name of the connection; empty if no input was handled."""
        self.connection_work: i64 = connection_work

    def view(self) -> dict[str, object]:
        """Return the turn as plain data."""
        return {
            "ms": round(self.seconds * 1000, 3),
            "work": int(self.work),
            "connection": self.connection or None,
            "connection_work": int(self.connection_work),
        }


NO_TURN: Final = LongTurn(0.0, 0, "", 0)


class TurnTimes:
    """Longest turn since the start, and the longest recent turn."""

    def __init__(self, meter: WorkMeter) -> None:
        self.longest = NO_TURN
        self.seconds = Histogram()
        """Seconds of all turns."""
        self._recent = NO_TURN
        self._before = NO_TURN
        self._period_ends: float = 0.0
        self._meter = meter
        self._work: i64 = 0
        """Reading of the work meter when the present turn began."""
        self._most: i64 = 0
        self._busiest: Connection | None = None

    def count(self, connection: Connection, work: i64) -> None:
        """Add the work of a connection's input in the present turn."""
        if work > self._most:
            self._most = work
            self._busiest = connection

    def present(self) -> tuple[int, str, int]:
        """Return the work of the present turn, the connection with most of it ("" without one), and its share."""
        name = "" if self._busiest is None else self._busiest.name()
        return int(self._meter.done - self._work), name, int(self._most)

    def end_turn(self, seconds: float, now: float) -> None:
        """End the present turn, with its seconds of processor or elapsed time."""
        self.seconds.count(seconds)
        if now >= self._period_ends:
            self._before = self._recent if now < self._period_ends + RECENT_S else NO_TURN
            self._recent = NO_TURN
            self._period_ends = now + RECENT_S
        if seconds > self._recent.seconds:
            name = "" if self._busiest is None else self._busiest.name()
            self._recent = LongTurn(seconds, self._meter.done - self._work, name, self._most)
            if seconds > self.longest.seconds:
                self.longest = self._recent
        self._work = self._meter.done
        self._most = 0
        self._busiest = None

    def recent(self) -> LongTurn:
        """Return the longest turn of the last one to two periods."""
        return self._recent if self._recent.seconds >= self._before.seconds else self._before

    def view(self) -> dict[str, object]:
        """Return both turns as plain data."""
        return {"longest": self.longest.view(), "recent": self.recent().view()}
