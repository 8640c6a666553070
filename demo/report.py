"""The end of the demo: every figure that a person wants to know, and the check against the source."""

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from demo.data import Groups, Totals
from demo.watch import user_of


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
            sentences.append(f"{carrier} at {hour:02}:00: the source says {source or 'nothing'}, Spark {ours or 'nothing'}")
    return sentences


def figures(run: Run) -> list[str]:
    """Return the report, line by line."""
    seconds = run.ended - run.begun
    view = run.view
    capacity, highest, gate = view["capacity"]["bytes"], view["highest"], view["gate"]
    lines = [
        f"Flights    {run.sent:,} sent, {run.processed:,} processed, {run.lost:,} lost, {run.doubled:,} doubled",
        f"Queue      highest depth {highest['bytes']:,} of {capacity:,} bytes ({highest['bytes'] / capacity:.1%}; "
        f"{highest['messages']:,} messages); stop {view['stop']['bytes']:,}, resume {view['resume']['bytes']:,}",
        f"Gate       closed {gate['crossings']:,} times, {gate['closed_s']:.1f} s of {seconds:.1f} s",
        f"Spark      {len(run.batches):,} batches, one every {_pace(run):.2f} s (median); "
        f"{run.processed / seconds:,.0f} flights/s from the first publish to the last settlement",
        "",
        *_producers(run, seconds),
    ]
    return lines


def _pace(run: Run) -> float:
    times = sorted(at for at, _ in run.batches.values())
    return median(after - before for before, after in zip(times, times[1:], strict=False)) if len(times) > 1 else 0.0


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
                f"{publisher.confirmed:,}" if publisher.confirmed else "not asked",
                f"{entry['times']:,.0f}",
                f"{entry['total_s']:.1f} s ({entry['total_s'] / seconds:.0%})",
                f"{entry['withheld']:,.0f}",
                f"{entry['held']:,.0f}",
                f"{publisher.cpu_seconds:.1f} s",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    return [
        "  ".join(cell.ljust(width) if not place else cell.rjust(width) for place, (cell, width) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
