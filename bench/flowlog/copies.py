"""A recorded flow log, repeated until it has the size that is asked for, with other times, queues and clients.

One period of the log is a text with two holes for each record, its times. So a process writes some hundreds of
thousands of records a second. What the analysis has to find is counted in the recording, and multiplied.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.logs import flowlog
from pyspark_penstock.analysis.measures import OTHERS

FILE_BYTES = 16 * 1024 * 1024
PLAIN_FILES = 8
"""Files that a broker has by default; older ones are archived, compressed."""
LEVEL = 1
RUN_PERIODS = 500
"""Periods between two starts of a broker, where every client has a new connection."""
CLIENTS_EACH = 1_000
"""Numbers of connections that a copy of the recording takes."""
EXPECTED = "expected.json"
TIMES = re.compile(rb'"wall":[0-9.]+,"mono":[0-9.]+')
QUEUES = re.compile(rb'"(gate|queue|source)":"([^"]+)"')
CLIENTS = re.compile(rb'"con:(\d+)\(')
HOLES = b'"wall":%.6f,"mono":%.6f'


class RecordingError(Exception):
    """A recording that cannot be repeated; one sentence."""


@dataclass
class Period:
    """What is repeated: the lines between the start and the stop of a broker."""

    lines: list[bytes]
    """Lines with holes for their times."""
    walls: list[float]
    monos: list[float]
    seconds: float
    """Time from the first to the last record."""
    counts: dict[str, Any] = field(default_factory=dict)


def period_of(folder: Path) -> Period:
    """Read a recording. Raises RecordingError for one that begins or ends with a closed gate or a blocked producer."""
    found = Period([], [], [], 0.0)
    events: Counter[str] = Counter()
    flows: dict[str, Counter[str]] = defaultdict(Counter)
    spans: dict[str, dict[str, list[Any]]] = {"closed": {}, "blocked": {}}
    for record in flowlog.read(folder):
        if record["event"] in ("start", "stop"):
            continue
        line = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode().replace(b"%", b"%%")
        found.lines.append(TIMES.sub(HOLES, line) + b"\n")
        found.walls.append(record["wall"])
        found.monos.append(record["mono"])
        events[record["event"]] += 1
        if record["event"] == "depth":
            for name in ("in", "out", "settled", "refused"):
                flows[record["queue"]][f"{name}_messages"] += record.get(f"{name}_messages", 0)
        elif record["event"] in ("gate-closed", "gate-opened", "brief-closings"):
            _span(spans["closed"], f"{record['kind']} {record['gate']}", record, "gate-closed")
        elif record["event"] in ("blocked", "unblocked", "brief-blocks"):
            _span(spans["blocked"], f"{record['gate']} {record.get('producer', OTHERS)}", record, "blocked")
    for what, these in spans.items():
        for name, (_, _, since) in these.items():
            if since is not None:
                raise RecordingError(f"the recording ends while {name} is {what}: give it more time")
    if not found.lines:
        raise RecordingError(f"{folder} has no records")
    found.seconds = max(found.monos) - min(found.monos)
    found.counts = {"events": events, "queues": flows}
    found.counts |= {what: {name: each[:2] for name, each in these.items()} for what, these in spans.items()}
    return found


def _span(spans: dict[str, list[Any]], name: str, record: dict[str, Any], begin: str) -> None:
    """Add an event, or a sum of brief ones, to seconds, number and beginning."""
    each = spans.setdefault(name, [0.0, 0, None])
    if "brief_s" in record:
        each[:2] = each[0] + record["brief_s"], each[1] + record["count"]
    elif record["event"] == begin:
        each[1:] = each[1] + 1, record["mono"]
    elif each[2] is None:
        raise RecordingError(f"the recording begins in the middle: {name}")
    else:
        each[0], each[2] = each[0] + record["mono"] - each[2], None


def _copied(line: bytes, copy: int, run: int) -> bytes:
    """Return a line of another copy of the queues, and of clients that connected in this run."""
    if copy:
        line = QUEUES.sub(rb'"\1":"\2-%d"' % copy, line)
    offset = (copy + 100 * run) * CLIENTS_EACH
    return CLIENTS.sub(lambda found: b'"con:%d(' % (int(found[1]) + offset), line)


def _text(period: Period, copies: int, run: int) -> bytes:
    return b"".join(_copied(line, copy, run) for line in period.lines for copy in range(copies))


def blocks(period: Period, copies: int, periods: int) -> Iterator[bytes]:
    """Yield the log of one broker, a block for each period and one for each start and stop."""
    gap = period.seconds + 1.0
    wall, mono = min(period.walls), min(period.monos)
    walls = [each + copy / 1e6 for each in period.walls for copy in range(copies)]
    monos = [each + copy / 1e6 for each in period.monos for copy in range(copies)]
    times = [0.0] * (2 * len(walls))
    text = b""
    for number in range(periods):
        run, shift = number // RUN_PERIODS, number * gap
        if number % RUN_PERIODS == 0:
            if number:
                yield _line("stop", wall + shift - 0.6, mono + shift - 0.6)
            yield _line("start", wall + shift - 0.3, mono + shift - 0.3, version="0.1.0")
            text = _text(period, copies, run)
        times[0::2] = [each + shift for each in walls]
        times[1::2] = [each + shift for each in monos]
        yield text % tuple(times)
    yield _line("stop", wall + periods * gap - 0.6, mono + periods * gap - 0.6)


def _line(event: str, wall: float, mono: float, **fields: str) -> bytes:
    record = {"v": 1, "event": event, "wall": round(wall, 6), "mono": round(mono, 6), **fields}
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True)
class _Job:
    """The log of one broker that is to be written."""

    folder: Path
    period: Period
    copies: int
    periods: int
    is_compressed: bool
    """Whether files that the broker would delete are compressed."""


def _write(job: _Job) -> int:
    """Write one broker's log in files; return the octets of its lines."""
    folder = job.folder
    folder.mkdir(parents=True)
    rest, total, number = b"", 0, 1
    for block in blocks(job.period, job.copies, job.periods):
        total += len(block)
        rest += block
        while len(rest) > FILE_BYTES:
            cut = rest.rindex(b"\n", 0, FILE_BYTES) + 1
            _write_file(folder, number, rest[:cut], job.is_compressed)
            rest, number = rest[cut:], number + 1
    _write_file(folder, number, rest, job.is_compressed)
    return total


