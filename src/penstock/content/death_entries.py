"""Entries of the header x-death: one for each queue and reason, with a count."""

from __future__ import annotations

from datetime import datetime
from typing import Final

COUNTED_MAX: Final = 1 << 62
"""Count at or above which an entry cannot come from a broker."""

WRITTEN: Final = ("count", "reason", "queue", "time", "exchange", "routing-keys", "original-expiration")
"""Fields of an entry (rabbit_dead_letter.erl)."""

Entry = dict[str, object]


def deaths_in(value: object) -> list[Entry]:
    """Return the valid entries of an x-death header, one for each queue and reason.

    Invalid entries come from a client and are dropped.
    """
    entries: list[Entry] = []
    for entry in value if isinstance(value, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("queue"), str) and isinstance(entry.get("reason"), str):
            entries.append({name: entry[name] for name in WRITTEN if name in entry and _as_written(name, entry[name])})
    return _grouped(entries)


def _grouped(entries: list[Entry]) -> list[Entry]:
    """Return the first entry of each queue and reason.

    RabbitMQ before 3.5.2 wrote one entry without a count for each death.
    """
    grouped: dict[tuple[object, object], Entry] = {}
    times: dict[tuple[object, object], int] = {}
    for entry in entries:
        key = (entry["queue"], entry["reason"])
        grouped.setdefault(key, entry)
        times[key] = times.get(key, 0) + 1
    return [entry if "count" in entry else {"count": times[key], **entry} for key, entry in grouped.items()]


def _as_written(name: str, value: object) -> bool:
    """Return whether a field of an entry has the type that a broker writes."""
    if name == "count":
        return isinstance(value, int) and not isinstance(value, bool) and 0 < value < COUNTED_MAX
    if name == "time":
        return isinstance(value, datetime)
    if name == "routing-keys":
        return isinstance(value, list) and all(isinstance(key, str) for key in value)
    return isinstance(value, str)
