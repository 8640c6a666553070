"""Loads: throughput, latency at a rate, and long runs of either; each run is one row of a result, with its curve."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import Any, Final, NamedTuple

from penstock.client.bench.parties import GRACE_S, Histogram, Load, Plan, merged, run_party
from penstock.client.bench.target import BenchError, Target
from penstock.interrupts import interrupts_blocked

START_S: Final = 30.0
"""Seconds in which all processes must have connected."""
BEGIN_S: Final = 0.2
"""Seconds between the start command and the start."""
PROGRESS_S: Final = 1.0
"""Least seconds between two lines of progress."""
Say = Callable[[str], None]
Points = list[tuple[float, float | None]]


class Run(NamedTuple):
    """Load that was run: the reports of its parties, and the number of warm-up intervals."""

    load: Load
    skipped: int
    senders: list[dict[str, Any]]
    receivers: list[dict[str, Any]]
    resident: list[tuple[float, float]]
    """Resident memory of the broker in MiB, by seconds since the start; empty if unknown."""

    def course(self, parties: list[dict[str, Any]]) -> list[Histogram]:
        """Return the times measured by parties, by interval, without the warm-up and times after the end."""
        tracks = [party["track"] for party in parties]
        return [merged(map(Histogram, each)) for each in zip(*tracks, strict=True)][self.skipped : -1]

    def total(self, parties: list[dict[str, Any]], name: str) -> Any:
        """Return the sum of the parties' counts."""
        return sum(party.get(name, 0) for party in parties)


