"""Statistics of gates: whom each blocks, since when, how often and how long; and totals since the start.

One `BlockStats` for each pair of a producer and a gate that was closed for it, one `GateStats` for each gate. The code
that blocks and releases producers writes these; the log, `connection.blocked`, `penstock why` and the metrics read
them. Bounded: entries of a producer are removed when it closes; a summary stays among the last `DEPARTED_MAX`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final

from mypy_extensions import i64

from penstock.flow.timers import CLOSE_ENOUGH_S, NEVER

PRODUCERS_LISTED: Final = 100
"""Producers listed for one gate, longest blocked first; other producers are only counted."""
DEPARTED_MAX: Final = 100
"""Summaries of closed producers for each gate: enough for one screen of a post-mortem, about 20 KiB."""


class BlockStats:
    """Statistics of one producer at one gate. Times are seconds of the caller's monotonic clock."""

    __slots__ = (
        "producer", "since", "times", "total_s", "withheld", "withheld_bytes", "held", "held_bytes", "refused",
        "refused_bytes", "late", "created_at", "renewed", "hold_deadline_s", "stops", "stopped_in", "_counted",
    )  # fmt: skip

    def __init__(self, producer: str) -> None:
        self.producer = producer
        self.since: float | None = None
        """Time since which the producer is blocked; None while it is not."""
        self.times: int = 0
        self.total_s: float = 0.0
        """Time blocked in finished blocks."""
        self.withheld: int = 0
        """Messages whose confirm was withheld, in total."""
        self.withheld_bytes: int = 0
        self.held: int = 0
        """Publishes that were held, in total."""
        self.held_bytes: int = 0
        self.refused: int = 0
        """Publishes that were refused, in total."""
        self.refused_bytes: int = 0
        self.late: int = 0
        """Confirms sent because their deadline passed, in total; their messages are in the queue."""
        self.created_at: float = -NEVER
        """Time of the producer's creation."""
        self.renewed: float = -NEVER
        """Time of the last change of the hold deadline: the wait counts from this time."""
        self.hold_deadline_s: float = NEVER
        """Hold deadline of the last publish here, in seconds; infinity means no deadline."""
        self.stops: int = 0
        """Number of times the producer was stopped; see `is_stopped`."""
        self.stopped_in: int = 0
        """Number of the gate's transition in which the producer was last stopped."""
        self._counted: int = 0
        """Part of `withheld_bytes` that was counted at earlier openings of the gate."""

    def take_passed(self) -> i64:
        """Return the bytes withheld since the last call."""
        passed = self.withheld_bytes - self._counted
        self._counted = self.withheld_bytes
        return passed

    def is_stopped(self, closed_since: float | None, hold_deadline_s: float, now: float) -> bool:
        """Return whether the producer has waited a whole hold deadline since the gate closed.

        `closed_since` is None while the gate is open. A producer that came after the gate closed waits from its
        arrival, because it had nothing in flight before. A publish handled shortly before its deadline counts as a full
        wait.
        """
        if self.since is None or closed_since is None:
            return False
        begun = closed_since if self.created_at > closed_since else max(self.since, closed_since)
        return max(begun, self.renewed) + hold_deadline_s <= now + CLOSE_ENOUGH_S

    def begin(self, now: float) -> bool:
        """Record that the producer is blocked; returns whether it was not blocked before."""
        if self.since is not None:
            return False
        self.since = now
        self.renewed = -NEVER
        self.times += 1
        return True

    def end(self, now: float) -> None:
        """Record that the producer is no longer blocked."""
        if self.since is not None:
            self.total_s += now - self.since
            self.since = None

    def blocked_s(self, now: float) -> float:
        """Return the total time blocked, the present block included."""
        return self.total_s if self.since is None else self.total_s + now - self.since

    def as_dict(self, now: float, closed_since: float | None) -> dict[str, object]:
        """Return the entry as plain data; `blocked_for_s` is None while the producer is not blocked.

        `closed_since` is when the gate closed; None while it is open.
        """
        return {
            "producer": self.producer,
            "blocked_for_s": None if self.since is None else now - self.since,
            "times": self.times,
            "total_s": self.blocked_s(now),
            "withheld": self.withheld,
            "withheld_bytes": self.withheld_bytes,
            "held": self.held,
            "held_bytes": self.held_bytes,
            "refused": self.refused,
            "refused_bytes": self.refused_bytes,
            "confirmed_late": self.late,
            "stopped": self.is_stopped(closed_since, self.hold_deadline_s, now),
            "times_stopped": self.stops,
        }


