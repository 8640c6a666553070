"""Recording: the workload of one queue, read from the flow log of a broker.

For each second with activity on a queue, the log has the numbers of arriving and leaving messages, and a histogram of
their sizes. Every ten seconds it has the producers' shares. The log lacks the times at which blocked producers would
have published, and the speed of consumers without messages. `offers` estimates when messages were offered that arrived
while producers were blocked. Services have the rate of their second, or of the nearest ten seconds in which messages
stayed in the queue. Confirm windows are known where producers had used them up, and steps of settlement by how often
messages left.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from math import inf
from random import Random
from statistics import mean
from typing import Any

from penstock.flow.level import OVERHEAD
from penstock.logs import flowlog
from penstock_simulation.arrivals import Second
from penstock_simulation.candidate import Candidate
from penstock_simulation.offers import offered
from penstock_simulation.samples import Fill, Run, Sample, sample_of
from penstock_simulation.workload import Source, Worker, Workload

MARKS = ("capacity", "stop", "resume", "length")
"""Beginnings of the limits in a record of a queue."""
NOT_SIMULATED = frozenset({"page", "self-destruct"})
"""Overflow policies that a simulation lacks: it has no disk, and its queue stays.

The simulation blocks publishers instead.
"""
HOLDING = NOT_SIMULATED | {"", "block", "read-back"}
REFUSING = frozenset({"reject", "reject-dead-letter"})
"""Overflow policies that refuse publishes."""
MESSAGES_MAX = 2_000_000
"""Most messages of a simulated recording: about half a minute of one core for each candidate."""
SAMPLES_MAX = 500_000
"""Most samples of a simulated recording: about six days with traffic."""
OVERLAP = 0.5
"""Part by which two samples may overlap when clocks are corrected."""
SMOOTHED_S = 10.0
"""Least seconds, with messages in the queue, over which a rate of services is averaged."""
PRODUCERS_MAX = 100
"""Most producers of a simulation; further producers count with the last."""


STANDSTILL = 1e-9
"""Messages per second of a consumer that has stopped consuming."""
FILLS_LEAST = 5
"""Times that the queue must have filled up, from an opening to the next closing, for a known pace."""
LOOKS_LEAST = 2
LOOKS_PART = 0.1
"""Samples, and part of them, in which a producer must have had the same most unconfirmed publishes: its window."""
NEAR = 0.5
"""Least part of its window that a producer in a closed loop has used up in most samples."""
PACED = 0.5
"""Share of the producers' time beyond which only blocks bound them: they fill the queue as fast as they can."""


class RecordingError(ValueError):
    """Error for a log that cannot be simulated, in one sentence."""


