"""Histories of the last 24 hours: rates, depths and gates of a queue, a virtual host and the node.

They are read from the series of the sampler, in three tiers: five minutes by five seconds, an hour by minutes, and a
day by five minutes. A longer tier has the average rate and the highest depth of each entry.
"""

from __future__ import annotations

from typing import Final

from penstock.core.queue.queue import Queue
from penstock.describe.described_node import DescribedNode
from penstock.describe.message_stats import (
    CLOSED_MS,
    DELIVERIES,
    QUEUE_COUNTERS,
    QUEUE_KEYS,
    QUEUE_LEVELS,
    SUM_CLOSED_MS,
    SUM_COUNTERS,
    Row,
    queue_counts,
)
from penstock.describe.stats_sampler import Sum
from penstock.flow.series import FINE, SLOT_S, TALLY_KEYS, TIERS, Series

STEPS_S: Final = tuple([round(slots * SLOT_S) for slots, _ in TIERS])
"""Seconds of an entry of each tier."""
RATES: Final = ("publish", "deliver_get", "ack", "redeliver")


def of_queue(queue: Queue, node: DescribedNode, tier: int) -> Row:
    """Return a tier of a queue's history."""
    series = queue.counters.series
    if series is None:
        series = _without(node, queue_counts(queue, node.broker.now), QUEUE_COUNTERS)
    return _tier(series, node, tier, QUEUE_KEYS, CLOSED_MS)


def recent(queue: Queue, node: DescribedNode, samples: int) -> Row:
    """Return the newest depths of a queue and the fractions of time that its gate was closed, by five seconds."""
    series = queue.counters.series
    if series is None:
        series = _without(node, queue_counts(queue, node.broker.now), QUEUE_COUNTERS)
    messages = series.values(CLOSED_MS + 1, FINE)
    closed = _closed(series, CLOSED_MS, FINE, _seconds(series, FINE))
    first = max(len(messages) - samples, 0)
    return {"seconds": STEPS_S[FINE], "messages": messages[first:], "closed": closed[first:]}


def of_sum(counted: Sum | None, node: DescribedNode, tier: int) -> Row:
    """Return a tier of the history of a virtual host or of the node; None is one that no pass has seen."""
    series = None if counted is None else counted.series
    if series is None:
        series = _without(node, [0] * (SUM_COUNTERS + len(QUEUE_LEVELS)), SUM_COUNTERS)
    return _tier(series, node, tier, TALLY_KEYS, SUM_CLOSED_MS)


def _without(node: DescribedNode, counts: list[int], counters: int) -> Series:
    """Return the series of an object to which nothing has happened since the start."""
    series = Series(node.stats.times, counters, len(QUEUE_LEVELS), False, True)
    series.totals = counts
    return series


def _tier(series: Series, node: DescribedNode, tier: int, keys: tuple[str, ...], closed: int) -> Row:
    """Return the entries of a tier, the oldest first; rates are by the second, `closed` is a fraction of time."""
    times = series.times
    seconds = _seconds(series, tier)
    row: Row = {
        "seconds": STEPS_S[tier],
        "end": round((times.now + node.broker.wall_offset) * 1000),
        "publish": _rates(series, [0], tier, seconds),
        "deliver_get": _rates(series, [keys.index(key) for key in DELIVERIES], tier, seconds),
    }
    for key in RATES[2:]:
        row[key] = _rates(series, [keys.index(key)], tier, seconds)
    row["closed"] = _closed(series, closed, tier, seconds)
    for at, key in enumerate(QUEUE_LEVELS):
        row[key] = series.values(closed + 1 + at, tier)
    return row


def _closed(series: Series, column: int, tier: int, seconds: list[float]) -> list[float]:
    """Return the fraction of each entry for which the gate was closed."""
    fractions = [value / 1000 / each for value, each in zip(series.values(column, tier), seconds, strict=True)]
    return [min(round(each, 4), 1.0) for each in fractions]


def _seconds(series: Series, tier: int) -> list[float]:
    """Return the seconds of each entry of a tier: the newest may have begun just now, and the first lacks slot 0."""
    slots, entries = TIERS[tier]
    newest = int(series.times.slot) // slots
    count = min(newest + 1, entries)
    seconds = [slots * SLOT_S] * count
    seconds[-1] = (int(series.times.slot) % slots + 1) * SLOT_S
    return seconds


def _rates(series: Series, columns: list[int], tier: int, seconds: list[float]) -> list[float]:
    sums = series.values(columns[0], tier)
    for at in columns[1:]:
        sums = [one + more for one, more in zip(sums, series.values(at, tier), strict=True)]
    return [round(value / each, 3) for value, each in zip(sums, seconds, strict=True)]
