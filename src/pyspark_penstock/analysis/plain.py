"""The tables of an analysis without Spark, for logs that fit into memory: the same rows, from plain records.

Theory of operation. The measures are those of `measures`, with the same order of each calculation. In both, times are
summed as whole microseconds, and percentiles of so few latencies are exact. So both results are equal to the last
digit, and a test compares them.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.logs import flowlog
from penstock.logs.record_files import COMPRESSED
from pyspark_penstock.analysis.logs import Found, Log, Run, Window, check_version, cut, notices_of, runs_of
from pyspark_penstock.analysis.measures import (
    DEPTH,
    FLOWS,
    GATE,
    LATENCY_SLICE_S,
    OTHERS,
    PERCENTILES,
    QUEUE,
    SIZES,
    THRESHOLDS,
)
from pyspark_penstock.analysis.tables import TOP

if TYPE_CHECKING:
    import pyarrow as pa

SMALL_BYTES = 4 * 1024 * 1024
"""Most bytes of lines that are analyzed without Spark: about 20,000 records."""
COMPRESSION = 16
"""Most bytes of lines per byte of a compressed file, in the usual case."""
PRODUCER = re.compile(r"^con:\d+\((.*)@[^@]*\)")
CONNECTION = re.compile(r"^(con:\d+)\(")
BLOCKED = ("seconds", "blocks")
TARGET = ("to_log", "to_vhost", "to_queue")
COLUMNS = {
    "gates": (*GATE, "seconds", "crossings", *(f"highest_{unit}" for unit in DEPTH)),
    "queues": (
        *QUEUE, *(f"{flow}_{unit}" for flow in FLOWS for unit in DEPTH), *(f"highest_{unit}" for unit in DEPTH),
        "consumers", "sampled_seconds", "starved_seconds", *THRESHOLDS, "closed_seconds",
    ),
    "blocks": (*GATE, "producer", *BLOCKED, "user"),
    "producers": ("log", "producer", "user", *BLOCKED, "gate"),
    "users": ("log", "user", *BLOCKED),
    "blocked_by_gate": (*GATE, "blocked_seconds"),
    "latencies": (*GATE, "resumes", "percentiles"),
    "series": ("point", *QUEUE, *DEPTH, "in_messages", "settled_messages", "blocked", "closed"),
    "links": (*QUEUE, *TARGET, "via", "messages"),
}  # fmt: skip
"""Columns of each table, in the order in which Spark writes them."""
Row = dict[str, Any]
Key = tuple[Any, ...]


@dataclass
class _Record:
    """A record, with its log and the part of its run that is in the window."""

    log: str
    run: Run
    row: Row

    @property
    def is_inside(self) -> bool:
        """True if the record is in the window."""
        return bool(self.run.lo <= self.row["mono"] <= self.run.hi)

    def key(self, names: Iterable[str]) -> Key:
        """Return the values of columns."""
        return tuple(self.log if name == "log" else self.row.get(name) for name in names)


@dataclass
class PlainRecords(Log):
    """The records of small logs by event, in runs of the window."""

    by_event: dict[str, list[_Record]] = field(default_factory=dict)

    def of(self, *events: str) -> list[_Record]:
        """Return the records of events, in the order of their files."""
        return [record for event in events for record in self.by_event.get(event, ())]


def is_small(found: Found) -> bool:
    """Return whether logs are small enough to be analyzed without Spark."""
    sizes = [Path(file).stat().st_size * (COMPRESSION if file.endswith(COMPRESSED) else 1) for file in found.lines]
    return not found.tables and sum(sizes) <= SMALL_BYTES


def plain_records_of(files: Sequence[str], window: Window) -> PlainRecords:
    """Return the records of files of lines. Raises LogError if there are none, or for a newer schema."""
    rows = [(log, row) for file in files for log, row in _rows_of(Path(file))]
    starts: dict[str, list[float]] = {}
    for log, row in rows:
        if row.get("event") == "start":
            starts.setdefault(log, []).append(row["wall"])
    numbered: dict[tuple[str, int], list[Row]] = {}
    for log, row in rows:
        number = sum(row["wall"] >= wall for wall in starts.get(log, ())) if "wall" in row else -1
        numbered.setdefault((log, number), []).append(row)
    found = [_found_run(*key, each) for key, each in sorted(numbered.items(), key=lambda item: item[0])]
    runs = {(run.log, run.run): run for run in runs_of(found, window)}
    records = PlainRecords(list(runs.values()), notices_of(found), len(rows))
    for (log, number), each in numbered.items():
        run = runs.get((log, number))
        if run is not None:
            for row in each:
                if "mono" in row:
                    records.by_event.setdefault(row["event"], []).append(_Record(log, run, row))
    return records


def _rows_of(file: Path) -> Iterator[tuple[str, Row]]:
    """Yield directory and record of each line of a file; a line that is no record is empty. Raises LogError."""
    log = str(file.resolve().parent)
    try:
        with gzip.open(file) if file.suffix == COMPRESSED else file.open("rb") as lines:
            for line in lines:
                if line.strip():
                    yield log, _row_of(line)
    except FileNotFoundError:
        return
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise cut(file) from None


def _row_of(line: bytes) -> Row:
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return {name: value for name, value in row.items() if value is not None} if isinstance(row, dict) else {}


def _found_run(log: str, number: int, rows: list[Row]) -> Row:
    """Return a run with its bounds and defects, as `logs` computes it with Spark."""
    times = [(row["mono"], row["wall"] - row["mono"]) for row in rows if "mono" in row]
    offsets = [offset for _, offset in times]
    versions = [row["v"] for row in rows if "v" in row]
    check_version(max(versions, default=None), log)
    return {
        "log": log,
        "run": number,
        "begin": min((mono for mono, _ in times), default=None),
        "end": max((mono for mono, _ in times), default=None),
        "offset": min(times)[1] if times else None,
        "shift": max(offsets) - min(offsets) if offsets else None,
        "records": len(rows),
        "lost": sum(row.get("count", 0) for row in rows if row.get("event") == "lost"),
        "summed": sum(row.get("count", 0) for row in rows if row.get("event") == "summed"),
        "stops": sum(row.get("event") == "stop" for row in rows),
        "without_traffic": sum(row.get("event") == "depth" and "seconds" not in row for row in rows),
        "torn": sum("event" not in row for row in rows),
    }


class PlainTables:
    """The tables of plain records; see `SparkTables`."""

    def __init__(self, records: PlainRecords, output: Path, queue: str | None) -> None:
        self._records = records
        self._output = output
        self._queue = queue
        self._closed: list[Row] = []

    def _of(self, *events: str) -> list[_Record]:
        """Return the records of events, of the requested queue."""
        return [each for each in self._records.of(*events) if self._queue in (None, each.row.get("queue"))]

    def _inside(self, *events: str) -> list[_Record]:
        return [each for each in self._of(*events) if each.is_inside]

    def gates(self) -> list[Row]:
        """See `SparkTables`."""
        spent = _spent(self._of("gate-closed", "gate-opened"), GATE, "gate-closed")
        brief = _grouped(self._inside("brief-closings"), GATE)
        depths = _grouped(self._inside("gate-closed", "gate-opened", "brief-closings"), GATE)
        rows = []
        for key in spent | brief:
            seconds, count = spent.get(key, (0.0, 0))
            some = brief.get(key, [])
            row = dict(zip(GATE, key, strict=True))
            row["seconds"] = _seconds([seconds, *_values(some, "brief_s")])
            row["crossings"] = count + sum(_values(some, "count"))
            for unit in DEPTH:
                row[f"highest_{unit}"] = max(_values(depths.get(key, []), unit), default=None)
            rows.append(row)
        self._closed = self._write("gates", rows)
        return _largest(rows, "seconds")

    def queues(self) -> list[Row]:
        """See `SparkTables`."""
        limits = _grouped(self._of("queue"), QUEUE)
        closed = {(row["log"], row["vhost"], row["gate"]): row["seconds"] for row in self._closed if _is_queue(row)}
        rows = []
        for key, samples in _grouped(self._inside("depth"), QUEUE).items():
            row = dict(zip(QUEUE, key, strict=True))
            for flow in FLOWS:
                for unit in DEPTH:
                    row[f"{flow}_{unit}"] = _sum(_values(samples, f"{flow}_{unit}"))
            for name, column in (("highest_messages", "messages"), ("highest_bytes", "bytes"), ("consumers",) * 2):
                row[name] = max(_values(samples, column), default=None)
            row["sampled_seconds"] = _seconds(_values(samples, "seconds"))
            starved = [each for each in samples if _is_starved(each.row)]
            row["starved_seconds"] = _seconds([0.0, *_values(starved, "seconds")])
            last = max(limits.get(key, ()), key=lambda each: each.row["wall"], default=None)
            for name in THRESHOLDS:
                row[name] = None if last is None else last.row.get(name)
            row["closed_seconds"] = closed.get(key, 0.0)
            rows.append(row)
        self._write("queues", rows)
        rows.sort(key=lambda row: (-row["closed_seconds"], -(row["in_messages"] or 0), *map(str, _key(row, QUEUE))))
        return rows[:TOP]

    def blocks(self) -> tuple[float, list[Row], list[Row], list[Row]]:
        """See `SparkTables`."""
        keys = (*GATE, "producer")
        spent = _spent(self._of("blocked", "unblocked"), keys, "blocked")
        brief = _grouped(self._inside("brief-blocks"), keys)
        rows = []
        for key in spent | brief:
            seconds, count = spent.get(key, (0.0, 0))
            some = brief.get(key, [])
            row = dict(zip(keys, key, strict=True))
            row["producer"] = OTHERS if row["producer"] is None else row["producer"]
            row["seconds"] = _seconds([seconds, *_values(some, "brief_s")])
            row["blocks"] = count + sum(_values(some, "count"))
            row["user"] = _user_of(row["producer"])
            if row["seconds"] > 0 or row["blocks"] > 0:
                rows.append(row)
        self._write("blocks", rows)
        producers = []
        for key_row, those in _by(rows, ("log", "producer", "user")):
            longest = max(those, key=lambda each: float(each["seconds"]))
            producers.append(key_row | _blocked(those) | {"gate": longest["gate"]})
        users = [row | _blocked(those) for row, those in _by(rows, ("log", "user"))]
        by_gate = [row | {"blocked_seconds": _blocked(those)["seconds"]} for row, those in _by(rows, GATE)]
        for name, table in (("producers", producers), ("users", users), ("blocked_by_gate", by_gate)):
            self._write(name, table)
        whole = _blocked(rows)["seconds"]
        return whole, _largest(producers, "seconds"), _largest(users, "seconds"), by_gate

    def latencies(self) -> list[Row]:
        """See `SparkTables`."""
        events = self._inside("gate-opened", "unblocked", "gate-closed", "brief-closings")
        last: dict[Key, _Record] = {}
        found: dict[Key, list[float]] = {}
        order = {"gate-opened": 0, "unblocked": 1}
        for each in sorted(events, key=lambda each: (each.row["mono"], order.get(each.row["event"], 2))):
            key = each.key(GATE)
            place = (key, each.run.run, each.row["mono"] // LATENCY_SLICE_S)
            if each.row["event"] != "unblocked":
                last[place] = each
            elif place in last and last[place].row["event"] == "gate-opened":
                found.setdefault(key, []).append(each.row["mono"] - last[place].row["mono"])
        crossed = {each.key(GATE) for each in self._of("gate-opened", "gate-closed", "brief-closings")}
        rows = []
        for key, values in found.items():
            values.sort()
            places = [max(ceil(part * len(values)) - 1, 0) for part in PERCENTILES]
            more = {"resumes": len(values), "percentiles": [values[place] for place in places]}
            if key in crossed:
                rows.append(dict(zip(GATE, key, strict=True)) | more)
        self._write("latencies", rows)
        return _largest(rows, "resumes")

    def sizes(self) -> list[int]:
        """See `SparkTables`."""
        found = [0] * SIZES
        for each in self._inside("depth"):
            for place, count in enumerate(each.row.get("sizes", ())[:SIZES]):
                found[place] += count
        while found and found[-1] == 0:
            found.pop()
        return found

    def series(self, named: Sequence[tuple[str, str, str]], points: int) -> list[Row]:
        """See `SparkTables`."""
        begin, width = self._records.begin, max((self._records.end - self._records.begin) / points, 1e-6)

        def place(each: _Record) -> Key:
            at = min(floor((each.row["mono"] + each.run.offset - begin) / width), points - 1)
            key = each.key(QUEUE)
            return (at, *(key if key in named else (None,) * len(QUEUE)))

        rows = []
        for key, samples in _grouped_by(self._inside("depth"), place).items():
            row: Row = dict(zip(("point", *QUEUE), key, strict=True))
            for name in DEPTH:
                row[name] = max(_values(samples, name), default=None)
            for name in ("in_messages", "settled_messages"):
                row[name] = _sum(_values(samples, name))
            row["blocked"] = _mean(_values(samples, "blocked"))
            row["closed"] = _mean([0.0 if each.row.get("open") else 1.0 for each in samples])
            rows.append(row)
        self._write("series", rows)
        return sorted(rows, key=lambda row: row["point"])

    def links(self) -> tuple[list[Row], list[Row]]:
        """See `SparkTables`."""
        every = [each for each in self._records.of("producer", "consumer") if each.is_inside]
        made = _moved([each for each in every if "producer" in each.row], "producer", ("source",), "in_messages")
        taken = _moved([each for each in every if each.row["event"] == "consumer"], "consumer", (), "out_messages")
        found = [
            (_key(row, ("log", "vhost", "source")), _key(row, QUEUE), "dead letters", row["messages"])
            for row in made
            if row["source"] is not None
        ]
        for keys, via in ((("query",), "query {}"), (("log", "run", "connection"), "{}")):
            sources, targets = ([row for row in rows if _joins(row, keys)] for rows in (taken, made))
            takes = _by(sources, (*keys, *QUEUE))
            for target, some in _by(targets, (*keys, *QUEUE)):
                for source, others in takes:
                    if _key(source, keys) == _key(target, keys):
                        least = min(sum(row["messages"] for row in each) for each in (some, others))
                        found.append((_key(source, QUEUE), _key(target, QUEUE), via.format(target[keys[-1]]), least))
        ends = (*QUEUE, *TARGET)
        rows = [
            dict(zip(ends, (*source, *target), strict=True)) | {"via": via, "messages": messages}
            for source, target, via, messages in found
            if target[-1] is not None
        ]
        links = [
            row | {"via": max(some, key=_messages)["via"], "messages": sum(map(_messages, some))}
            for row, some in _by(rows, ends)
        ]
        takers = [
            row | {"messages": sum(map(_messages, some))} for row, some in _by(taken, (*QUEUE, "consumer", "query"))
        ]
        self._write("links", links)
        return sorted(links, key=_messages, reverse=True), sorted(takers, key=_messages, reverse=True)

    def named(self) -> list[str]:
        """See `SparkTables`."""
        return sorted({each.row["queue"] for each in self._records.of("depth") if each.is_inside})[:6]

    def _write(self, name: str, rows: list[Row]) -> list[Row]:
        """Write a table as a Parquet file in place of an earlier one, and return the table."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder = self._output / "tables" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        columns = {each: pa.array([row[each] for row in rows], _type_of(name, each)) for each in COLUMNS[name]}
        pq.write_table(pa.table(columns), folder / "part-00000.parquet")
        return rows


