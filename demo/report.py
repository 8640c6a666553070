"""The end of the demo: every figure that a person wants to know, and the check against the source."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import penstock
from demo.data import Groups, Totals
from demo.watch import Story, user_of


@dataclass(frozen=True)
class Publisher:
    """What a publisher has said of itself at its end."""

    name: str
    sent: int
    confirmed: int
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Run:
    """What was measured in one run."""

    publishers: list[Publisher]
    batches: dict[int, tuple[float, int]]
    """When each batch was done, in seconds since the epoch, and its flights."""
    begun: float
    ended: float
    """From the first publisher's start to the queue being empty and settled; seconds since the epoch."""
    view: dict[str, Any]
    """The broker's last word about the queue: its answer to `why`."""
    summaries: int
    """How many summaries the consumer has printed."""
    expected: Groups
    found: Groups

    @property
    def sent(self) -> int:
        return sum(publisher.sent for publisher in self.publishers)

    @property
    def processed(self) -> int:
        return sum(group.flights for group in self.found.values())

    @property
    def lost(self) -> int:
        return max(0, self.sent - self.processed)

    @property
    def doubled(self) -> int:
        return max(0, self.processed - self.sent)


def totals_of(folder: Path) -> Groups:
    """Return the totals that the pipeline has written as Parquet, read without Spark."""
    import pyarrow.parquet as pq

    groups: Groups = {}
    for row in pq.read_table(folder).to_pylist():
        key = (row.pop("carrier"), row.pop("hour"))
        groups.setdefault(key, Totals()).add(Totals(**row))
    return groups


def differences(expected: Groups, found: Groups) -> list[str]:
    """Return one sentence for every carrier and hour whose totals are not those of the source; none if all agree."""
    sentences = []
    for carrier, hour in sorted(expected.keys() | found.keys()):
        source, ours = expected.get((carrier, hour)), found.get((carrier, hour))
        if source != ours:
            sentences.append(
                f"{carrier} at {hour:02}:00: the source has {source or 'nothing'}, Spark {ours or 'nothing'}"
            )
    return sentences


def complaints(run: Run, told: Story, flights: int) -> list[str]:
    """Return one sentence for everything that is not as it must be when `flights` were to be sent; else none."""
    sentences = []
    if run.sent != flights:
        sentences.append(f"{run.sent:,} flights were sent where {flights:,} were due")
    if run.processed != run.sent:
        sentences.append(f"{run.sent:,} flights were sent and {run.processed:,} processed")
    closings = run.view["gate"]["crossings"]
    if told.closings != closings:
        sentences.append(
            f"the flow log has {told.closings:,} closings of the gate where the broker counted {closings:,}"
        )
    elif not closings:
        sentences.append("the gate has never closed, so the picture shows no flow control: choose a smaller --capacity")
    return sentences + differences(run.expected, run.found)


def verdict(run: Run, wrong: list[str]) -> list[str]:
    """Return what the check has found, line by line."""
    if wrong:
        return ["CHECK FAILED", *(f"  {sentence}" for sentence in wrong)]
    return [
        f"Check      the totals of all {len(run.expected):,} groups by carrier and hour agree with the source: "
        "flights, cancellations, delays and checksums"
    ]


def figures(run: Run) -> list[str]:
    """Return the report, line by line."""
    seconds = run.ended - run.begun
    view = run.view
    capacity, highest, gate = view["capacity"]["bytes"], view["highest"], view["gate"]
    form = "compiled" if penstock.compiled() else "interpreted"
    return [
        f"Broker     penstock {penstock.__version__} ({form})",
        f"Flights    {run.sent:,} sent, {run.processed:,} processed, {run.lost:,} lost, {run.doubled:,} doubled",
        f"Queue      highest depth {highest['bytes']:,} of {capacity:,} bytes ({highest['bytes'] / capacity:.1%}; "
        f"{highest['messages']:,} messages); stop {view['stop']['bytes']:,}, resume {view['resume']['bytes']:,}",
        f"Gate       closed {gate['crossings']:,} times, {gate['closed_s']:.1f} s of {seconds:.1f} s",
        f"Spark      {run.processed / seconds:,.0f} flights/s from the first publish to the last settlement, "
        f"{_steady_rate(run):,.0f}/s once it is warm",
        f"Batches    {len(run.batches):,}, one every {_pace(run):.2f} s (median); "
        f"{run.summaries:,} summaries came out of the second queue",
        "",
        *_producers(run, seconds),
    ]


def _pace(run: Run) -> float:
    """Return the median time between the ends of two batches, in seconds; 0 if there were not two."""
    times = sorted(at for at, _ in run.batches.values())
    return median(after - before for before, after in pairwise(times)) if len(times) > 1 else 0.0


def _steady_rate(run: Run) -> float:
    """Return the flights a second after the first batch, which pays for the start; 0 if there was no other."""
    (first, _), *others = sorted(run.batches.values())
    return sum(rows for _, rows in others) / (others[-1][0] - first) if others else 0.0


def ledger(view: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return what the broker's ledger tells of each producer at the queue's gate, by user."""
    told: dict[str, dict[str, float]] = {}
    for entry in (*view["gate"]["departed"], *view["gate"]["producers"]):
        story = told.setdefault(user_of(entry["producer"]), {"times": 0, "total_s": 0.0, "withheld": 0, "held": 0})
        for name in story:
            story[name] += entry[name]
    return told


def _producers(run: Run, seconds: float) -> list[str]:
    told = ledger(run.view)
    heads = ("Producer", "sent", "confirmed", "times blocked", "blocked in total", "withheld", "held", "CPU")
    rows = [heads]
    for publisher in run.publishers:
        entry = told.get(publisher.name, {"times": 0, "total_s": 0.0, "withheld": 0, "held": 0})
        rows.append(
            (
                publisher.name,
                f"{publisher.sent:,}",
                f"{publisher.confirmed:,}",
                f"{entry['times']:,.0f}",
                f"{entry['total_s']:.1f} s ({entry['total_s'] / seconds:.0%})",
                f"{entry['withheld']:,.0f}",
                f"{entry['held']:,.0f}",
                f"{publisher.cpu_seconds:.1f} s",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    return [_aligned(row, widths) for row in rows]


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    """Return a row of the table: names to the left, numbers to the right."""
    name, *numbers = (f"{cell:{'>' if place else '<'}{widths[place]}}" for place, cell in enumerate(row))
    return "  ".join((name, *numbers))
