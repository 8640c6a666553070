"""Families of metrics about queues: each a value of one queue. RabbitMQ's names where it has one, ours beside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.core.queue.queue import Queue
from penstock.flow.level import UNLIMITED, Level
from penstock.management import views
from penstock.management.metrics.exposition import COUNTER, GAUGE, Family

Value = Callable[[Queue, float], object]
"""Value of a queue at a time (monotonic seconds); None writes no sample."""

COARSE: Final = "queue_coarse_metrics"
CONSUMERS: Final = "queue_consumer_count"
DETAILS: Final = "queue_metrics"
PUBLISHED: Final = "channel_queue_exchange_metrics"
"""RabbitMQ's groups of `/metrics/detailed?family=`."""
DEPTHS: Final = "penstock_queue_metrics"
GATES: Final = "penstock_queue_gate_metrics"
LOSSES: Final = "penstock_queue_loss_metrics"
"""Our own groups."""


class QueueFamily(Family):
    """Family with a sample for each queue."""

    def __init__(self, group: str, name: str, kind: str, value: Value, help: str) -> None:
        super().__init__(name, kind, help)
        self.group = group
        self.value = value


def _or_infinity(amount: int) -> object:
    return float("inf") if amount >= UNLIMITED else amount


def _messages(level: Level) -> object:
    return _or_infinity(int(level.messages))


def _bytes(level: Level) -> object:
    return _or_infinity(int(level.bytes))


def _counted_bytes(queue: Queue) -> int:
    return int(queue.thresholds.capacity.counted(queue.messages, queue.bytes))


def _paged_messages(queue: Queue, now: float) -> object:
    return 0 if queue.pager is None else int(queue.pager.messages)


def _paged_bytes(queue: Queue, now: float) -> object:
    return 0 if queue.pager is None else int(queue.pager.bytes)


def _fill(queue: Queue, now: float) -> object:
    """Return the depth in memory as a part of the capacity in messages or bytes, the higher one; None without any."""
    capacity = queue.thresholds.capacity
    found = -1.0
    if capacity.messages < UNLIMITED and capacity.messages > 0:
        found = float(queue.messages) / float(capacity.messages)
    if capacity.bytes < UNLIMITED and capacity.bytes > 0:
        found = max(found, float(_counted_bytes(queue)) / float(capacity.bytes))
    return None if found < 0 else found


def _closed_s(queue: Queue, now: float) -> object:
    stats = queue.gate.stats
    return stats.closed_s + (0.0 if stats.since is None else now - stats.since)


RABBITMQ: Final[tuple[QueueFamily, ...]] = (
    QueueFamily(
        COARSE, "rabbitmq_queue_messages_ready", GAUGE,
        lambda queue, now: int(queue.depth_messages() - queue.unacked_messages),
        "Messages ready to be delivered to consumers",
    ),
    QueueFamily(
        COARSE, "rabbitmq_queue_messages_unacked", GAUGE, lambda queue, now: int(queue.unacked_messages),
        "Messages delivered to consumers but not yet acknowledged",
    ),
    QueueFamily(
        COARSE, "rabbitmq_queue_messages", GAUGE, lambda queue, now: int(queue.depth_messages()),
        "Sum of ready and unacknowledged messages - total queue depth",
    ),
    QueueFamily(
        CONSUMERS, "rabbitmq_queue_consumers", GAUGE, lambda queue, now: len(queue.consumers), "Consumers on a queue",
    ),
    QueueFamily(
        DETAILS, "rabbitmq_queue_messages_ram", GAUGE, lambda queue, now: int(queue.messages),
        "Ready and unacknowledged messages stored in memory",
    ),
    QueueFamily(
        DETAILS, "rabbitmq_queue_messages_paged_out", GAUGE, _paged_messages, "Messages paged out to disk",
    ),
)  # fmt: skip
"""RabbitMQ's families. `/metrics` has the sums over all queues.

Its families in bytes count bodies, which we do not: our charges are in `penstock_queue_depth_bytes` and the like.
"""