@dataclass
class Recording:
    """Samples and settings of one queue in a flow log."""

    queue: str
    messages: int = 0
    """Number of arrived messages."""
    tried: int = 0
    """Number of publishes, including publishes refused at the gate of the queue."""
    seconds: float = 0.0
    """Recorded time: from the first to the last record of each run, of any queue."""
    samples: list[Sample] = field(default_factory=list)
    producers: dict[str, int] = field(default_factory=dict)
    """Messages of each producer."""
    thresholds: dict[str, int] = field(default_factory=dict)
    """Last effective thresholds, by the names of the log's fields."""
    hold_deadline_s: float | None = None
    at_capacity: str = ""
    """Overflow policy at the capacity; "" if the log lacks it."""
    at_length: str = ""
    """Overflow policy at the length; "" without a length."""
    prefetch: int | None = None
    runs: list[Run] = field(default_factory=list)
    lost: int = 0
    """Records that the log has lost."""
    summed: int = 0
    """Events beyond the share of a user or virtual host, which the log has as sums."""
    is_too_large: bool = False
    closings: list[tuple[float, int, int]] = field(default_factory=list)
    """Closings of the gate within the recorded time: time, and depth in messages and bytes."""
    fills: list[Fill] = field(default_factory=list)
    """Times from an opening of the gate to its next closing."""
    crossings: int = 0
    closed_s: float = 0.0
    """Number and seconds of all closings, including closings that the log has as sums."""
    ends_closed: bool = False
    """True if the gate was closed at the end."""
    blocked_s: float = 0.0
    """Seconds for which the gate blocked producers, of all producers together."""
    blocks: list[tuple[float, float]] = field(default_factory=list)
    """Begin and end of each block, without blocks that the log has as sums."""
    highest: tuple[int, int] = (0, 0)
    """Highest depth of samples and closings, in messages and bytes."""

    def add(self, sample: Sample) -> None:
        """Add a sample; samples of a recording that is too large are only counted."""
        self.messages += sample.came
        self.tried += sample.came + sample.refused
        if self.tried <= MESSAGES_MAX and len(self.samples) < SAMPLES_MAX:
            self.samples.append(sample)
        else:
            self.samples.clear()
            self.is_too_large = True

    def measures(self) -> dict[str, float]:
        """Return the measures of an outcome that the log has; depths come from its samples and closings."""
        return {
            "depth": self.highest[1],
            "depth_messages": self.highest[0],
            "closed": self.closed_s / self.seconds if self.seconds else 0.0,
            "crossings": self.crossings,
            "blocked": self.blocked,
            "refused": sum(sample.refused for sample in self.samples),
        }

    @property
    def blocked(self) -> float:
        """Share of the producers' time for which the gate blocked them."""
        return min(1.0, self.blocked_s / self.seconds / max(1, len(self.producers))) if self.seconds else 0.0

    @property
    def refuses(self) -> bool:
        """True if an overflow policy refuses publishes, which were offered too."""
        return not REFUSING.isdisjoint((self.at_capacity, self.at_length))

    @property
    def window(self) -> int | None:
        """Confirm window of the producers; None if no producer has used up its window.

        Such a producer has the same number of unconfirmed publishes in each sample.
        """
        looks = Counter(sample.unconfirmed for sample in self.samples if sample.unconfirmed)
        most = max(looks, default=0)
        return most if looks[most] >= max(LOOKS_LEAST, LOOKS_PART * looks.total()) else None

    @property
    def step(self) -> int:
        """Mean number of messages that left the queue at once."""
        settlements = sum(sample.settlements for sample in self.samples)
        return max(1, round(sum(sample.left for sample in self.samples) / settlements)) if settlements else 1

    @property
    def is_closed_loop(self) -> bool:
        """True if producers had nearly used up their windows in most samples: they publish when a confirm arrives."""
        window = self.window
        looks = [sample.unconfirmed for sample in self.samples if sample.unconfirmed]
        return window is not None and 2 * sum(taken >= NEAR * window for taken in looks) > len(looks)

    @property
    def pace(self) -> float:
        """Messages a second that arrived while the queue was filled, after openings: the mean in a closed loop, else
        the median.

        0 if unknown, or if producers neither had used up their windows nor were blocked so much that blocks alone
        bounded the pace.
        """
        if len(self.fills) < FILLS_LEAST or not (self.is_closed_loop or self.blocked > PACED):
            return 0.0
        came = [(self._came_in(fill), max(fill.seconds, 1e-6)) for fill in self.fills]
        whole = sum(messages for messages, _ in came)
        if self.is_closed_loop:
            return whole / sum(seconds for _, seconds in came)
        found = 0
        for rate, messages in sorted((messages / seconds, messages) for messages, seconds in came):
            found += messages
            if 2 * found >= whole:
                return rate
        return 0.0

    def _came_in(self, fill: Fill) -> int:
        """Return the number of messages that arrived in a fill: the growth of the queue, and the messages settled
        meanwhile.

        A settlement has opened the gate. So the next settlement follows after a whole gap between two settlements.
        """
        place = min(bisect_right(self.samples, fill.at, key=_end), len(self.samples) - 1)
        sample = self.samples[place] if place >= 0 else None
        if sample is None or not sample.settlements:
            return fill.grown
        return fill.grown + int(fill.seconds * sample.settlements / sample.seconds) * sample.left // sample.settlements

    def candidate(self) -> Candidate:
        """Return the effective settings, as far as the log has them."""
        found = settings_of(self.thresholds, self.hold_deadline_s, self.prefetch)
        if self.at_capacity not in HOLDING:
            found = found.with_changes(overflow=self.at_capacity)
        elif self.at_length not in ("", "drop-head"):
            found = found.with_changes(overflow=self.at_length, holds_at_capacity=True)
        return found if self.window is None else found.with_changes(window=self.window)

    def workload(self, seed: int = 1, round_trip_s: float = 0.001) -> Workload:
        """Return the workload. Raises `RecordingError` for a recording without messages, or with too many."""
        if not self.messages or not self.seconds:
            raise RecordingError(f"the log has no arrival at queue '{self.queue}' in this time")
        if self.is_too_large:
            raise RecordingError(
                f"the log has {self.tried:,} arrivals at queue '{self.queue}' in this time; the most is "
                f"{MESSAGES_MAX:,} in {SAMPLES_MAX:,} seconds: choose a part of it with --from and --to"
            )
        return Workload(
            self._sources(seed),
            self._workers(),
            self.seconds,
            round_trip_s,
            seed,
            self.queue,
            self.pace,
            self.blocked_share,
        )

    def _sources(self, seed: int) -> tuple[Source, ...]:
        names = sorted(self.producers, key=lambda name: -self.producers[name])[:PRODUCERS_MAX]
        weights = [self.producers[name] for name in names]
        weights = weights if any(weights) else [1] * max(1, len(weights))
        total = sum(weights)
        found: list[list[Second]] = [[] for _ in weights]
        carried = [0.0] * len(weights)
        every: Counter[int] = Counter()
        for sample in self.samples:
            every.update(dict(_sizes(sample.sizes)))
        for sample, offers in offered(self, Random(f"{seed}/offers")):
            sizes = tuple(_sizes(sample.sizes)) or tuple(every.items())
            for at, seconds, count in offers:
                for index, weight in enumerate(weights):
                    carried[index] += count * weight / total
                    some = int(carried[index] + 1e-9)
                    carried[index] %= 1
                    if some:
                        found[index].append(Second(at, some, sizes, seconds))
        return tuple(
            Source("recorded", seconds=tuple(sorted(each, key=_begin)), closed_loop=self.is_closed_loop)
            for each in found
        )

    @property
    def is_held(self) -> bool:
        """True if the messages that fill the queue after openings were held by the broker before, and not by their
        producers.

        Producers hold them if they have used up their windows, or obey notices of the broker.
        """
        looks = [sample.held for sample in self.samples if sample.held is not None]
        if not looks or not self.fills or self.is_closed_loop:
            return False
        return 2 * mean(looks) >= mean(fill.grown for fill in self.fills)

    @property
    def blocked_share(self) -> float:
        """Share of the recorded time for which the gate blocked producers, as in an analysis of the log."""
        return flowlog.blocked_share(self.closed_s, self.blocked_s, self.seconds)

    def _workers(self) -> tuple[Worker, ...]:
        count = max([sample.consumers for sample in self.samples] or [1]) or 1
        had_work = [sample for sample in self.samples if sample.was_busy]
        busy = _rates(had_work, SMOOTHED_S)
        busy = busy or _rates([sample for sample in self.samples if sample.depth > 0], SMOOTHED_S)
        if not busy:  # Messages never stayed in the queue: consumers are at least as fast as in the fastest second.
            fastest = max((sample.left / sample.seconds for sample in self.samples), default=0.0)
            if fastest <= 0:
                raise RecordingError(f"nothing was consumed from queue '{self.queue}' in this time")
            busy = [(0.0, fastest)]
        # Seconds in which consumers had work have their own rates, other seconds the mean of the nearest ten.
        idle = [before.end for before, after in pairwise(self.samples) if before.was_busy and not after.was_busy]
        means = [(at, busy[max(0, bisect_right(busy, (at, inf)) - 1)][1]) for at in (0.0, *idle)]
        busy = sorted(dict([*means, *_rates(had_work, 0.0)]).items())
        last = max((sample for sample in self.samples if sample.left), key=_begin, default=None)
        if last is not None and last.depth > 0:  # Nothing was consumed after the last sample.
            busy.append((last.end, STANDSTILL))
        starts = tuple(at for at, _ in busy)
        rates = tuple(rate / count for _, rate in busy)
        return tuple(Worker("recorded", rates, starts, self.step) for _ in range(count))


