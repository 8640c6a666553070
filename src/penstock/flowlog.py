"""Reader of the flow log, the record of all gates second by second (docs/flow-log.md).

for record in penstock.flowlog.read("data/flow-log"):
    print(record["wall"], record["event"], record.get("gate"))

spark.read.schema(penstock.flowlog.SCHEMA).json("data/flow-log")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import zip_longest
from math import floor
from pathlib import Path
from typing import Any, Final

from penstock.record_files import RecordFiles

VERSION: Final = 1
"""Version of the schema; raised when a field changes its meaning or is removed, not for new fields and events."""

FIELDS: Final[dict[str, str]] = {
    "v": "INT",
    "event": "STRING",
    "wall": "DOUBLE",
    "mono": "DOUBLE",
    "id": "STRING",
    "kind": "STRING",
    "gate": "STRING",
    "vhost": "STRING",
    "queue": "STRING",
    "producer": "STRING",
    "cause": "STRING",
    "setting": "STRING",
    "messages": "BIGINT",
    "bytes": "BIGINT",
    "count": "BIGINT",
    "count_bytes": "BIGINT",
    "paged_messages": "BIGINT",
    "paged_bytes": "BIGINT",
    "unacknowledged": "BIGINT",
    "open": "BOOLEAN",
    "blocked": "BIGINT",
    "waiting": "BIGINT",
    "consumers": "BIGINT",
    "granted": "BIGINT",
    "used": "BIGINT",
    "drained": "BIGINT",
    "moved": "BIGINT",
    "idle": "BIGINT",
    "version": "STRING",
    "seconds": "DOUBLE",
    "in_messages": "BIGINT",
    "in_bytes": "BIGINT",
    "out_messages": "BIGINT",
    "out_bytes": "BIGINT",
    "settled_messages": "BIGINT",
    "settled_bytes": "BIGINT",
    "refused_messages": "BIGINT",
    "refused_bytes": "BIGINT",
    "sizes": "ARRAY<BIGINT>",
    "source": "STRING",
    "query": "STRING",
    "consumer": "STRING",
    "prefetch": "BIGINT",
    "capacity_messages": "BIGINT",
    "capacity_bytes": "BIGINT",
    "stop_messages": "BIGINT",
    "stop_bytes": "BIGINT",
    "resume_messages": "BIGINT",
    "resume_bytes": "BIGINT",
    "hold_deadline": "DOUBLE",
    "overflow": "STRING",
    "batch": "BIGINT",
    "rows": "BIGINT",
    "batch_ms": "BIGINT",
    "lag_messages": "BIGINT",
    "lag_bytes": "BIGINT",
    "oldest_s": "DOUBLE",
    "closed_s": "DOUBLE",
    "brief_s": "DOUBLE",
    "unconfirmed": "BIGINT",
    "held_messages": "BIGINT",
    "settlements": "BIGINT",
}
"""Fields of a record with their types in Spark's names; a record has those that apply to its event."""

EVENTS: Final = (
    "start",
    "stop",
    "gate-closed",
    "gate-opened",
    "blocked",
    "unblocked",
    "brief-closings",
    "brief-blocks",
    "stopped",
    "refused",
    "confirmed-late",
    "channel-closed",
    "dropped",
    "paging-started",
    "paging-stopped",
    "setting",
    "depth",
    "queue",
    "producer",
    "consumer",
    "query",
    "lost",
)

SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items())
"""The fields as a schema for Spark: `spark.read.schema(SCHEMA).json(directory)`."""

CLOCK_SET_S: Final = 3600.0
MICROS: Final = 1e6
BOUND: Final = 0.05
"""Share of the recorded time beyond which blocked producers make the log a lower bound of what they offered."""
FILES: Final = RecordFiles("flow-", VERSION, "flow log")


def files(directory: str | Path) -> list[Path]:
    """Return the log's files, oldest first, compressed ones too. Raises OSError if the directory cannot be read."""
    return FILES.list(directory)


def read(directory: str | Path, *more: str | Path) -> Iterator[dict[str, Any]]:
    """Read all records, oldest first; see `RecordFiles.read`."""
    return FILES.read(directory, *more)


def read_file(path: Path) -> Iterator[dict[str, Any]]:
    """Read the records of one file; see `RecordFiles.read`."""
    return FILES.read_file(path)


def files_between(directory: str | Path, begin: float | None, end: float | None) -> list[Path]:
    """Return the log's files that may have records of a time, in seconds since 1970; see `files`.

    Only their first records are read. Clocks are set, so files of an hour before and after count too.
    """
    every = files(directory)
    found = []
    for path, after in zip_longest(every, every[1:]):
        first = None if end is None else _first_wall(path)
        last = None if begin is None or after is None else _first_wall(after)
        is_later = first is not None and end is not None and first > end + CLOCK_SET_S
        is_earlier = last is not None and begin is not None and last < begin - CLOCK_SET_S
        if not is_later and not is_earlier:
            found.append(path)
    return found


def _first_wall(path: Path) -> float | None:
    """Return the time of the first record of a file; None if it cannot be told."""
    try:
        return float(next(read_file(path))["wall"])
    except (OSError, EOFError, ValueError, TypeError, KeyError, StopIteration):
        return None


def read_queue(queue: str, paths: Iterable[Path], report: Callable[[Path], None]) -> Iterator[dict[str, Any]]:
    """Read from files the records of a queue, starts, stops, and what was lost; see `RecordFiles.read_holding`."""
    return FILES.read_holding([queue, "start", "stop", "lost"], paths, report)


def seconds_between(ends: Iterable[tuple[float, bool]], lo: float, hi: float) -> tuple[float, int]:
    """Return the seconds of a run for which something was closed or blocked, and how often that began.

    `ends` are the begins (True) and the ends (False) in any order, all of the run, in seconds of the monotonic clock.
    What is outside of `lo` to `hi` does not count. The sum is exact to the microsecond.
    """
    total = balance = began = 0
    for mono, begins in ends:
        at = micros(min(max(mono, lo), hi) - lo)
        total += -at if begins else at
        balance += 1 if begins else -1
        began += begins and lo <= mono <= hi
    span = micros(hi - lo)
    if balance > 0:  # It began and did not end.
        total += balance * span
    elif balance == 0 and total < 0:  # It ended first, and began again.
        total += span
    return min(max(total, 0), span) / MICROS, began


def blocked_share(closed_s: float, blocked_s: float, seconds: float) -> float:
    """Return the share of the recorded seconds for which the gate of a queue blocked producers.

    `closed_s` is its closed time, and `blocked_s` the blocked time of all its producers together. They are blocked
    while it is closed, and most of them at once: so it is the lesser of both, however many producers there are and
    however long each was there. Above `BOUND` the log is a lower bound of what was offered.
    """
    return min(closed_s, blocked_s) / seconds if seconds else 0.0


def micros(seconds: float) -> int:
    """Return seconds in microseconds, as precise as the log has them."""
    return floor(seconds * MICROS + 0.5)


def seconds_of(text: str) -> float:
    """Return the time that a text names, in seconds since 1970, as in `wall`.

    The text is such seconds, or ISO 8601, which is UTC where it names no zone. Raises ValueError.
    """
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"'{text}' is no time: give seconds since 1970, or ISO 8601 such as 2026-11-22T17:00:00Z"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
