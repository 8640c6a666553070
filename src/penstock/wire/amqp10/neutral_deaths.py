"""Conversion of neutral deaths (`x-death`) to the annotation `x-opt-deaths` of AMQP 1.0 and back, as in RabbitMQ 4."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from penstock.content.death_entries import Entry
from penstock.wire.amqp10 import values
from penstock.wire.amqp10.neutral_values import milliseconds_of, moment_of
from penstock.wire.amqp10.values import Array, Symbol, Typed, timestamp, uint, ulong

DEATHS: Final = "x-opt-deaths"
_TTL_MAX: Final = (1 << 32) - 1


def entries_in(annotation: object) -> list[Entry]:
    """Return the deaths of an annotation with the names of x-death; empty if Penstock did not write it."""
    if not isinstance(annotation, Array) or annotation.kind != values.MAP:
        return []
    entries: list[Entry] = []
    for item in annotation.values:
        if isinstance(item, dict):
            entries.append(_entry(item))
    return entries


def _entry(item: dict[object, object]) -> Entry:
    entry: Entry = {}
    for name in ("queue", "reason", "exchange"):
        value = item.get(Symbol(name))
        entry[name] = value.text if isinstance(value, Symbol) else value
    entry["count"] = _number(item.get(Symbol("count")))
    first = item.get(Symbol("first-time"))
    entry["time"] = moment_of(_number(first)) if isinstance(first, Typed) else None
    keys = item.get(Symbol("routing-keys"))
    entry["routing-keys"] = list(keys.values) if isinstance(keys, Array) else keys
    ttl = item.get(Symbol("ttl"))
    if ttl is not None:
        entry["original-expiration"] = str(_number(ttl))
    return entry


def _number(value: object) -> int:
    if isinstance(value, Typed):
        value = value.value
    return value if isinstance(value, int) else 0


def last_times(annotation: object) -> dict[tuple[object, object], object]:
    """Return the time of the last death of each queue and reason, which x-death lacks."""
    times: dict[tuple[object, object], object] = {}
    if isinstance(annotation, Array):
        for item in annotation.values:
            if isinstance(item, dict):
                reason = item.get(Symbol("reason"))
                key = (item.get(Symbol("queue")), reason.text if isinstance(reason, Symbol) else reason)
                times[key] = item.get(Symbol("last-time"))
    return times


def annotation_of(deaths: list[Entry], times: dict[tuple[object, object], object], now: float = -1.0) -> Array:
    """Return the annotation of deaths. `now` is the time of the first death, in seconds since the epoch, if given.

    `times` are the times of the last deaths; a missing time is replaced by the time of the first death.
    """
    items: list[object] = []
    for index, entry in enumerate(deaths):
        first = entry.get("time")
        first_time = timestamp(milliseconds_of(first) if isinstance(first, datetime) else 0)
        last_time: object = times.get((entry["queue"], entry["reason"]))
        if index == 0 and now >= 0.0:
            last_time = timestamp(int(now * 1000))
        item: dict[object, object] = {}
        expiration = entry.get("original-expiration")
        if isinstance(expiration, str) and expiration.isdecimal() and int(expiration) <= _TTL_MAX:
            item[Symbol("ttl")] = uint(int(expiration))
        item[Symbol("queue")] = entry["queue"]
        item[Symbol("reason")] = Symbol(str(entry["reason"]))
        item[Symbol("count")] = ulong(_number(entry["count"]))
        item[Symbol("first-time")] = first_time
        item[Symbol("last-time")] = last_time if isinstance(last_time, Typed) else first_time
        item[Symbol("exchange")] = entry.get("exchange", "")
        keys = entry.get("routing-keys")
        item[Symbol("routing-keys")] = Array(values.STRING, list(keys) if isinstance(keys, list) else [])
        items.append(item)
    return Array(values.MAP, items)