def play(target: Target, queue: str, load: Load, say: Say, resident: Callable[[], float | None]) -> Run:
    """Run a load on a queue; `say` gets its progress, and `resident` is called once an interval.

    Raises `BenchError`.
    """
    skipped = round(load.warm_up / load.interval)
    intervals = skipped + max(1, round(load.seconds / load.interval))
    share = load._replace(rate=load.rate / load.senders, most=-(-load.most // load.senders))
    plan = Plan(target.url, queue, 0, intervals, share)
    with ExitStack() as stack:
        receivers = [stack.enter_context(_process("receiver", plan)) for _ in range(load.receivers)]
        senders = [stack.enter_context(_process("sender", plan)) for _ in range(load.senders)]
        for pipe in (*receivers, *senders):
            if not pipe.poll(START_S):
                raise BenchError(f"a process of the bench is not ready after {START_S:g} s")
            _heard(pipe)
        plan = plan._replace(start=time.monotonic_ns() + round(BEGIN_S * 1e9))
        for pipe in (*receivers, *senders):
            pipe.send(plan.start)
        watch = _Watch(plan, say, resident)
        sent = watch.until_done(senders, receivers)
        for pipe in receivers:
            pipe.send("end")
        return Run(load, skipped, sent, watch.until_done(receivers, []), watch.resident)


@contextmanager
def _process(role: str, plan: Plan) -> Iterator[Pipe]:
    context = multiprocessing.get_context("spawn")  # A fork would copy the state of this process.
    ours, theirs = context.Pipe()
    process = context.Process(target=run_party, args=(role, plan, theirs), daemon=True)
    with interrupts_blocked():
        process.start()
    theirs.close()
    try:
        yield ours
    finally:
        process.join(0.5)
        process.kill()
        process.join()
        ours.close()


def _heard(pipe: Pipe) -> dict[str, Any]:
    try:
        found: dict[str, Any] = pipe.recv()
    except EOFError:
        raise BenchError("a process of the bench has died") from None
    if "error" in found:
        raise BenchError(found["error"])
    return found


class _Watch:
    """Progress of a run."""

    def __init__(self, plan: Plan, say: Say, resident: Callable[[], float | None]) -> None:
        self._plan = plan
        self._say = say
        self._ask = resident
        self._counts: dict[Pipe, int] = {}
        self._last_line: tuple[float, int, int] = (0.0, 0, 0)
        self.resident: list[tuple[float, float]] = []

    def until_done(self, pipes: list[Pipe], others: list[Pipe]) -> list[dict[str, Any]]:
        """Wait until these parties have ended; reports of `others` are read meanwhile."""
        ends: dict[Pipe, dict[str, Any]] = {}
        deadline = self._plan.end / 1e9 + 4 * GRACE_S + START_S
        while len(ends) < len(pipes):
            open_pipes = [pipe for pipe in (*pipes, *others) if pipe not in ends]
            found = wait(open_pipes, self._plan.load.interval)
            if time.monotonic() > deadline:
                raise BenchError("the run has not ended in time: the broker holds its messages")
            for pipe in found:
                assert isinstance(pipe, Pipe)
                heard = _heard(pipe)
                self._counts[pipe] = heard["messages"]
                if "done" in heard:
                    ends[pipe] = heard
            if others:
                self._tell(pipes, others)
        return [ends[pipe] for pipe in pipes]

    def _tell(self, senders: list[Pipe], receivers: list[Pipe]) -> None:
        at = (time.monotonic_ns() - self._plan.start) / 1e9
        before, sent_before, received_before = self._last_line
        if at - before < max(self._plan.load.interval, PROGRESS_S):
            return
        sent, received = (sum(self._counts.get(pipe, 0) for pipe in pipes) for pipes in (senders, receivers))
        span = at - before
        self._last_line = (at, sent, received)
        memory = self._ask()
        if memory is not None:
            self.resident.append((at, memory))
        end = self._plan.load.interval * self._plan.intervals
        rates = f"{(sent - sent_before) / span:,.0f}/s confirmed, {(received - received_before) / span:,.0f}/s received"
        self._say(f"{at:.0f} of {end:.0f} s: {rates}")


# Rows of results


def throughput(run: Run) -> dict[str, object]:
    """Return the row of a load at full speed."""
    load, course = run.load, run.course(run.senders)
    while len(course) > 1 and not course[-1].total:
        course.pop()  # The count was reached earlier.
    seconds = len(course) * load.interval
    confirmed, taken = merged(course), merged(run.course(run.receivers))
    sent, received = run.total(run.senders, "messages"), run.total(run.receivers, "messages")
    return {
        "case": load.words(),
        "confirmed/s": round(confirmed.total / seconds),
        "received/s": round(taken.total / seconds),
        "MB/s": round(taken.total / seconds * load.size / 1e6, 1),
        "transit p50 ms": taken.milliseconds(0.5),
        "transit p99 ms": taken.milliseconds(0.99),
        "sender us": round(run.total(run.senders, "cpu_s") * 1e6 / max(1, sent), 2),
        "receiver us": round(run.total(run.receivers, "cpu_s") * 1e6 / max(1, received), 2),
        "refused": run.total(run.senders, "refused") + run.total(run.senders, "unknown"),
        "missing": max(0, sent - received) if load.receivers else None,
    }


PERCENTILES: Final = {"p50 ms": 0.5, "p90 ms": 0.9, "p99 ms": 0.99, "p99.9 ms": 0.999, "max ms": 1.0}


def latency(run: Run) -> list[dict[str, object]]:
    """Return the rows of a load at a rate: to the confirm, to the receiver, and the delay of the bench itself."""
    late = merged(Histogram(party["late"]) for party in run.senders)
    unsent = run.total(run.senders, "unsent")
    failed = run.total(run.senders, "refused") + run.total(run.senders, "unknown")
    found: list[dict[str, object]] = []
    for what, times in (
        ("to the confirm", merged(run.course(run.senders))),
        ("to the receiver", merged(run.course(run.receivers))),
        ("of the bench", late),
    ):
        row: dict[str, object] = {"case": f"{run.load.words()}: {what}", "messages": times.total}
        row |= {name: times.milliseconds(share) for name, share in PERCENTILES.items()}
        ours = what == "of the bench"
        found.append(row | {"refused": None if ours else failed, "not sent": None if ours else unsent})
    return found


def soak(run: Run) -> list[dict[str, object]]:
    """Return the rows of a long load at a rate: its first and last tenth, and the drift between them."""
    confirms, receipts = run.course(run.senders), run.course(run.receivers)
    size = max(1, len(confirms) // 10)
    rows: list[dict[str, object]] = []
    for name, part in (("first tenth", slice(0, size)), ("last tenth", slice(-size, None))):
        row: dict[str, object] = {"case": name}
        for label, times in (("confirm", merged(confirms[part])), ("receiver", merged(receipts[part]))):
            row[f"{label} p50 ms"], row[f"{label} p99 ms"] = times.milliseconds(0.5), times.milliseconds(0.99)
        memory = [mib for _, mib in run.resident]
        tenth = memory[part] if len(memory) >= len(confirms) else memory[:1] if part.start == 0 else memory[-1:]
        row["broker MiB"] = round(sum(tenth) / len(tenth), 1) if tenth else None
        rows.append(row)
    first, last = rows
    drift: dict[str, object] = {"case": "drift"}
    for name, value in first.items():
        if isinstance(value, float) and isinstance(last[name], float):
            drift[name] = round(float(str(last[name])) - value, 3)
    failed = run.total(run.senders, "refused") + run.total(run.senders, "unknown") + run.total(run.senders, "unsent")
    sent, received = run.total(run.senders, "messages"), run.total(run.receivers, "messages")
    return [*rows, drift | {"messages": sent, "failed": failed, "missing": max(0, sent - received)}]


def courses(run: Run) -> dict[str, Points]:
    """Return the lines of a plot: by the seconds since the warm-up."""
    found: dict[str, Points] = {}
    width = run.load.interval
    if run.load.rate:
        for name, parties in (("confirm", run.senders), ("receiver", run.receivers)):
            for label, share in (("p50", 0.5), ("p99", 0.99)):
                times = enumerate(run.course(parties))
                found[f"{name} {label} ms"] = [((at + 1) * width, each.milliseconds(share)) for at, each in times]
    else:
        for name, parties in (("confirmed/s", run.senders), ("received/s", run.receivers)):
            found[name] = [((at + 1) * width, each.total / width) for at, each in enumerate(run.course(parties))]
    return found