OURS: Final[tuple[QueueFamily, ...]] = (
    QueueFamily(
        PUBLISHED, "rabbitmq_queue_messages_published_total", COUNTER,
        lambda queue, now: int(queue.counters.published(queue)), "Total number of messages published to queues",
    ),
    QueueFamily(
        DEPTHS, "penstock_queue_depth_messages", GAUGE, lambda queue, now: int(queue.messages),
        "Messages that count towards the capacity: ready and unacknowledged, without those on the disk only",
    ),
    QueueFamily(
        DEPTHS, "penstock_queue_depth_bytes", GAUGE, lambda queue, now: _counted_bytes(queue),
        "Bytes (charges) that count towards the capacity",
    ),
    QueueFamily(
        DEPTHS, "penstock_queue_unacknowledged_bytes", GAUGE, lambda queue, now: views.unacknowledged_bytes(queue),
        "Bytes (charges) of deliveries that are not acknowledged",
    ),
    QueueFamily(
        DEPTHS, "penstock_queue_capacity_messages", GAUGE, lambda queue, now: _messages(queue.thresholds.capacity),
        "Depth in messages that is never passed; +Inf without a limit",
    ),
    QueueFamily(
        DEPTHS, "penstock_queue_capacity_bytes", GAUGE, lambda queue, now: _bytes(queue.thresholds.capacity),
        "Depth in bytes (charges) that is never passed; +Inf without a limit",
    ),
    QueueFamily(
        DEPTHS, "penstock_queue_stop_messages", GAUGE, lambda queue, now: _messages(queue.thresholds.stop),
        "Depth in messages above which the gate closes; +Inf without a limit",
    ),
    QueueFamily(
        DEPTHS, "penstock_queue_stop_bytes", GAUGE, lambda queue, now: _bytes(queue.thresholds.stop),
        "Depth in bytes (charges) above which the gate closes; +Inf without a limit",
    ),
    QueueFamily(
        DEPTHS, "penstock_queue_resume_messages", GAUGE, lambda queue, now: _messages(queue.thresholds.resume),
        "Depth in messages at which the gate opens again; +Inf without a limit",
    ),
    QueueFamily(
        DEPTHS, "penstock_queue_resume_bytes", GAUGE, lambda queue, now: _bytes(queue.thresholds.resume),
        "Depth in bytes (charges) at which the gate opens again; +Inf without a limit",
    ),
    QueueFamily(
        DEPTHS, "penstock_queue_fill_ratio", GAUGE, _fill,
        "Depth as a part of the capacity, in messages or bytes, the higher one; no sample without a capacity",
    ),
    QueueFamily(
        DEPTHS, "penstock_queue_paged_bytes", GAUGE, _paged_bytes, "Bytes (charges) of messages on the disk only",
    ),
    QueueFamily(
        GATES, "penstock_queue_gate_open", GAUGE, lambda queue, now: queue.gate.open,
        "Whether the gate of the queue is open (1), or its publishers wait (0)",
    ),
    QueueFamily(
        GATES, "penstock_queue_gate_crossings_total", COUNTER, lambda queue, now: queue.gate.stats.transitions,
        "Times that the gate closed",
    ),
    QueueFamily(
        GATES, "penstock_queue_gate_closed_seconds_total", COUNTER, _closed_s,
        "Seconds that the gate was closed; its rate is the duty cycle of blocking",
    ),
    QueueFamily(
        GATES, "penstock_queue_blocked_producers", GAUGE, lambda queue, now: queue.gate.stats.sums(now).blocked,
        "Producers that the gate blocks now",
    ),
    QueueFamily(
        GATES, "penstock_queue_producers_blocked_seconds_total", COUNTER,
        lambda queue, now: queue.gate.stats.sums(now).blocked_s,
        "Seconds that producers were blocked by the gate, the sum over all of them",
    ),
    QueueFamily(
        GATES, "penstock_queue_waiting_producers", GAUGE, lambda queue, now: queue.gate.in_line(),
        "Producers in the line of the gate: they hold a publish, or wait for credit",
    ),
    QueueFamily(
        GATES, "penstock_queue_confirms_withheld_total", COUNTER,
        lambda queue, now: queue.gate.stats.sums(now).withheld,
        "Messages that were accepted while the gate was closed, and confirmed later",
    ),
    QueueFamily(
        GATES, "penstock_queue_publishes_held_total", COUNTER, lambda queue, now: queue.gate.stats.sums(now).held,
        "Publishes that were held before the gate",
    ),
    QueueFamily(
        GATES, "penstock_queue_publishes_refused_total", COUNTER,
        lambda queue, now: queue.gate.stats.sums(now).refused,
        "Publishes that were refused at the gate: their hold deadline passed, or there was no room to hold them",
    ),
    QueueFamily(
        LOSSES, "penstock_queue_dropped_messages_total", COUNTER, lambda queue, now: int(queue.counters.dropped),
        "Messages that the overflow policy dropped",
    ),
    QueueFamily(
        LOSSES, "penstock_queue_refused_messages_total", COUNTER, lambda queue, now: int(queue.counters.refused),
        "Messages that the overflow policy refused",
    ),
    QueueFamily(
        LOSSES, "penstock_queue_expired_messages_total", COUNTER, lambda queue, now: int(queue.counters.expired),
        "Messages that expired",
    ),
    QueueFamily(
        LOSSES, "penstock_queue_dead_lettered_messages_total", COUNTER,
        lambda queue, now: int(queue.counters.rare.dead_lettered),
        "Messages that became dead letters elsewhere",
    ),
    QueueFamily(
        LOSSES, "penstock_queue_lost_dead_letters_total", COUNTER,
        lambda queue, now: int(queue.counters.rare.dead_letters_lost),
        "Dead letters that went nowhere",
    ),
)  # fmt: skip
"""Families for single queues only, nearly all of them ours."""

FAMILIES: Final[tuple[QueueFamily, ...]] = RABBITMQ + OURS