def _type_of(table: str, column: str) -> pa.DataType:
    """Return the type of a column, as Spark writes it."""
    import pyarrow as pa

    if column == "percentiles":
        return pa.list_(pa.field("element", pa.float64(), nullable=False))
    if (
        column.endswith("seconds")
        or column == "hold_deadline"
        or (table == "series" and column in ("blocked", "closed"))
    ):
        return pa.float64()
    if column == "point":
        return pa.int32()
    texts = (*GATE, *QUEUE, "producer", "user", "overflow", *TARGET, "via")
    return pa.string() if column in texts else pa.int64()


def _grouped(records: Iterable[_Record], names: Sequence[str]) -> dict[Key, list[_Record]]:
    return _grouped_by(records, lambda each: each.key(names))


def _grouped_by(records: Iterable[_Record], key: Callable[[_Record], Key]) -> dict[Key, list[_Record]]:
    found: dict[Key, list[_Record]] = {}
    for each in records:
        found.setdefault(key(each), []).append(each)
    return found


def _by(rows: Iterable[Row], names: Sequence[str]) -> list[tuple[Row, list[Row]]]:
    """Return rows grouped by some columns: the values of these columns, and the rows."""
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault(_key(row, names), []).append(row)
    return [(dict(zip(names, key, strict=True)), some) for key, some in found.items()]


