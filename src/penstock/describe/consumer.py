"""Consumers, browsers included: everything that is said of one."""

from __future__ import annotations

from typing import Final

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.rotation import single_active, waits_behind
from penstock.describe.connection import channel_details
from penstock.describe.table import Field, Reading, Row, Table, or_none, plain
from penstock.flow.credit import UNBOUNDED, LinkCredit
from penstock.flow.timers import NEVER

CONSUMERS_DETAILED: Final = 1000
"""Most consumers in the answer about one queue or channel; `/api/consumers` lists all."""


def adaptive_window(consumer: Consumer) -> Row | None:
    """Return a consumer's adaptive window with what it follows from; None without one."""
    window = consumer.adaptive_window
    if window is None:
        return None
    adaptive = window.adaptive
    return {
        "messages": int(adaptive.window),
        "min": int(adaptive.least),
        "max": or_none(adaptive.most),
        "rate": round(adaptive.rate, 3) or None,
        "time_ms": round(adaptive.time_s * 1000, 3) or None,
        "batch": int(adaptive.batch),
    }


def obstacles(consumer: Consumer, now: float) -> list[str]:
    """Return why a consumer gets no messages: its own obstacles, or an empty queue."""
    found = consumer.obstacles(now)
    queue = consumer.queue
    behind = waits_behind(consumer)
    if behind:
        found.append(behind)
    if queue.depth_messages() == 0:
        found.append("the queue is empty")
    elif queue.returning is not None:
        found.append("messages are on their way back to the queue")
    elif queue.reserved.arrival() is not None:
        found.append("a batch is being published to the queue as a whole, and nothing is delivered before its end")
    elif queue.available() == 0 and queue.waiting() > 0:
        found.append("the next messages of the queue are being read from the disk")
    elif queue.available() == 0:
        found.append("every message of the queue is with a consumer, unacknowledged")
    return found


def _is_single(consumer: Consumer) -> bool:
    return consumer.queue.features.single_active and not consumer.browses()


def _is_active(consumer: Consumer) -> bool:
    return not _is_single(consumer) or single_active(consumer.queue) is consumer


def _status(consumer: Consumer, at: Reading) -> object:
    if not _is_single(consumer):
        return "up"
    return "single_active" if _is_active(consumer) else "waiting"


def _timeout_ms(consumer: Consumer, at: Reading) -> object:
    timeout_s = consumer.queue.settings.consumer_timeout_s
    return None if timeout_s == NEVER else round(timeout_s * 1000)


def _link_credit(consumer: Consumer, at: Reading) -> object:
    return int(consumer.credit.granted) if isinstance(consumer.credit, LinkCredit) else None


def _window_bytes(consumer: Consumer, at: Reading) -> object:
    return None if consumer.credit.window_bytes == UNBOUNDED else int(consumer.credit.window_bytes)


CONSUMER: Final[Table[Consumer]] = Table(
    Field("consumer_tag", lambda consumer, at: consumer.tag),
    Field("queue", lambda consumer, at: {"name": consumer.queue.name, "vhost": consumer.queue.vhost}),
    Field("channel_details", lambda consumer, at: channel_details(consumer.session, at.node)),
    Field("ack_required", lambda consumer, at: not consumer.no_ack),
    Field("exclusive", lambda consumer, at: consumer.exclusive),
    Field("prefetch_count", lambda consumer, at: int(consumer.prefetch), "messages"),
    Field("active", lambda consumer, at: _is_active(consumer)),
    Field("activity_status", _status),
    Field("consumer_timeout", _timeout_ms),
    Field("arguments", lambda consumer, at: plain(consumer.arguments)),
    Field("penstock.browses", lambda consumer, at: consumer.browses()),
    Field("penstock.unacknowledged", lambda consumer, at: int(consumer.credit.out), "messages"),
    Field("penstock.link_credit", _link_credit),
    Field("penstock.adaptive_window", lambda consumer, at: adaptive_window(consumer)),
    Field("penstock.window_bytes", _window_bytes),
    Field("penstock.max_rate", lambda consumer, at: (
        None if consumer.rate_limiter is None else consumer.rate_limiter.rate)),
    Field("penstock.delivered", lambda consumer, at: int(consumer.delivered), "messages"),
    Field("penstock.obstacles", lambda consumer, at: obstacles(consumer, at.now)),
)  # fmt: skip


def consumer_row(consumer: Consumer, now: float) -> Row:
    """Return what `why` says of a consumer, with the reasons why it gets no messages."""
    return {
        "consumer": consumer.tag,
        "channel": consumer.session.name,
        "queue": consumer.queue.name,
        "prefetch": int(consumer.prefetch) or None,
        **CONSUMER.own(consumer, Reading(now)),
    }