class BlockSums:
    """Sums over the producers of one gate."""

    __slots__ = ("blocked", "blocked_s", "withheld", "held", "refused", "late")

    def __init__(self) -> None:
        self.blocked: int = 0
        """Number of producers that the gate blocks now."""
        self.blocked_s: float = 0.0
        self.withheld: int = 0
        self.held: int = 0
        self.refused: int = 0
        self.late: int = 0

    def add(self, block: BlockStats, now: float) -> None:
        """Add a producer."""
        if block.since is not None:
            self.blocked += 1
        self.blocked_s += block.blocked_s(now)
        self.withheld += block.withheld
        self.held += block.held
        self.refused += block.refused
        self.late += block.late

    def add_sums(self, sums: BlockSums) -> None:
        """Add the sums over other producers."""
        self.blocked += sums.blocked
        self.blocked_s += sums.blocked_s
        self.withheld += sums.withheld
        self.held += sums.held
        self.refused += sums.refused
        self.late += sums.late


NO_BLOCKS: Final = BlockSums()
"""Sums of a gate that has never blocked a producer: one shared object, which must not be changed."""


class GateStats:
    """Statistics of one gate and of the producers at it."""

    __slots__ = ("since", "transitions", "closed_s", "opened_at", "blocks", "departed", "gone")

    def __init__(self) -> None:
        self.since: float | None = None
        """Time since which the gate is closed; None while it is open."""
        self.transitions: int = 0
        """Number of times the gate closed."""
        self.closed_s: float = 0.0
        """Seconds closed, without the present closing."""
        self.opened_at: float = NEVER
        """Time of the last opening; infinity before the first."""
        self.blocks: dict[int, BlockStats] = {}
        """Entries by the identity of the producer."""
        self.departed: deque[BlockStats] | None = None
        """Summaries of the last closed producers; None before the first."""
        self.gone: BlockSums | None = None
        """Sums over all closed producers; None before the first."""

    def closed(self, now: float) -> None:
        """Record that the gate closed."""
        self.since = now
        self.transitions += 1

    def opened(self, now: float) -> None:
        """Record that the gate opened."""
        if self.since is not None:
            self.closed_s += now - self.since
            self.since = None
            self.opened_at = now

    def entry(self, key: int, producer: str) -> BlockStats:
        """Return the entry of a producer; creates it at first use."""
        block = self.blocks.get(key)
        if block is None:
            block = BlockStats(producer)
            self.blocks[key] = block
        return block

    def depart(self, key: int, now: float) -> None:
        """Close the entry of a closed producer and add its summary to the last summaries."""
        block = self.blocks.pop(key, None)
        if block is not None:
            block.end(now)
            if self.departed is None:
                self.departed = deque(maxlen=DEPARTED_MAX)
            self.departed.append(block)
            if self.gone is None:
                self.gone = BlockSums()
            self.gone.add(block, now)

    def sums(self, now: float) -> BlockSums:
        """Return the sums over all producers, closed ones included: they never fall while the gate exists."""
        if self.gone is None and not self.blocks:
            return NO_BLOCKS
        sums = BlockSums()
        if self.gone is not None:
            sums.add_sums(self.gone)
        for block in self.blocks.values():
            sums.add(block, now)
        return sums

    def blocked(self) -> dict[int, BlockStats]:
        """Return the entries of blocked producers by identity, earliest blocked first."""
        blocked = [(block.since, key, block) for key, block in self.blocks.items() if block.since is not None]
        blocked.sort(key=_since)
        return {key: block for _, key, block in blocked}

    def summary(self, now: float) -> dict[str, object]:
        """Return the gate's statistics as plain data, without the producers."""
        closed_for = 0.0 if self.since is None else now - self.since
        return {
            "closed_for_s": None if self.since is None else closed_for,
            "crossings": self.transitions,
            "closed_s": self.closed_s + closed_for,
            "blocked": len(self.blocked()),
        }

    def as_dict(self, now: float) -> dict[str, object]:
        """Return all statistics as plain data: the summary, the producers and the last closed ones."""
        blocked = self.blocked()
        others = [block for key, block in self.blocks.items() if key not in blocked]
        producers = [*blocked.values(), *others]
        return {
            **self.summary(now),
            "producers": [block.as_dict(now, self.since) for block in producers[:PRODUCERS_LISTED]],
            "more_producers": max(len(producers) - PRODUCERS_LISTED, 0),
            "departed": [block.as_dict(now, None) for block in self.departed or ()],
        }


