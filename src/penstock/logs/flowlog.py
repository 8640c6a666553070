"""Reader of the flow log, the record of all gates second by second (docs/flow-log.md).

for record in penstock.logs.flowlog.read("data/flow-log"):
    print(record["wall"], record["event"], record.get("gate"))

spark.read.schema(penstock.logs.flowlog.SCHEMA).json("data/flow-log")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from math import floor
from pathlib import Path
from typing import Any, Final

from penstock.logs.record_files import RecordFiles

VERSION: Final = 1
"""Version of the schema; raised when a field changes its meaning or is removed, not for new fields and events."""

RECORD: Final[dict[str, tuple[str, str]]] = {
    "v": ("INT", "version of the schema, 1; new fields and events do not change it"),
    "event": ("STRING", "what happened, see below"),
    "wall": ("DOUBLE", "when: seconds since 1970-01-01 UTC"),
    "mono": ("DOUBLE", "when: seconds of the broker's monotonic clock, which nobody sets; `start` begins a run"),
    "id": ("STRING", "id of the log line that says the same: QUE-1003, CHN-1005 ..."),
    "kind": ("STRING", "kind of the gate: `queue`, `address`, `vhost`, `memory`, `operator`, `disk`, `work`"),
    "gate": ("STRING", "name of the gate: for a queue's gate the queue's name"),
    "vhost": ("STRING", "virtual host of the gate"),
    "queue": ("STRING", "queue of the gate, where it is a queue's"),
    "producer": ("STRING", "channel that published, as the log names it: `con:2(guest@127.0.0.1:40312/)/ch:1`"),
    "user": ("STRING", "user whose events are summed; left out for events of gates, which have no user"),
    "cause": ("STRING", "why: the cause of a refusal or drop (below), else in words"),
    "setting": ("STRING", "name of the setting that changed"),
    "messages": ("BIGINT", "depth at that moment, in messages"),
    "bytes": ("BIGINT", "depth at that moment, in bytes (charges)"),
    "count": ("BIGINT", "how many messages, confirmations or records"),
    "count_bytes": ("BIGINT", "their bytes (charges)"),
    "paged_messages": ("BIGINT", "messages of the depth that are on the disk; left out for queues that do not page"),
    "paged_bytes": ("BIGINT", "their bytes (charges)"),
    "unacknowledged": ("BIGINT", "messages of the depth that are with consumers"),
    "open": ("BOOLEAN", "whether the gate is open"),
    "blocked": ("BIGINT", "producers that the gate blocks"),
    "waiting": ("BIGINT", "producers that stand in its line"),
    "consumers": ("BIGINT", "consumers of the queue"),
    "granted": ("BIGINT", "credit granted to a sender since it attached, in messages"),
    "used": ("BIGINT", "messages that came on it"),
    "drained": ("BIGINT", "credit that the sender gave back, in messages"),
    "moved": ("BIGINT", "idle credit that was set aside, in messages"),
    "idle": ("BIGINT", "how often the sender was asked to drain"),
    "version": ("STRING", "version of the Penstock that writes"),
    "seconds": ("DOUBLE", "how long the counts of this record cover"),
    "in_messages": ("BIGINT", "messages that came into the queue, or from the producer"),
    "in_bytes": ("BIGINT", "their bytes (charges)"),
    "out_messages": ("BIGINT", "messages that were delivered, or that a cursor has settled"),
    "out_bytes": ("BIGINT", "their bytes (charges)"),
    "settled_messages": ("BIGINT", "messages that left the queue: acknowledged, expired, purged or dead-lettered"),
    "settled_bytes": ("BIGINT", "their bytes (charges)"),
    "refused_messages": ("BIGINT", "publishes that were refused at the gate of the queue; left out for none"),
    "refused_bytes": ("BIGINT", "their bytes (charges)"),
    "sizes": ("ARRAY<BIGINT>", "sampled sizes of what came: entry n counts charges from 2^(n-1) to 2^n - 1"),
    "source": ("STRING", "queue whose dead letters the producer publishes"),
    "query": ("STRING", "Spark query that publishes, or reads through a cursor"),
    "consumer": ("STRING", "channel that consumes, or `cursor(NAME)`"),
    "prefetch": ("BIGINT", "prefetch of the consumer; left out for none"),
    "capacity_messages": ("BIGINT", "capacity of the queue; these thresholds are left out for no limit"),
    "capacity_bytes": ("BIGINT", "capacity in bytes"),
    "stop_messages": ("BIGINT", "depth above which the gate closes"),
    "stop_bytes": ("BIGINT", "the same in bytes"),
    "resume_messages": ("BIGINT", "depth at which the gate opens again"),
    "resume_bytes": ("BIGINT", "the same in bytes"),
    "hold_deadline": ("DOUBLE", "hold deadline in seconds; left out for none"),
    "overflow": ("STRING", "overflow policy at the capacity"),
    "length_messages": ("BIGINT", "most ready messages by RabbitMQ's names; left out for no limit"),
    "length_bytes": ("BIGINT", "most bytes of their bodies; left out for no limit"),
    "length_overflow": ("STRING", "overflow policy at the length; left out without one"),
    "batch": ("BIGINT", "number of the query's last batch"),
    "rows": ("BIGINT", "rows of that batch"),
    "batch_ms": ("BIGINT", "time of that batch in milliseconds"),
    "lag_messages": ("BIGINT", "messages in the queues of a cursor that it has not settled"),
    "lag_bytes": ("BIGINT", "their bytes (charges)"),
    "oldest_s": ("DOUBLE", "age of the oldest of them in seconds"),
    "closed_s": ("DOUBLE", "seconds for which the gates of the cursor's queues were closed, together"),
    "brief_s": ("DOUBLE", "how long the summed closings or blocks lasted together, in seconds"),
    "unconfirmed": ("BIGINT", "most publishes without a confirm of a producer that the gate blocks"),
    "held_messages": ("BIGINT", "publishes that the broker holds of the connections that the gate blocks"),
    "settlements": ("BIGINT", "moments at which messages left the queue, of which each may have many"),
}
"""Fields of a record: types in Spark's names, and meanings. A record has the fields that apply to its event."""

