"""Parts of staged flow logs: the events and columns of each."""

from __future__ import annotations

from penstock.logs import flowlog

LOG = "log"
"""Column with the directory of a record's file."""
UNUSED = frozenset({
    "id", "cause", "setting", "count_bytes", "paged_messages", "paged_bytes", "waiting", "granted", "used", "drained",
    "moved", "idle", "version", "batch", "rows", "batch_ms", "lag_messages", "lag_bytes", "oldest_s", "closed_s",
    "unconfirmed", "held_messages", "settlements", "user",
})  # fmt: skip
"""Fields that no measure needs. These fields are not parsed."""
FIELDS = {name: kind for name, kind in flowlog.FIELDS.items() if name not in UNUSED} | {LOG: "STRING"}
WHEN = ("v", "event", "wall", "mono", LOG)
PLACE = (*WHEN, "kind", "gate", "vhost", "queue")
FLOWS = tuple(f"{flow}_{unit}" for flow in ("in", "out", "settled", "refused") for unit in ("messages", "bytes"))
PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "samples": (
        ("depth",),
        (*PLACE, "messages", "bytes", "unacknowledged", "open", "blocked", "consumers", "seconds", *FLOWS, "sizes"),
    ),
    "traffic": (
        ("producer", "consumer"),
        (*PLACE, "producer", "in_messages", "in_bytes", "source", "query", "consumer", "out_messages", "prefetch"),
    ),
    "crossings": (
        ("gate-closed", "gate-opened", "brief-closings"),
        (*PLACE, "messages", "bytes", "count", "brief_s"),
    ),
    "blocks": (("blocked", "unblocked", "brief-blocks"), (*PLACE, "producer", "count", "brief_s")),
    "thresholds": (
        ("queue",),
        (*PLACE, *(f"{name}_{unit}" for name in ("capacity", "stop", "resume") for unit in ("messages", "bytes")),
         "hold_deadline", "overflow"),
    ),
    "others": ((), (*WHEN, "count")),
}  # fmt: skip
"""Parts, each with its events and its columns; the last part has all other events."""
SCHEMAS = {part: ", ".join(f"{name} {FIELDS[name]}" for name in columns) for part, (_, columns) in PARTS.items()}
"""The parts' columns, for Spark."""
