"""Sort keys of queues by one column, without the whole object in plain data: lists of thousands are sorted often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.core.queue.queue import Queue
from penstock.management.message_stats import DELIVERIES, QUEUE_KEYS
from penstock.management.views import fill_percent

Key = tuple[int, str | float]
"""Key of a value: missing ones first, then numbers, then texts."""
MISSING: Final[Key] = (0, "")


def _vhost(queue: Queue) -> Key:
    return 2, queue.vhost


def _messages(queue: Queue) -> Key:
    return 1, float(queue.depth_messages())


def _ready(queue: Queue) -> Key:
    return 1, float(queue.depth_messages() - queue.unacked_messages)


def _unacknowledged(queue: Queue) -> Key:
    return 1, float(queue.unacked_messages)


def _consumers(queue: Queue) -> Key:
    return 1, float(len(queue.consumers))


def _fill(queue: Queue) -> Key:
    found = fill_percent(queue)
    return MISSING if found is None else (1, found)


def _blocked(queue: Queue) -> Key:
    return 1, float(len(queue.gate.blocked))


def _published(queue: Queue) -> Key:
    series = queue.counters.series
    return MISSING if series is None else (1, series.rate(0))


def _delivered(queue: Queue) -> Key:
    series = queue.counters.series
    return MISSING if series is None else (1, sum([series.rate(QUEUE_KEYS.index(key)) for key in DELIVERIES], 0.0))


QUEUE_ORDERS: Final[dict[str, Callable[[Queue], Key]]] = {
    "vhost": _vhost,
    "messages": _messages,
    "messages_ready": _ready,
    "messages_unacknowledged": _unacknowledged,
    "consumers": _consumers,
    "penstock.fill_percent": _fill,
    "penstock.gate.blocked": _blocked,
    "message_stats.publish_details.rate": _published,
    "message_stats.deliver_get_details.rate": _delivered,
}
"""Functions that return the key of a queue, by the name of the column."""