def _key(row: Row, names: Iterable[str]) -> Key:
    return tuple(row[name] for name in names)


def _values(records: Iterable[_Record], name: str) -> list[Any]:
    return [each.row[name] for each in records if name in each.row]


def _sum(values: Sequence[int]) -> int | None:
    return sum(values) if values else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _seconds(values: Sequence[float]) -> float | None:
    """Return the sum of seconds, exact to the microsecond."""
    return sum(map(flowlog.micros, values)) / flowlog.MICROS if values else None


def _spent(records: Iterable[_Record], names: Sequence[str], begin: str) -> dict[Key, tuple[float, int]]:
    """Return by columns the seconds between begins and ends, and the number of begins; see `measures.intervals`."""
    by_run = _grouped_by(records, lambda each: (each.run.run, *each.key(names)))
    found: dict[Key, tuple[float, int]] = {}
    for (_, *rest), some in by_run.items():
        run, key = some[0].run, tuple(rest)
        ends = [(each.row["mono"], each.row["event"] == begin) for each in some]
        seconds, began = flowlog.seconds_between(ends, run.lo, run.hi)
        before, count = found.get(key, (0.0, 0))
        found[key] = (flowlog.micros(before) + flowlog.micros(seconds)) / flowlog.MICROS, count + began
    return found


