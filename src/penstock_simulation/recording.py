"""Recording: the workload of one queue, read from the flow log of a broker.

The log has, for each second in which something happened to a queue, how many messages came and left, and a histogram of
their sizes. Every ten seconds it has the producers' shares. What it cannot have is when producers would have published
if they had not been blocked, and how fast consumers would have been where there was nothing to consume. Messages that
came while producers were blocked count as waiting with them since the block began: they are offered then. For services
the rate is that of the nearest ten seconds in which messages stayed in the queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from penstock.flow.level import OVERHEAD
from penstock_simulation.arrivals import Second
from penstock_simulation.candidate import Candidate
from penstock_simulation.workload import Source, Worker, Workload

MESSAGES_MAX = 2_000_000
"""Most messages of a recording that is simulated: about half a minute of one core for each candidate."""
SAMPLES_MAX = 500_000
"""Most samples of a recording that is simulated: some six days with traffic."""
OVERLAP = 0.5
"""Part by which two samples may overlap, as clocks are corrected."""
SMOOTHED_S = 10.0
"""Least seconds, with messages in the queue, of which a rate of services is the mean."""
PRODUCERS_MAX = 100
"""Most producers of a simulation; further ones count with the last."""


class RecordingError(ValueError):
    """A log that a simulation cannot be made from, in one sentence."""


@dataclass(slots=True)
class _Sample:
    at: float
    seconds: float
    came: int
    left: int
    depth: int
    depth_bytes: int
    refused: int
    consumers: int
    is_blocked: bool
    """True if producers were blocked at its end."""
    sizes: tuple[int, ...] = ()


@dataclass
class Recording:
    """Samples and settings of one queue in a flow log."""

    queue: str
    messages: int = 0
    """Number of messages that came."""
    samples: list[_Sample] = field(default_factory=list)
    producers: dict[str, int] = field(default_factory=dict)
    """Messages of each producer."""
    thresholds: dict[str, int] = field(default_factory=dict)
    """Thresholds that were in force last, by the names of the log's fields."""
    hold_deadline_s: float | None = None
    prefetch: int | None = None
    runs: int = 0
    """Starts of the broker in the middle of the recording."""
    lost: int = 0
    """Records that the log has lost."""
    is_too_large: bool = False
    closings: list[tuple[float, int, int]] = field(default_factory=list)
    """Closings of the gate: time, and depth in messages and bytes."""
    openings: list[float] = field(default_factory=list)
    brief_closings: int = 0
    """Closings that the log has as sums."""
    brief_s: float = 0.0
    """Their time together, in seconds."""
    brief_depth: tuple[int, int] = (0, 0)
    """Highest depth at them, in messages and bytes."""

    def add(self, sample: _Sample) -> None:
        """Add a sample; those of a recording that is too large are only counted."""
        self.messages += sample.came
        if self.messages <= MESSAGES_MAX and len(self.samples) < SAMPLES_MAX:
            self.samples.append(sample)
        else:
            self.samples.clear()
            self.is_too_large = True

    def measures(self) -> dict[str, float]:
        """Return the measures of an outcome that the log has; depths are those of its samples and of closings."""
        begin, end = self.samples[0].at, max(sample.at + sample.seconds for sample in self.samples)
        borders = sorted([(at, 1) for at, _, _ in self.closings] + [(at, 0) for at in self.openings])
        closed_s, since = 0.0, None if not borders or borders[0][1] else begin
        for at, closes in borders:
            if closes:
                since = at if since is None else since
            elif since is not None:
                closed_s += at - since
                since = None
        closed_s += self.brief_s + (0.0 if since is None else end - since)
        depths = [(sample.depth, sample.depth_bytes) for sample in self.samples]
        depths += [(count, size) for _, count, size in self.closings] + [self.brief_depth]
        return {
            "depth": max(size for _, size in depths),
            "depth_messages": max(count for count, _ in depths),
            "closed": min(1.0, closed_s / (end - begin)),
            "crossings": len(self.closings) + self.brief_closings,
            "refused": sum(sample.refused for sample in self.samples),
        }

    def candidate(self) -> Candidate:
        """Return the settings that were in force, as far as the log has them."""
        return settings_of(self.thresholds, self.hold_deadline_s, self.prefetch)

    def workload(self, seed: int = 1, round_trip_s: float = 0.001) -> Workload:
        """Return the workload. Raises `RecordingError` for one without messages, or of too many."""
        if not self.messages:
            raise RecordingError(f"the log has no arrival at queue '{self.queue}' in this time")
        if self.is_too_large:
            raise RecordingError(
                f"the log has {self.messages:,} arrivals at queue '{self.queue}' in this time; the most is "
                f"{MESSAGES_MAX:,} in {SAMPLES_MAX:,} seconds: choose a part of it with --from and --to"
            )
        start = self.samples[0].at
        end = max(sample.at + sample.seconds for sample in self.samples)
        return Workload(self._sources(start), self._workers(start), end - start, round_trip_s, seed, self.queue)

    def _sources(self, start: float) -> tuple[Source, ...]:
        names = sorted(self.producers, key=lambda name: -self.producers[name])[:PRODUCERS_MAX]
        weights = [self.producers[name] for name in names] or [1]
        total = sum(weights)
        messages: list[Counter[float]] = [Counter() for _ in weights]
        sizes: dict[float, Counter[int]] = {}
        carried = [0.0] * len(weights)
        for sample, offered in zip(self.samples, self._offered(), strict=True):
            sizes.setdefault(offered, Counter()).update(dict(_sizes(sample.sizes)))
            for index, weight in enumerate(weights):
                carried[index] += sample.came * weight / total
                messages[index][offered] += int(carried[index] + 1e-9)
                carried[index] %= 1
        return tuple(
            Source(
                "recorded",
                seconds=tuple(
                    Second(at - start, count, tuple(sizes[at].items())) for at, count in sorted(found.items()) if count
                ),
            )
            for found in messages
        )

    def _offered(self) -> list[float]:
        """Return for each sample when its messages were offered: at its start, or when a block before it began."""
        found = []
        since, was_blocked = 0.0, False
        for sample in self.samples:
            since = since if was_blocked else sample.at
            was_blocked = sample.is_blocked
            found.append(since)
        return found

    def _workers(self, start: float) -> tuple[Worker, ...]:
        count = max([sample.consumers for sample in self.samples] or [1]) or 1
        busy = self._busy(start)
        if not busy:  # Messages never stayed in the queue: consumers are at least as fast as in the fastest second.
            fastest = max((sample.left / sample.seconds for sample in self.samples), default=0.0)
            if fastest <= 0:
                raise RecordingError(f"nothing was consumed from queue '{self.queue}' in this time")
            busy = [(0.0, fastest)]
        starts = tuple(at for at, _ in busy)
        rates = tuple(rate / count for _, rate in busy)
        return tuple(Worker("recorded", rates, starts) for _ in range(count))

    def _busy(self, start: float) -> list[tuple[float, float]]:
        """Return rates at which messages left while some stayed, each the mean of `SMOOTHED_S`, and their beginnings.

        A reader that settles in batches takes nothing in most seconds, and is no faster for that.
        """
        found: list[tuple[float, float]] = []
        begin, seconds, left = 0.0, 0.0, 0
        for sample in self.samples:
            if sample.depth > 0:
                begin = begin if seconds else sample.at - start
                seconds += sample.seconds
                left += sample.left
                if seconds >= SMOOTHED_S and left:
                    found.append((begin, left / seconds))
                    seconds, left = 0.0, 0
        if left:
            found.append((begin, left / seconds))
        return found