def _write_file(folder: Path, number: int, data: bytes, is_compressed: bool) -> None:
    """Write a file, and compress the one that the broker would delete."""
    flowlog.FILES.path(folder, number).write_bytes(data)
    old = flowlog.FILES.path(folder, number - PLAIN_FILES)
    if is_compressed and old.exists():
        old.with_name(f"{old.name}.gz").write_bytes(gzip.compress(old.read_bytes(), LEVEL))
        old.unlink()


def write(folder: Path, period: Period, records: int, brokers: int, copies: int) -> dict[str, Any]:
    """Write at least so many records as the logs of several brokers; return what an analysis has to find.

    Files that a broker would have deleted are there too: compressed in every other log, and as they were.
    """
    periods = -(-records // (len(period.lines) * copies * brokers))
    folders = [folder / f"broker-{number}" for number in range(1, brokers + 1)]
    with ProcessPoolExecutor() as pool:
        jobs = [_Job(each, period, copies, periods, index % 2 == 0) for index, each in enumerate(folders)]
        sizes = list(pool.map(_write, jobs))
    found = expected(period, copies, periods, brokers) | {"octets": sum(sizes), "logs": [str(each) for each in folders]}
    (folder / EXPECTED).write_text(json.dumps(found, indent=1))
    return found


def expected(period: Period, copies: int, periods: int, brokers: int) -> dict[str, Any]:
    """Return what an analysis has to find."""
    runs = -(-periods // RUN_PERIODS)
    each = copies * periods

    def named(name: str, copy: int) -> str:
        return f"{name}-{copy}" if copy else name

    return {
        "records": (len(period.lines) * each + 2 * runs) * brokers,
        "runs": runs * brokers,
        "events": {name: count * each * brokers for name, count in period.counts["events"].items()},
        "queues": {
            named(queue, copy): {name: count * periods for name, count in flows.items()}
            for queue, flows in period.counts["queues"].items()
            for copy in range(copies)
        },
        "gates": {
            named(gate, copy): [seconds * periods, crossings * periods]
            for gate, (seconds, crossings) in period.counts["closed"].items()
            for copy in range(copies)
        },
        "blocked_seconds": sum(seconds for seconds, _ in period.counts["blocked"].values()) * each * brokers,
        "blocks": sum(count for _, count in period.counts["blocked"].values()) * each * brokers,
        "producers": len({name.partition(" con:")[2] for name in period.counts["blocked"]}) * copies * runs * brokers,
    }


def differences(wanted: dict[str, Any], tables: Path, records: int) -> list[str]:
    """Return in sentences what the tables of an analysis have otherwise than they should."""
    import pyarrow.parquet as pq

    found = []

    def compare(what: str, got: float, want: float) -> None:
        if abs(got - want) > max(1e-6 * abs(want), 1e-3):
            found.append(f"{what}: {got:,.3f}, and it should be {want:,.3f}")

    def rows(name: str) -> Sequence[dict[str, Any]]:
        return [
            row for row in pq.read_table(tables / name).to_pylist() if row["log"].rpartition("/")[2][:7] == "broker-"
        ]

    compare("records", records, wanted["records"])
    logs = len(wanted["logs"])
    queues = [row for row in rows("queues") if row["queue"] in wanted["queues"]]
    compare("queues", len(queues), len(wanted["queues"]) * logs)
    for row in queues:
        for name, count in wanted["queues"][row["queue"]].items():
            compare(f"{name} of {row['queue']}", row[name] or 0, count)
    gates = rows("gates")
    compare("gates", len(gates), len(wanted["gates"]) * logs)
    for row in gates:
        seconds, crossings = wanted["gates"].get(f"{row['kind']} {row['gate']}", (0.0, 0))
        compare(f"closed seconds of {row['gate']}", row["seconds"], seconds)
        compare(f"crossings of {row['gate']}", row["crossings"], crossings)
    blocks = rows("blocks")
    compare("blocked seconds", sum(row["seconds"] for row in blocks), wanted["blocked_seconds"])
    compare("blocks", sum(row["blocks"] for row in blocks), wanted["blocks"])
    compare("blocked producers", len(rows("producers")), wanted["producers"])
    return found