def _moved(records: list[_Record], who: str, more: Sequence[str], column: str) -> list[Row]:
    """Return what each producer or consumer moved in each queue."""
    names = ("log", "vhost", "queue", who, *more, "query")
    rows = []
    for (run, *key), some in _grouped_by(records, lambda each: (each.run.run, *each.key(names))).items():
        found = CONNECTION.match(some[0].row[who])
        row = dict(zip(names, key, strict=True)) | {"run": run, "connection": found[1] if found else ""}
        rows.append(row | {"messages": sum(_values(some, column))})
    return rows


def _joins(row: Row, keys: Sequence[str]) -> bool:
    """Return whether a row belongs to a query, or to a connection without a query."""
    return row["query"] is not None if keys == ("query",) else row["query"] is None and row["connection"] != ""


def _messages(row: Row) -> int:
    return int(row["messages"])


def _blocked(rows: Sequence[Row]) -> Row:
    seconds = _seconds([row["seconds"] for row in rows]) or 0.0
    return {"seconds": seconds, "blocks": sum(row["blocks"] for row in rows)}


def _is_queue(row: Row) -> bool:
    return bool(row["kind"] == "queue")


def _is_starved(row: Row) -> bool:
    ready = row["messages"] - row.get("unacknowledged", 0)
    return bool(row.get("consumers", 0) > 0 and ready <= 0 and row.get("blocked", 0) > 0)


def _user_of(producer: str) -> str:
    if producer.endswith("/dead-letters"):
        return "(dead letters)"
    found = PRODUCER.match(producer)
    return (found[1] if found else "") or "(none)"


def _largest(rows: list[Row], column: str) -> list[Row]:
    """Return the rows with the largest values; of equal rows, the first in the order of their texts."""

    def place(row: Row) -> Key:
        texts = [(name, value) for name, value in row.items() if value is None or isinstance(value, str)]
        return (-row[column], *[(value is not None, value or "") for _, value in texts])

    return sorted(rows, key=place)[:TOP]
