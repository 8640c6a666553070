"""Descriptions of streams: what is retained, from which offset to which, and how far its segments go."""

from __future__ import annotations

from penstock.core.queue.queue import Queue
from penstock.describe.listed import log_in
from penstock.describe.table import Reading
from penstock.flow.level import UNLIMITED
from penstock.flow.timers import NEVER


def stream_row(queue: Queue, at: Reading) -> object:
    """Return what a stream retains; None for any other queue."""
    log = log_in(queue)
    if log is None:
        return None
    settings, line = queue.settings, log.segments.line
    return {
        "first": int(log.next) - 1,
        "next": int(queue.tail),
        "messages": int(log.messages),
        "bytes": int(log.bytes),
        "retained_bytes": int(log.retained_bytes()),
        "unwritten": {"messages": int(log.unwritten_messages), "bytes": int(log.unwritten_bytes)},
        "segments": len(line),
        "oldest_s": round(at.now - line[0].oldest, 3) if line and abs(line[0].oldest) != NEVER else None,
        "dropped_messages": int(log.dropped_messages),
        "overtaken": int(log.overtaken),
        "max_length_bytes": None if settings.log_bytes == UNLIMITED else int(settings.log_bytes),
        "max_age_s": None if settings.max_age_s == NEVER else settings.max_age_s,
    }


def stream_number(queue: Queue, name: str) -> int | None:
    """Return a counter of a stream by its name, for its metric; None for any other queue."""
    log = log_in(queue)
    if log is None:
        return None
    if name == "segments":
        return len(log.segments.line)
    if name == "first":
        return int(log.next) - 1
    return int(log.dropped_messages if name == "dropped" else log.overtaken)


def stream_words(queue: Queue) -> str:
    """Return what a stream retains, as a clause."""
    log = log_in(queue)
    if log is None or log.messages == 0:
        return f"nothing is retained, and the next offset is {int(queue.tail):,}"
    if log.messages == 1:
        return f"1 message is retained, at offset {int(queue.tail) - 1:,}"
    return f"{int(log.messages):,} messages are retained, from offset {int(log.next) - 1:,} to {int(queue.tail) - 1:,}"