def _since(entry: tuple[float, int, BlockStats]) -> float:
    return entry[0]


BOUNDS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Upper bounds of the buckets, in seconds: from a short turn to a store that does not answer."""
LEAST_S: Final = 0.0001
"""The first bound, which most durations do not exceed: one comparison for each."""


class Histogram:
    """Numbers of durations by bucket, and their sum. Counts are never removed; the size is fixed."""

    __slots__ = ("_least", "_more", "sum_s")

    def __init__(self) -> None:
        self._least: i64 = 0
        """Durations up to `LEAST_S`."""
        self._more: list[int] = [0] * len(BOUNDS_S)
        """Durations in the buckets after the first; the last bucket has no bound."""
        self.sum_s: float = 0.0
        """Sum of all durations in seconds."""

    def count(self, seconds: float) -> None:
        """Count a duration in seconds; a negative duration, after a clock was set back, counts as 0."""
        if seconds <= LEAST_S:
            self._least += 1
            if seconds > 0.0:
                self.sum_s += seconds
            return
        self.sum_s += seconds
        self._more[bisect_left(BOUNDS_S, seconds, 1) - 1] += 1

    def cumulative(self) -> list[int]:
        """Return the number of durations up to each bound, and of all: one entry more than `BOUNDS_S`."""
        sums = [int(self._least)]
        for each in self._more:
            sums.append(sums[-1] + each)
        return sums


class TimeIntegral:
    """Number of spans in progress, and the total seconds of all spans, finished ones included."""

    __slots__ = ("present", "_seconds", "_since")

    def __init__(self) -> None:
        self.present: i64 = 0
        """Number of spans in progress."""
        self._seconds: float = 0.0
        self._since: float = 0.0

    def change(self, by: i64, now: float) -> None:
        """Count spans that begin, or end (negative)."""
        self._seconds = self.seconds(now)
        self._since = now
        self.present += by

    def seconds(self, now: float) -> float:
        """Return the total seconds of all spans up to now."""
        return self._seconds + float(self.present) * max(now - self._since, 0.0)


class KindTotals:
    """Totals of all gates of a kind."""

    __slots__ = ("closed", "crossings", "blocked", "blocks")

    def __init__(self) -> None:
        self.closed = TimeIntegral()
        """Closed gates."""
        self.crossings: i64 = 0
        """Number of times that gates closed."""
        self.blocked = TimeIntegral()
        """Pairs of a producer and a gate that blocks it."""
        self.blocks: i64 = 0
        """Number of times that a producer was blocked."""


class FlowTotals:
    """Totals by the kind of gate, and the latency of resumption."""

    __slots__ = ("kinds", "resume_latency", "holds")

    def __init__(self) -> None:
        self.kinds: dict[str, KindTotals] = {}
        """By `Gate.kind`; there are seven."""
        self.resume_latency = Histogram()
        """Seconds from the opening of a gate until a blocked producer resumed."""
        self.holds = Histogram()
        """Seconds for which publishes were held until their turn; refused publishes do not count."""

    def of(self, kind: str) -> KindTotals:
        """Return the totals of a kind; creates them at first use."""
        totals = self.kinds.get(kind)
        if totals is None:
            totals = KindTotals()
            self.kinds[kind] = totals
        return totals

    def count_transition(self, kind: str, closed: bool, now: float) -> None:
        """Count a gate that closed, or opened."""
        totals = self.of(kind)
        if closed:
            totals.crossings += 1
        totals.closed.change(1 if closed else -1, now)

    def count_block(self, kind: str, blocked: bool, now: float) -> None:
        """Count a producer that a gate blocks, or no longer blocks."""
        totals = self.of(kind)
        if blocked:
            totals.blocks += 1
        totals.blocked.change(1 if blocked else -1, now)


class Churn:
    """Numbers of one virtual host; they only grow."""

    __slots__ = ("queues_declared", "queues_created", "channels_opened")

    def __init__(self) -> None:
        self.queues_declared: i64 = 0
        """Declarations of queues, those of existing ones included."""
        self.queues_created: i64 = 0
        """Queues that were created, or restored from the store."""
        self.channels_opened: i64 = 0
        """Channels of AMQP 0-9-1 and sessions of AMQP 1.0."""