FIELDS: Final = {name: kind for name, (kind, _) in RECORD.items()}
"""Types of the fields, in Spark's names."""

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
    "summed",
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
    """Return the log's files, oldest first, compressed files included. Raises OSError if the directory cannot be
    read.
    """
    return FILES.list(directory)


def folders(path: Path) -> Sequence[Path]:
    """Return the directories of flow logs at a path: a log, a data directory, or those of a node's shards."""
    return FILES.folders(path)


def read(directory: str | Path, *more: str | Path) -> Iterator[dict[str, Any]]:
    """Read all records, oldest first; see `RecordFiles.read`."""
    return FILES.read(directory, *more)


def read_file(path: Path) -> Iterator[dict[str, Any]]:
    """Read the records of one file; see `RecordFiles.read`."""
    return FILES.read_file(path)


def files_between(directory: str | Path, begin: float | None, end: float | None) -> list[Path]:
    """Return the log's files that may have records of a time, in seconds since 1970; see `files`.

    Only the first record of each file is read. Clocks may be set, so files of an hour before and after are included.
    """
    every = files(directory)
    paths = []
    for path, after in zip_longest(every, every[1:]):
        first = None if end is None else _first_wall(path)
        last = None if begin is None or after is None else _first_wall(after)
        is_later = first is not None and end is not None and first > end + CLOCK_SET_S
        is_earlier = last is not None and begin is not None and last < begin - CLOCK_SET_S
        if not is_later and not is_earlier:
            paths.append(path)
    return paths


def _first_wall(path: Path) -> float | None:
    """Return the time of the first record of a file; None if it is unknown."""
    try:
        return float(next(read_file(path))["wall"])
    except (OSError, EOFError, ValueError, TypeError, KeyError, StopIteration):
        return None


def read_queue(queue: str, paths: Iterable[Path], report: Callable[[Path], None]) -> Iterator[dict[str, Any]]:
    """Read from files the records of a queue, starts, stops, sums and losses; see `RecordFiles.read_holding`."""
    return FILES.read_holding([queue, "start", "stop", "lost", "summed"], paths, report)


def seconds_between(ends: Iterable[tuple[float, bool]], lo: float, hi: float) -> tuple[float, int]:
    """Return the seconds of a run in which a gate was closed or a producer blocked, and the number of times.

    `ends` are all beginnings (True) and ends (False) of the run, in any order, in seconds of the monotonic clock. Time
    outside of `lo` to `hi` does not count. The sum is exact to the microsecond.
    """
    total = balance = began = 0
    for mono, begins in ends:
        at = micros(min(max(mono, lo), hi) - lo)
        total += -at if begins else at
        balance += 1 if begins else -1
        began += begins and lo <= mono <= hi
    span = micros(hi - lo)
    if balance > 0:  # A span that began and did not end.
        total += balance * span
    elif balance == 0 and total < 0:  # A span that ended and began again.
        total += span
    return min(max(total, 0), span) / MICROS, began


def blocked_share(closed_s: float, blocked_s: float, seconds: float) -> float:
    """Return the share of the recorded seconds for which the gate of a queue blocked producers.

    `closed_s` is its closed time, and `blocked_s` the blocked time of all its producers together. Producers are blocked
    while the gate is closed, and most of them at once: so the share is computed from the lesser of the two, for any
    number of producers. Above `BOUND` the log is a lower bound of the offered load.
    """
    return min(closed_s, blocked_s) / seconds if seconds else 0.0


def micros(seconds: float) -> int:
    """Return seconds in microseconds, the precision of the log."""
    return floor(seconds * MICROS + 0.5)


def seconds_of(text: str) -> float:
    """Return the time that a text names, in seconds since 1970, as in `wall`.

    The text is a number of seconds, or ISO 8601, in UTC if it names no zone. Raises ValueError.
    """
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"'{text}' is no time: give seconds since 1970, or ISO 8601 such as 2026-11-22T17:00:00Z"
        ) from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
