"""`message_stats` in RabbitMQ's form: counts, their rates, and samples if requested.

Counts are exact at present; rates and samples are from the last pass of the sampler (stats_sampler.py).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mypy_extensions import i64

from penstock.core.consume.session import Session
from penstock.core.publish.connection_gates import ConnectionGates, add_counts
from penstock.core.publish.session_counts import consumed, tally_of
from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import ExchangeCounters
from penstock.describe.gate import closed_s
from penstock.describe.listed import listed_messages, listed_unacknowledged
from penstock.flow.series import FINE, SLOT_S, TALLY_KEYS, TIERS, Series, Tally

Row = dict[str, object]

QUEUE_KEYS: Final = ("publish", "deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "ack", "redeliver")
LOSS_KEYS: Final = ("dead_letter", "drop", "expire", "refuse")
QUEUE_LEVELS: Final = ("messages", "messages_unacknowledged", "bytes")
"""Columns of a queue: RabbitMQ's counters, Penstock's with the milliseconds that the gate was closed, and levels."""
CLOSED_MS: Final = 12
"""Column of the closed milliseconds."""
QUEUE_COUNTERS: Final = 13
SUM_CLOSED_MS: Final = 11
SUM_COUNTERS: Final = 12
"""The same for a virtual host and the node, after `TALLY_KEYS`."""
EXCHANGE_KEYS: Final = ("publish_in", "publish_out")
UNROUTABLE_KEYS: Final = ("return_unroutable", "drop_unroutable")
"""Columns of an exchange: RabbitMQ's, and Penstock's."""
DELIVERIES: Final = ("deliver", "deliver_no_ack", "get", "get_no_ack")
"""The parts of `deliver_get`."""
DELIVERED: Final = tuple([QUEUE_KEYS.index(key) for key in DELIVERIES])
ACKNOWLEDGED: Final[int] = QUEUE_KEYS.index("ack")
"""Columns of a queue: the parts of acknowledgements, and the first column after them."""
SAMPLES_MOST: Final = 500
"""Most samples of a key in an answer; the increment is raised."""


class SampleRange(NamedTuple):
    """Requested samples: their age and increment, in seconds."""

    age_s: int
    increment_s: int


class SampleRanges(NamedTuple):
    """Requested samples of rates and of lengths; None for none."""

    rates: SampleRange | None
    lengths: SampleRange | None
    wall_offset: float
    """Seconds from the monotonic clock to the time since 1970."""


class Depths:
    """Sums over queues."""

    __slots__ = ("queues", "closed", "messages", "unacknowledged", "delayed", "bytes")

    def __init__(self) -> None:
        self.queues: i64 = 0
        self.closed: i64 = 0
        """Queues whose gate is closed."""
        self.messages: i64 = 0
        self.unacknowledged: i64 = 0
        self.delayed: i64 = 0
        self.bytes: i64 = 0

    def add(self, queue: Queue) -> None:
        """Add a queue."""
        self.queues += 1
        if not queue.gate.open:
            self.closed += 1
        self.messages += listed_messages(queue)
        self.unacknowledged += queue.unacked_messages
        self.delayed += queue.delayed_messages
        self.bytes += queue.depth_bytes()

    def join(self, other: Depths) -> None:
        """Add the sums over other queues."""
        self.queues += other.queues
        self.closed += other.closed
        self.messages += other.messages
        self.unacknowledged += other.unacknowledged
        self.delayed += other.delayed
        self.bytes += other.bytes

    def row(self) -> Row:
        """Return the messages under RabbitMQ's names."""
        return {
            "messages": int(self.messages),
            "messages_ready": int(self.messages - self.unacknowledged - self.delayed),
            "messages_unacknowledged": int(self.unacknowledged),
        }


# Present counts


def queue_counts(queue: Queue, now: float) -> list[int]:
    """Return the columns of a queue."""
    counters = queue.counters
    return [
        int(counters.published(queue)),
        int(counters.delivered_to_ack()),
        int(counters.delivered_no_ack - counters.gets_no_ack),
        int(counters.gets),
        int(counters.gets_no_ack),
        int(counters.gets_empty),
        int(counters.acknowledged(queue)),
        int(counters.redelivered),
        int(counters.rare.dead_lettered),
        int(counters.dropped),
        int(counters.expired),
        int(counters.refused),
        int(closed_s(queue.gate, now) * 1000),
        listed_messages(queue) - int(queue.delayed_messages),
        listed_unacknowledged(queue),
        int(queue.depth_bytes()),
    ]


def exchange_counts(counters: ExchangeCounters) -> list[int]:
    """Return the columns of an exchange."""
    return [int(counters.published), int(counters.routed()), int(counters.returned), int(counters.dropped)]


def connection_tally(origin: ConnectionGates, sessions: list[Session]) -> Tally:
    """Return the counts of a connection, including its ended sessions and publishers."""
    tally = Tally()
    tally.add(origin.counts)
    for producer in origin.producers:
        add_counts(producer, tally)
    for session in sessions:
        tally.add(consumed(session))
    return tally


# In RabbitMQ's form


def queue_stats(queue: Queue, now: float, ranges: SampleRanges | None) -> Row | None:
    """Return the `message_stats` of a queue; None before its first message."""
    counts = queue_counts(queue, now)
    return _stats(QUEUE_KEYS, counts, queue.counters.series, ranges) if any(counts[: len(QUEUE_KEYS)]) else None


def publish_rate(queue: Queue) -> float:
    """Return the messages that arrive in a queue a second."""
    series = queue.counters.series
    return 0.0 if series is None else series.rate(0)


