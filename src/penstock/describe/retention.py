"""Descriptions of retention: the companion of a queue, what it has, and what was not retained."""

from __future__ import annotations

from penstock.core.queue.queue import Queue
from penstock.core.queue.retention import (
    bar_of,
    companion_name,
    describe_setting,
    retention_into,
    retention_of,
)
from penstock.describe.listed import log_in
from penstock.describe.stream import stream_words
from penstock.describe.table import Reading


def retention_row(queue: Queue, at: Reading) -> object:
    """Return the retention of a queue; None for a queue that retains nothing."""
    retention = retention_of(queue)
    if retention is None:
        return None
    log = log_in(retention.stream)
    gap = retention.gap
    return {
        "queue": retention.stream.name,
        "messages": 0 if log is None else int(log.messages),
        "retained_bytes": 0 if log is None else int(log.retained_bytes()),
        "first": 0 if log is None else int(log.next) - 1,
        "next": int(retention.stream.tail),
        "retained": int(retention.retained),
        "left_out": int(retention.left_out),
        "behind": retention.is_behind(),
        "not_retaining": None if gap is None else gap.reason,
    }


def retention_number(queue: Queue, name: str) -> int | None:
    """Return a counter of retention by its name, for its metric; None for a queue that retains nothing."""
    retention = retention_of(queue)
    if retention is None:
        return None
    return int(retention.retained if name == "retained" else retention.left_out)


def retention_sentences(queue: Queue) -> list[str]:
    """Return what `why` says of a queue that retains, of a companion, and of a setting without effect."""
    owner = retention_into(queue)
    if owner is not None:
        setting = describe_setting(owner.queue.settings)
        return [f"queue {queue.name} has what queue {owner.queue.name} settled: {setting}"]
    retention = retention_of(queue)
    if retention is None:
        return _without_effect(queue)
    name = retention.stream.name
    found = [f"queue {queue.name} retains settled messages in queue {name}: {stream_words(retention.stream)}"]
    if retention.is_behind():
        found.append(
            f"queue {queue.name} delivers nothing until queue {name} is written: the store is slower than the consumers"
        )
    gap = retention.gap
    if gap is not None:
        found.append(
            f"what queue {queue.name} settles is not retained now ({int(gap.messages):,} messages so far): {gap.reason}"
        )
    elif retention.left_out > 0:
        found.append(f"{int(retention.left_out):,} settled messages of queue {queue.name} were not retained (PST-1031)")
    return found


def _without_effect(queue: Queue) -> list[str]:
    """Return why the setting of a queue has no effect, if it has none."""
    bar = bar_of(queue)
    if not queue.settings.retains:
        return []
    setting = describe_setting(queue.settings)
    if bar:
        return [f"{setting} has no effect on queue {queue.name}, which is {bar}"]
    return [f"{setting} has no effect on queue {queue.name}: another queue has the name {companion_name(queue.name)}"]