def _rates(samples: Sequence[Sample], least_s: float) -> list[tuple[float, float]]:
    """Return rates at which messages left, each averaged over at least `least_s` seconds, and their beginnings.

    A reader that settles in batches takes nothing in most seconds, and is no faster for that.
    """
    found: list[tuple[float, float]] = []
    begin, seconds, left = 0.0, 0.0, 0
    for sample in samples:
        begin = begin if seconds else sample.at
        seconds += sample.seconds
        left += sample.left
        if seconds >= least_s and left:
            found.append((begin, left / seconds))
            seconds, left = 0.0, 0
    if left:
        found.append((begin, left / seconds))
    return found


def _begin(part: Second | Sample) -> float:
    return part.at


def _end(sample: Sample) -> float:
    return sample.end


def _sizes(counts: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Return sizes of bodies in bytes, in the middle of their power of two, with their numbers."""
    for power, count in enumerate(counts):
        if count:
            charge = 0 if power == 0 else 3 * 2 ** (power - 2) if power > 1 else 1
            yield max(0, charge - OVERHEAD), count


def settings_of(
    thresholds: Mapping[str, int], hold_deadline_s: float | None, prefetch: int | None, window: int = 1000
) -> Candidate:
    """Return a candidate with the thresholds of a log's record, which are numbers, as percentages."""
    unit = "bytes" if "capacity_bytes" in thresholds else "messages"
    capacity = thresholds.get(f"capacity_{unit}")
    stop, resume = thresholds.get(f"stop_{unit}"), thresholds.get(f"resume_{unit}")
    return Candidate(
        capacity_bytes=thresholds.get("capacity_bytes"),
        capacity_messages=thresholds.get("capacity_messages"),
        stop_percent=round(100 * stop / capacity, 3) if capacity and stop is not None else None,
        resume_percent=round(100 * resume / capacity, 3) if capacity and resume is not None else None,
        hold_deadline_s=hold_deadline_s,
        window=window,
        prefetch=prefetch,
        max_length=thresholds.get("length_messages"),
        max_length_bytes=thresholds.get("length_bytes"),
    )


def record(
    records: Iterable[Mapping[str, Any]], queue: str, begin: float | None = None, end: float | None = None
) -> Recording:
    """Return the records of a flow log about a queue, between two times (seconds since 1970; None: all).

    Raises `RecordingError` for a log without arrivals, as earlier versions of Penstock wrote.
    """
    taker = _Taker(queue, -inf if begin is None else begin, inf if end is None else end)
    for each in records:
        taker.take(each)
    return taker.finish()


class _Taker:
    """Reader of the records of a log, one run after the other."""

    def __init__(self, queue: str, begin: float, end: float) -> None:
        self._found = Recording(queue)
        self._begin = begin
        self._end = end
        self._runs: list[Run] = []
        self._has_arrivals = False
        self._is_old = False
        self._crossed: dict[int, list[tuple[float, bool]]] = {}
        """Closings (True) and openings of each run."""
        self._blocked: dict[tuple[int, str], list[tuple[float, bool]]] = {}
        """Begins (True) and ends of the blocks of each producer."""
        self._closings: list[tuple[int, float, int, int]] = []
        self._openings: list[tuple[int, float, int]] = []
        self._brief: list[tuple[int, float, str, Mapping[str, Any]]] = []

    def take(self, each: Mapping[str, Any]) -> None:
        """Process a record."""
        event, wall = each.get("event"), float(each.get("wall", 0.0))
        mono = float(each.get("mono", wall))
        if not self._runs or event == "start":
            self._runs.append(Run(mono, mono, wall - mono))
        run = self._runs[-1]
        run.lo, run.hi = min(run.lo, mono), max(run.hi, mono)
        if event == "depth":
            self._has_arrivals |= "in_messages" in each
            self._is_old |= "in_messages" not in each
        of_queue = each.get("queue") == self._found.queue
        if of_queue and each.get("kind") == "queue":
            self._take_gate(event, each, mono)
        begins = mono + run.offset - (float(each.get("seconds") or 1.0) if event == "depth" else 0.0)
        if mono + run.offset < self._begin or begins > self._end:
            return
        if event == "lost":
            self._found.lost += int(each.get("count", 0))
        elif event == "summed":
            self._found.summed += int(each.get("count", 0))
        elif of_queue and event == "depth" and "in_messages" in each:
            self._found.add(sample_of(each, len(self._runs) - 1, mono, run.offset))
        elif of_queue:
            _take(self._found, event, each)

    def _take_gate(self, event: object, each: Mapping[str, Any], mono: float) -> None:
        """Process a change of the gate. A closing or block that began before the requested time may last."""
        run, producer = len(self._runs) - 1, str(each.get("producer", ""))
        if event in ("gate-closed", "gate-opened"):
            self._crossed.setdefault(run, []).append((mono, event == "gate-closed"))
            if event == "gate-closed":
                self._closings.append((run, mono, int(each.get("messages", 0)), int(each.get("bytes", 0))))
            else:
                self._openings.append((run, mono, int(each.get("messages", 0))))
        elif event in ("blocked", "unblocked"):
            self._blocked.setdefault((run, producer), []).append((mono, event == "blocked"))
        elif event in ("brief-closings", "brief-blocks"):
            self._brief.append((run, mono, str(event), each))

    def finish(self) -> Recording:
        """Return the recording. Raises `RecordingError`."""
        found = self._found
        if self._is_old and not self._has_arrivals:
            raise RecordingError("the log has no arrivals: Penstock 0.1.0 and later write them, with the event depth")
        for run in self._runs:
            run.base = found.seconds
            run.lo, run.hi = max(run.lo, self._begin - run.offset), min(run.hi, self._end - run.offset)
            found.seconds += max(0.0, run.hi - run.lo)
        found.runs = [run for run in self._runs if run.hi >= run.lo]
        self._place_samples()
        self._count_crossings()
        self._count_blocks()
        return found

    def _place_samples(self) -> None:
        found = self._found
        found.samples.sort(key=lambda sample: sample.wall)
        for before, after in pairwise(found.samples):
            if after.wall < before.wall + before.seconds * (1 - OVERLAP):
                when = datetime.fromtimestamp(after.wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                raise RecordingError(
                    f"the log has queue '{found.queue}' twice at {when}: give the logs of one broker; if its clock was "
                    "set back, leave that time out with --from and --to"
                )
        for sample in found.samples:
            sample.place(self._runs[sample.run])
        found.samples = [sample for sample in found.samples if sample.seconds > 0]
        if not found.is_too_large:
            found.messages = sum(sample.came for sample in found.samples)

    def _count_crossings(self) -> None:
        found = self._found
        for number, ends in self._crossed.items():
            run = self._runs[number]
            if run.hi >= run.lo:
                seconds, began = flowlog.seconds_between(ends, run.lo, run.hi)
                found.closed_s += seconds
                found.crossings += began
                found.ends_closed = max((each for each in ends if each[0] <= run.hi), default=(0.0, False))[1]
        found.closings = sorted(
            (self._runs[number].at(mono), messages, size)
            for number, mono, messages, size in self._closings
            if self._is_inside(number, mono)
        )
        found.fills = self._fills()
        depths = [(sample.depth, sample.depth_bytes) for sample in found.samples]
        depths += [(messages, size) for _, messages, size in found.closings]
        for number, mono, event, each in self._brief:
            if event == "brief-closings" and self._is_inside(number, mono):
                found.crossings += int(each["count"])
                found.closed_s += float(each["brief_s"])
                depths.append((int(each.get("messages", 0)), int(each.get("bytes", 0))))
        found.highest = max((each[0] for each in depths), default=0), max((each[1] for each in depths), default=0)

    def _fills(self) -> list[Fill]:
        """Return the times for which the gate was open between two closings, while the queue grew.

        A time with closings that have no records of their own is left out.
        """
        found: list[Fill] = []
        brief = sorted((run, mono) for run, mono, event, _ in self._brief if event == "brief-closings")
        closings = sorted((run, mono, messages) for run, mono, messages, _ in self._closings)
        for run, mono, messages in self._openings:
            place = bisect_right(closings, (run, mono, -1))
            if place < len(closings) and closings[place][0] == run and self._is_inside(run, mono):
                grown = closings[place][2] - messages
                is_whole = bisect_right(brief, (run, mono)) == bisect_right(brief, (run, closings[place][1]))
                if grown > 0 and is_whole:
                    found.append(Fill(self._runs[run].at(mono), closings[place][1] - mono, grown))
        return found

    def _count_blocks(self) -> None:
        found = self._found
        spans: list[tuple[float, float]] = []
        for (number, producer), ends in self._blocked.items():
            run = self._runs[number]
            if run.hi >= run.lo:
                found.producers.setdefault(producer, 0)
                found.blocked_s += flowlog.seconds_between(ends, run.lo, run.hi)[0]
                spans += [(run.at(begin), run.at(end)) for begin, end in _spans(ends)]
        for number, mono, event, each in self._brief:
            if event == "brief-blocks" and self._is_inside(number, mono):
                found.blocked_s += float(each["brief_s"])
        for begin, end in sorted(spans):
            if found.blocks and begin <= found.blocks[-1][1]:
                found.blocks[-1] = (found.blocks[-1][0], max(end, found.blocks[-1][1]))
            elif end > begin:
                found.blocks.append((begin, end))

    def _is_inside(self, run: int, mono: float) -> bool:
        return self._runs[run].lo <= mono <= self._runs[run].hi


def _spans(ends: Iterable[tuple[float, bool]]) -> Iterable[tuple[float, float]]:
    """Return begin and end of each span; a span may have begun before the first record, or last at the end."""
    since = -inf
    for mono, begins in sorted(ends):
        if begins:
            since = mono
        else:
            yield since, mono
            since = inf
    if since not in (-inf, inf):
        yield since, inf


def _take(found: Recording, event: object, each: Mapping[str, Any]) -> None:
    if event == "producer" and "producer" in each:
        name = str(each["producer"])
        found.producers[name] = found.producers.get(name, 0) + int(each.get("in_messages", 0))
    elif event == "queue":
        names = [f"{mark}_{unit}" for mark in MARKS for unit in ("messages", "bytes")]
        found.thresholds = {name: int(each[name]) for name in names if name in each}
        found.at_capacity = str(each.get("overflow", ""))
        found.at_length = str(each.get("length_overflow", ""))
        found.hold_deadline_s = float(each["hold_deadline"]) if "hold_deadline" in each else 0.0
    elif event == "consumer" and "prefetch" in each:
        found.prefetch = int(each["prefetch"])