def deliver_rate(queue: Queue) -> float:
    """Return the messages that a queue delivers a second."""
    series = queue.counters.series
    return 0.0 if series is None else sum([series.rate(column) for column in DELIVERED], 0.0)


def queue_rates(queue: Queue) -> Row:
    """Return the rates of a queue by the second, for display; rates of losses have no names in RabbitMQ."""
    series = queue.counters.series
    row: Row = {"publish": round(publish_rate(queue), 3), "deliver_get": round(deliver_rate(queue), 3)}
    for at, key in enumerate((*QUEUE_KEYS, *LOSS_KEYS)):
        if at >= ACKNOWLEDGED:
            row[key] = 0.0 if series is None else round(series.rate(at), 3)
    return row


def length_details(series: Series, first: int, ranges: SampleRanges | None) -> Row:
    """Return the details of a queue's lengths; `first` is their first column."""
    wanted, offset = (None, 0.0) if ranges is None else (ranges.lengths, ranges.wall_offset)
    unacked = first + 1
    return {
        "messages_details": _details(series, [first], [], wanted, offset),
        "messages_ready_details": _details(series, [first], [unacked], wanted, offset),
        "messages_unacknowledged_details": _details(series, [unacked], [], wanted, offset),
    }


def exchange_stats(counters: ExchangeCounters, ranges: SampleRanges | None) -> Row | None:
    """Return the `message_stats` of an exchange; None before its first message."""
    if counters.published == 0:
        return None
    return _stats(EXCHANGE_KEYS, exchange_counts(counters), counters.series, ranges)


def exchange_losses(counters: ExchangeCounters) -> Row:
    """Return the messages of an exchange that reached no queue, with rates: RabbitMQ counts these only by channel."""
    counts, series = exchange_counts(counters), counters.series
    row: Row = {}
    for at, key in enumerate(UNROUTABLE_KEYS, len(EXCHANGE_KEYS)):
        row[key] = counts[at]
        row[f"{key}_details"] = _details(series, [at], [], None, 0.0)
    return row


def session_stats(session: Session, ranges: SampleRanges | None) -> Row | None:
    """Return the `message_stats` of a session; None before its first message."""
    return tally_stats(tally_of(session), session.series, ranges)


def tally_stats(tally: Tally, series: Series | None, ranges: SampleRanges | None) -> Row | None:
    """Return a tally as `message_stats`; None if nothing was counted."""
    counts = tally.values()
    return _stats(TALLY_KEYS, counts, series, ranges) if any(counts) else None


def _stats(keys: tuple[str, ...], counts: list[int], series: Series | None, ranges: SampleRanges | None) -> Row:
    wanted, offset = (None, 0.0) if ranges is None else (ranges.rates, ranges.wall_offset)
    row: Row = {}
    for at, key in enumerate(keys):
        row[key] = counts[at]
        row[f"{key}_details"] = _details(series, [at], [], wanted, offset)
    if DELIVERIES[0] in keys:
        columns = [keys.index(key) for key in DELIVERIES]
        row["deliver_get"] = sum([counts[at] for at in columns])
        row["deliver_get_details"] = _details(series, columns, [], wanted, offset)
    return row


def _details(
    series: Series | None, columns: list[int], without: list[int], wanted: SampleRange | None, wall_offset: float
) -> Row:
    """Return the rate of a sum of columns minus others, with samples if requested."""
    if series is None:
        return {"rate": 0.0}
    rate = sum([series.rate(at) for at in columns], 0.0) - sum([series.rate(at) for at in without], 0.0)
    row: Row = {"rate": round(rate, 3)}
    if wanted is None:
        return row
    samples = _samples(series, columns, without, wanted, wall_offset)
    row["samples"] = samples
    values = [each["sample"] for each in samples]
    seconds = (samples[0]["timestamp"] - samples[-1]["timestamp"]) / 1000
    row["avg_rate"] = round((values[0] - values[-1]) / seconds, 3) if seconds > 0 else 0.0
    row["avg"] = round(sum(values) / len(values), 3)
    return row


def _samples(
    series: Series, columns: list[int], without: list[int], wanted: SampleRange, wall_offset: float
) -> list[dict[str, int]]:
    """Return samples, the newest first, as in RabbitMQ: values of counters, or lengths, and milliseconds since 1970."""
    tier = FINE
    while tier < len(TIERS) - 1 and wanted.age_s > TIERS[tier][0] * TIERS[tier][1] * SLOT_S:
        tier += 1
    slots = TIERS[tier][0]
    ends = _ends(series, columns[0], tier)
    for at in columns[1:]:
        ends = [one + more for one, more in zip(ends, _ends(series, at, tier), strict=True)]
    for at in without:
        ends = [one - less for one, less in zip(ends, _ends(series, at, tier), strict=True)]
    step = max(round(wanted.increment_s / (slots * SLOT_S)), 1, -(-len(ends) // SAMPLES_MOST))
    times = series.times
    newest = int(times.slot) // slots
    samples: list[dict[str, int]] = []
    age = 0
    while age < len(ends) and age * slots * SLOT_S <= wanted.age_s:
        # An entry ends with its last slot; slots are numbered from 1, so entry k has the slots before (k + 1) * slots.
        end = times.end_of((newest - age + 1) * slots - 1)
        samples.append({"sample": ends[len(ends) - 1 - age], "timestamp": round((end + wall_offset) * 1000)})
        age += step
    return samples


def _ends(series: Series, at: int, tier: int) -> list[int]:
    """Return the values of a column at the ends of a tier's entries, the newest last."""
    values = series.values(at, tier)
    if series.is_level(at):
        return values
    total = series.totals[at]
    for index in range(len(values) - 1, -1, -1):
        values[index], total = total, total - values[index]
    return values