def _sizes(counts: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Return sizes of bodies in octets, in the middle of their power of two, with their numbers."""
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
    )


def record(
    records: Iterable[Mapping[str, Any]], queue: str, begin: float | None = None, end: float | None = None
) -> Recording:
    """Return what records of a flow log say about a queue, between two times (seconds since 1970; None: all).

    Raises `RecordingError` for a log without arrivals: an earlier Penstock wrote it.
    """
    found = Recording(queue)
    has_arrivals, is_old = False, False
    for each in records:
        wall = float(each.get("wall", 0.0))
        event = each.get("event")
        if event == "depth":
            has_arrivals, is_old = has_arrivals or "in_messages" in each, is_old or "in_messages" not in each
        if (begin is not None and wall < begin) or (end is not None and wall > end):
            continue
        if event == "start":
            found.runs += found.messages > 0
        elif event == "lost":
            found.lost += int(each.get("count", 0))
        elif each.get("queue") == queue:
            _take(found, event, each, wall)
    if is_old and not has_arrivals:
        raise RecordingError("the log has no arrivals: Penstock 0.1.0 and later write them, with the event depth")
    found.samples.sort(key=lambda sample: sample.at)
    for before, after in pairwise(found.samples):
        if after.at < before.at + before.seconds * (1 - OVERLAP):
            when = datetime.fromtimestamp(after.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            raise RecordingError(
                f"the log has queue '{queue}' twice at {when}: give the logs of one broker; if its clock was set back, "
                "leave that time out with --from and --to"
            )
    return found


def _take(found: Recording, event: object, each: Mapping[str, Any], wall: float) -> None:
    if event == "depth" and "in_messages" in each:
        seconds = float(each.get("seconds") or 1.0)
        found.add(
            _Sample(
                at=wall - seconds,
                seconds=seconds,
                came=int(each["in_messages"]),
                left=int(each.get("settled_messages", 0)),
                depth=int(each.get("messages", 0)),
                depth_bytes=int(each.get("bytes", 0)),
                refused=int(each.get("refused_messages", 0)),
                consumers=int(each.get("consumers", 0)),
                is_blocked=int(each.get("blocked", 0)) > 0,
                sizes=tuple(each.get("sizes") or ()),
            )
        )
    elif event == "producer" and "producer" in each:
        name = str(each["producer"])
        found.producers[name] = found.producers.get(name, 0) + int(each.get("in_messages", 0))
    elif event == "queue":
        names = [name for name in each if name.partition("_")[0] in ("capacity", "stop", "resume")]
        found.thresholds = {name: int(each[name]) for name in names}
        found.hold_deadline_s = float(each["hold_deadline"]) if "hold_deadline" in each else 0.0
    elif event == "gate-closed" and each.get("kind") == "queue":
        found.closings.append((wall, int(each.get("messages", 0)), int(each.get("bytes", 0))))
    elif event == "gate-opened" and each.get("kind") == "queue":
        found.openings.append(wall)
    elif event == "brief-closings" and each.get("kind") == "queue":
        found.brief_closings += int(each.get("count", 0))
        found.brief_s += float(each.get("brief_s", 0.0))
        count, size = found.brief_depth
        found.brief_depth = (max(count, int(each.get("messages", 0))), max(size, int(each.get("bytes", 0))))
    elif event == "consumer" and "prefetch" in each:
        found.prefetch = int(each["prefetch"])
