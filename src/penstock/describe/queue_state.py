"""State of a queue for people: its group, some words, who holds it, and when its gate closes at the present rate.

| group | queues |
|---|---|
| blocked | a gate of their road is closed, or producers wait at one |
| unread | ready messages that no consumer takes: there is none, or nothing was taken for a minute |
| moving | messages came or went in the last pass of the sampler |
| quiet | all others |

A stream keeps its messages without consumers, and a cursor reads when its query asks: neither is unread. Besides, a
queue has dead letters if its next message is one, and its own rejected messages go nowhere else: the road of letters
ends there.

A forecast needs a steady rate: the changes of the depth in the last minute differ from their mean by less than a third
of it (standard deviation).
"""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from typing import Final

from penstock.core.broker import Broker
from penstock.core.queue.queue import Queue
from penstock.describe.gate import text_of
from penstock.describe.message_stats import (
    LOSS_KEYS,
    QUEUE_COUNTERS,
    QUEUE_KEYS,
    QUEUE_LEVELS,
    deliver_rate,
    publish_rate,
)
from penstock.describe.road import Road, road_of
from penstock.describe.table import Reading, Row
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED
from penstock.flow.series import FINE, MINUTE, SLOT_S, Series
from penstock.texts import brief_age, held_words

GROUPS: Final[tuple[str, ...]] = ("blocked", "unread", "moving", "quiet")
"""Groups of queues, the most urgent first."""
BLOCKED: Final = 0
UNREAD: Final = 1
MOVING: Final = 2
QUIET: Final = 3
DEAD: Final = "dead"
"""Choice of queues with dead letters, of any group."""
CHOICES: Final[tuple[str, ...]] = (*GROUPS, DEAD)
"""Choices of a list of queues."""
UNTAKEN_S: Final = 60.0
"""Age of a ready message from which on consumers that got nothing lately count as taking nothing."""
FORECAST_S: Final = 600.0
"""A gate that closes later has no forecast in words."""
DROP: Final[int] = len(QUEUE_KEYS) + LOSS_KEYS.index("drop")
REFUSE: Final[int] = len(QUEUE_KEYS) + LOSS_KEYS.index("refuse")
MESSAGES: Final[int] = QUEUE_COUNTERS + QUEUE_LEVELS.index("messages")
BYTES: Final[int] = QUEUE_COUNTERS + QUEUE_LEVELS.index("bytes")
"""Columns of a queue's series."""
STOP: Final = "stop"
WARN: Final = "warn"
NORMAL: Final = ""
"""Tones: producers wait, it will hurt, or neither."""


def group_of(queue: Queue, broker: Broker) -> int:
    """Return the group of a queue, as an index of `GROUPS`."""
    return group_on(queue, road_of(queue, broker), broker.now)


def group_on(queue: Queue, road: Road, now: float) -> int:
    """Return the group of a queue whose road is known."""
    if road.closed or road.blocked:
        return BLOCKED
    delivered = deliver_rate(queue)
    if delivered == 0.0 and is_unread(queue, now):
        return UNREAD
    return MOVING if delivered > 0.0 or publish_rate(queue) > 0.0 else QUIET


def is_unread(queue: Queue, now: float) -> bool:
    """Return whether a queue without deliveries has ready messages that no consumer takes."""
    if queue.waiting() == 0 or queue.cursors or queue.features.type.retains:
        return False
    return not queue.consumers or queue.oldest_age_s(now) >= UNTAKEN_S


def has_dead_letters(queue: Queue) -> bool:
    """Return whether dead letters have come to their end here: the next message is one, and the queue has no
    dead-letter exchange.
    """
    if queue.cursors or queue.settings.dead_letter_exchange is not None:
        return False
    message = queue.ready_queue.next()
    return message is not None and message.envelope.died


def state_row(queue: Queue, at: Reading) -> Row:
    """Return the state of a queue for a row of lists."""
    broker, now = at.broker, at.now
    road = road_of(queue, broker)
    group = group_on(queue, road, now)
    soon = closes_in_s(queue) if group != BLOCKED else None
    text, tone = _words(queue, road, group, soon, now)
    return {
        "group": GROUPS[group],
        "rank": group,
        "text": text,
        "tone": tone,
        "held": _held(road.closed[0], road, broker) if road.closed else None,
        "closes_in_s": None if soon is None else round(soon, 1),
        "dead_letters": has_dead_letters(queue),
    }


def _words(queue: Queue, road: Road, group: int, soon: float | None, now: float) -> tuple[str, str]:
    """Return the words of a state, and their tone."""
    if group == BLOCKED:
        waiting = f"{road.blocked:,} waiting" if road.blocked else ""
        since, held_by = road.since(), road.held_by()
        if held_by is None:
            return waiting, STOP
        held = held_words(held_by)
        closed = held if since is None else f"{held} {brief_age(now - since)}"
        return (f"{closed} · {waiting}" if waiting else closed), STOP
    if group == UNREAD:
        return ("consumers take nothing" if queue.consumers else "no consumer"), WARN
    series = queue.counters.series
    if series is not None:
        for column, verb in ((DROP, "drops"), (REFUSE, "refuses")):
            rate = series.rate(column)
            if rate > 0.0:
                return f"{verb} {rate:,.1f} /s", WARN
    if soon is not None and soon < FORECAST_S:
        return f"closes in {brief_age(soon)}", NORMAL
    return "open", NORMAL


def _held(gate: Gate, road: Road, broker: Broker) -> Row:
    """Return who holds a queue: the first closed gate of its road, since when and why."""
    since, words = gate.stats.since, text_of(gate)
    by_operator = gate.kind == "operator"
    scope, _, name = gate.name.partition(" ") if by_operator else ("", "", gate.name)
    return {
        "by": road.held_by(),
        "scope": scope or None,
        "name": name,
        "vhost": words.vhost(gate),
        "reason": words.cause(gate, broker.now) if by_operator else words.reason(gate, broker.now),
        "since": None if since is None else round((since + broker.wall_offset) * 1000),
        "for_s": None if since is None else round(broker.now - since, 1),
    }


def closes_in_s(queue: Queue) -> float | None:
    """Return the seconds until the gate of a queue closes at its steady rate; None for no steady rate, or no stop.

    Queues that page to the disk have none: what fills them leaves their memory.
    """
    series = queue.counters.series
    if series is None or not queue.gate.open or queue.pager is not None:
        return None
    stop = queue.thresholds.stop
    soonest: float | None = None
    for column, limit, depth in (
        (MESSAGES, stop.messages, queue.messages),
        (BYTES, stop.bytes, stop.counted(queue.messages, queue.bytes)),
    ):
        if limit == UNLIMITED or limit < depth:
            continue
        rate = steady_rate(series, column)
        if rate is not None:
            seconds = float(limit - depth) / rate
            soonest = seconds if soonest is None or seconds < soonest else soonest
    return soonest


def steady_rate(series: Series, column: int) -> float | None:
    """Return the rate at which a level has risen for the last minute, by the second; None unless it is steady."""
    if not series.rate(column) > 0.0:
        return None
    values = series.values(column, FINE)[-MINUTE - 1 :]
    return None if len(values) <= MINUTE else steady(values)


def steady(values: list[int]) -> float | None:
    """Return the rate of levels that are a slot apart, by the second; None unless it is steady, and above zero."""
    rises = [float(after - before) for before, after in pairwise(values)]
    mean = sum(rises) / len(rises)
    if mean <= 0.0:
        return None
    deviation = sqrt(sum([(rise - mean) ** 2 for rise in rises]) / len(rises))
    return mean / SLOT_S if deviation < mean / 3 else None
