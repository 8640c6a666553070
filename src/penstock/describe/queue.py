"""Descriptions of queues and their cursors: the table of all fields. Penstock's own fields are in `penstock`."""

from __future__ import annotations

from typing import Final

from penstock.connections.connection import Connection
from penstock.content.properties import PROPERTY_NAMES
from penstock.core.broker import Broker
from penstock.core.consume.rotation import browsers_of, consumers_of, has_exclusive, single_active
from penstock.core.message_format import NO_NUMBER, UnreadableContent
from penstock.core.publish.dead_letters import publisher_of
from penstock.core.queue.cursor_state import CursorState, Lag, Position, holds_back, lag_of
from penstock.core.queue.delays import delays_of
from penstock.core.queue.queue import Queue
from penstock.describe.gate import closed_s, gate_state
from penstock.describe.listed import listed_bytes, listed_messages, listed_ready, listed_unacknowledged
from penstock.describe.message_stats import (
    QUEUE_COUNTERS,
    QUEUE_LEVELS,
    deliver_rate,
    length_details,
    publish_rate,
    queue_rates,
    queue_stats,
)
from penstock.describe.queue_state import group_of, state_row
from penstock.describe.retention import retention_number, retention_row
from penstock.describe.road import road_of, road_row
from penstock.describe.session import CONSUMER, CONSUMERS_DETAILED, connection_details
from penstock.describe.stream import stream_number, stream_row
from penstock.describe.table import (
    ABSENT,
    DescribedNode,
    Field,
    LabelledValue,
    Reading,
    Row,
    Table,
    amounts,
    metric,
    or_infinity,
    or_none,
    plain,
    reading,
)
from penstock.describe.vhost import policies_of
from penstock.flow.level import UNLIMITED
from penstock.flow.series import Series
from penstock.flow.timers import NEVER

COARSE: Final = "queue_coarse_metrics"
CONSUMERS: Final = "queue_consumer_count"
DETAILS: Final = "queue_metrics"
PUBLISHED: Final = "channel_queue_exchange_metrics"
DELIVERIES: Final = "queue_delivery_metrics"
"""RabbitMQ's groups of `/metrics/detailed?family=`."""
DEPTHS: Final = "penstock_queue_metrics"
GATES: Final = "penstock_queue_gate_metrics"
LOSSES: Final = "penstock_queue_loss_metrics"
"""Penstock's own groups."""
TIMESTAMP: Final = PROPERTY_NAMES.index("timestamp")


def unacknowledged_bytes(queue: Queue) -> int:
    """Return the bytes of unacknowledged messages as the limits of the queue count them."""
    return int(queue.thresholds.capacity.counted(queue.unacked_messages, queue.unacked_bytes))


def counted_bytes(queue: Queue) -> int:
    """Return the bytes that count towards the capacity: of messages in memory."""
    return int(queue.thresholds.capacity.counted(queue.messages, queue.bytes))


def fill(queue: Queue, whole: float) -> float | None:
    """Return the depth in memory as a part of the capacity in messages or bytes, the higher of the two; None without
    any.

    The part is scaled by `whole`, such as 100 for a percentage. Messages on disk do not count, because the capacity
    limits memory.
    """
    capacity = queue.thresholds.capacity
    ratio = -1.0
    if capacity.messages != UNLIMITED and capacity.messages > 0:
        ratio = whole * float(queue.messages) / float(capacity.messages)
    if capacity.bytes != UNLIMITED and capacity.bytes > 0:
        ratio = max(ratio, whole * float(counted_bytes(queue)) / float(capacity.bytes))
    return None if ratio < 0 else ratio


def fill_percent(queue: Queue) -> float | None:
    """Return the fill of a queue in percent; None without a capacity."""
    percent = fill(queue, 100.0)
    return None if percent is None else round(percent, 1)


def limit_percent(queue: Queue) -> float | None:
    """Return the percentage of the nearest limit, the capacity or the maximum length; None without a limit."""
    percent, length = fill_percent(queue), queue.length
    if length is None:
        return percent
    ratio = -1.0 if percent is None else percent
    for used, limit in ((length.ready(), length.most.messages), (length.bodies, length.most.bytes)):
        if limit != UNLIMITED:
            ratio = max(ratio, 100.0 * float(used) / float(limit) if limit > 0 else 100.0)
    return round(ratio, 1)


def oldest_s(queue: Queue, now: float) -> float | None:
    """Return the age of the oldest ready message in seconds; None without one."""
    age = queue.oldest_age_s(now)
    return None if age < 0 else round(age, 3)


def _head_timestamp(queue: Queue, at: Reading) -> object:
    """Return the property `timestamp` of the next message, as RabbitMQ does; None without one."""
    message = queue.ready_queue.next()
    if message is None:
        return None
    message_format = at.broker.formats.find(message.content)
    try:
        if message_format.reads_in_place(message.content):
            found = message_format.number_property(message.content, TIMESTAMP)
            return None if found == NO_NUMBER else int(found)
        return message_format.properties(message.content).timestamp
    except UnreadableContent:
        return None


def _length(queue: Queue, at: Reading) -> object:
    """Return the ready messages and their limit; None without a length limit."""
    limited = queue.length
    if limited is None:
        return None
    ready = {"messages": int(limited.ready()), "bodies": int(limited.bodies)}
    return {"ready": ready, **limited.most.as_dict(), "overflow": limited.policy.name}


def _parked(queue: Queue) -> int:
    """Return the number of parked dead letters."""
    letters = publisher_of(queue)
    return 0 if letters is None else len(letters.parked)


def _paged(queue: Queue, at: Reading) -> object:
    """Return the messages on disk and their limit; None if the queue does not page."""
    pages = queue.pager
    if pages is None or pages.retains:
        return None
    return {**amounts(pages.messages, pages.bytes), "limit": queue.settings.page_limit.as_dict()}


def _delayed(queue: Queue, at: Reading) -> object:
    """Return the delayed messages and in how many seconds the first is due; None without any."""
    delays = delays_of(queue)
    if delays is None or not delays.messages:
        return None
    due_in_s = round(max(delays.next_due() - at.now, 0.0), 3)
    return {**amounts(queue.delayed_messages, queue.delayed_bytes), "next_due_s": due_in_s}


def _active_tag(queue: Queue, at: Reading) -> object:
    active = single_active(queue)
    return None if active is None else active.tag


def _held(queue: Queue, at: Reading) -> object:
    held_by = road_of(queue, at.broker).held_by()
    return None if held_by is None else LabelledValue(f'kind="{held_by}"', 1)


def _lengths(queue: Queue, at: Reading) -> object:
    series = queue.counters.series or Series(at.node.stats.times, QUEUE_COUNTERS, len(QUEUE_LEVELS), False, False)
    return length_details(series, QUEUE_COUNTERS, at.ranges)


QUEUE: Final[Table[Queue]] = Table(
    Field("name", lambda queue, at: queue.name),
    Field("vhost", lambda queue, at: queue.vhost),
    Field("durable", lambda queue, at: queue.durable),
    Field("auto_delete", lambda queue, at: queue.auto_delete),
    Field("exclusive", lambda queue, at: queue.owner is not None),
    Field("arguments", lambda queue, at: plain(queue.arguments)),
    Field("type", lambda queue, at: queue.features.type.name),
    Field("node", lambda queue, at: at.node.name),
    Field("state", lambda queue, at: "running"),
    Field("policies.*", lambda queue, at: policies_of(queue.settings.policies)),
    Field("messages", lambda queue, at: listed_messages(queue), "messages", "rabbitmq_queue_messages",
           "Sum of ready and unacknowledged messages - total queue depth", COARSE),
    Field("messages_ready", lambda queue, at: listed_ready(queue), "messages",
           "rabbitmq_queue_messages_ready", "Messages ready to be delivered to consumers", COARSE),
    Field("messages_unacknowledged", lambda queue, at: listed_unacknowledged(queue), "messages",
           "rabbitmq_queue_messages_unacked", "Messages delivered to consumers but not yet acknowledged", COARSE),
    Field("messages_ram", lambda queue, at: int(queue.messages), "messages", "rabbitmq_queue_messages_ram",
           "Ready and unacknowledged messages stored in memory", DETAILS),
    Field("messages_paged_out", lambda queue, at: 0 if queue.pager is None else int(queue.pager.messages), "messages",
           "rabbitmq_queue_messages_paged_out", "Messages paged out to disk", DETAILS),
    Field("consumers", lambda queue, at: len(queue.consumers), "consumers", "rabbitmq_queue_consumers",
           "Consumers on a queue", CONSUMERS),
    Field("head_message_timestamp", _head_timestamp),
    Field("exclusive_consumer_tag", lambda queue, at: consumers_of(queue, 1)[0].tag if has_exclusive(queue) else None),
    Field("single_active_consumer_tag", _active_tag),
    Field("penstock.oldest_s", lambda queue, at: oldest_s(queue, at.now), "s"),
    Field("penstock.depth", lambda queue, at: amounts(listed_messages(queue), listed_bytes(queue))),
    Field("penstock.paged", _paged),
    Field("penstock.stream", stream_row),
    Field("penstock.retention", retention_row),
    Field("penstock.unacknowledged", lambda queue, at: amounts(queue.unacked_messages, unacknowledged_bytes(queue))),
    Field("penstock.delayed", _delayed),
    Field("penstock.highest", lambda queue, at: amounts(*queue.highest())),
    Field("penstock.capacity", lambda queue, at: queue.thresholds.capacity.as_dict()),
    Field("penstock.fill_percent", lambda queue, at: fill_percent(queue), "%"),
    Field("penstock.limit_percent", lambda queue, at: limit_percent(queue), "%"),
    Field("penstock.stop", lambda queue, at: queue.thresholds.stop.as_dict()),
    Field("penstock.resume", lambda queue, at: queue.thresholds.resume.as_dict()),
    Field("penstock.max_length", _length),
    Field("penstock.overflow", lambda queue, at: queue.overflow.name),
    Field("penstock.tail", lambda queue, at: int(queue.tail), "messages"),
    Field("penstock.settled", lambda queue, at: int(queue.settled), "messages"),
    Field("penstock.dropped", lambda queue, at: int(queue.counters.dropped), "messages",
           "penstock_queue_dropped_messages_total", "Messages that the overflow policy dropped", LOSSES),
    Field("penstock.expired", lambda queue, at: int(queue.counters.expired), "messages",
           "penstock_queue_expired_messages_total", "Messages that expired", LOSSES),
    Field("penstock.refused", lambda queue, at: int(queue.counters.refused), "messages",
           "penstock_queue_refused_messages_total", "Messages that the overflow policy refused", LOSSES),
    Field("penstock.dead_lettered", lambda queue, at: int(queue.counters.rare.dead_lettered), "messages",
           "penstock_queue_dead_lettered_messages_total", "Messages that became dead letters elsewhere", LOSSES),
    Field("penstock.letters_lost", lambda queue, at: int(queue.counters.rare.dead_letters_lost), "messages",
           "penstock_queue_lost_dead_letters_total", "Dead letters that went nowhere", LOSSES),
    Field("penstock.letters_waiting", lambda queue, at: (
        0 if queue.dead_letters is None else int(queue.dead_letters.waiting().messages)), "messages"),
    Field("penstock.letters_parked", lambda queue, at: _parked(queue), "messages"),
    Field("penstock.consumers", lambda queue, at: len(queue.consumers), "consumers"),
    Field("penstock.cursors", lambda queue, at: [cursor.name for cursor in queue.cursors]),
    Field("penstock.gate", lambda queue, at: gate_state(queue.gate, at.now)),
    Field("penstock.road", lambda queue, at: road_row(queue, at.broker)),
    Field("penstock.state", state_row),
    Field("penstock.rates", lambda queue, at: queue_rates(queue)),
    Field("message_stats", lambda queue, at: queue_stats(queue, at.now, at.ranges) or ABSENT),
    Field("lengths.*", _lengths),
    Field("owner_pid_details", lambda queue, at: (
        connection_details(queue.owner) if isinstance(queue.owner, Connection) else ABSENT)),

    Field("penstock.state.rank", lambda queue, at: group_of(queue, at.broker), "group"),
    Field("penstock.gate.blocked", lambda queue, at: len(queue.gate.blocked), "producers"),
    Field("penstock.delayed.messages", lambda queue, at: int(queue.delayed_messages), "messages",
           "penstock_queue_delayed_messages", "Messages that are not due yet, which count in the depth", DEPTHS),
    Field("penstock.road.blocked", lambda queue, at: road_of(queue, at.broker).blocked, "producers"),
    Field("message_stats.publish_details.rate", lambda queue, at: publish_rate(queue), "messages/s"),
    Field("message_stats.deliver_get_details.rate", lambda queue, at: deliver_rate(queue), "messages/s"),

    metric("penstock_queue_depth_messages", lambda queue, at: int(queue.messages),
           "Messages that count towards the capacity: ready and unacknowledged, without those on disk only", DEPTHS),
    metric("penstock_queue_depth_bytes", lambda queue, at: counted_bytes(queue),
           "Bytes (charges) that count towards the capacity", DEPTHS),
    metric("penstock_queue_unacknowledged_bytes", lambda queue, at: unacknowledged_bytes(queue),
           "Bytes (charges) of deliveries that are not acknowledged", DEPTHS),
    metric("penstock_queue_capacity_messages", lambda queue, at: or_infinity(queue.thresholds.capacity.messages),
           "Depth in messages that is never passed; +Inf without a limit", DEPTHS),
    metric("penstock_queue_capacity_bytes", lambda queue, at: or_infinity(queue.thresholds.capacity.bytes),
           "Depth in bytes (charges) that is never passed; +Inf without a limit", DEPTHS),
    metric("penstock_queue_stop_messages", lambda queue, at: or_infinity(queue.thresholds.stop.messages),
           "Depth in messages above which the gate closes; +Inf without a limit", DEPTHS),
    metric("penstock_queue_stop_bytes", lambda queue, at: or_infinity(queue.thresholds.stop.bytes),
           "Depth in bytes (charges) above which the gate closes; +Inf without a limit", DEPTHS),
    metric("penstock_queue_resume_messages", lambda queue, at: or_infinity(queue.thresholds.resume.messages),
           "Depth in messages at which the gate opens again; +Inf without a limit", DEPTHS),
    metric("penstock_queue_resume_bytes", lambda queue, at: or_infinity(queue.thresholds.resume.bytes),
           "Depth in bytes (charges) at which the gate opens again; +Inf without a limit", DEPTHS),
    metric("penstock_queue_fill_ratio", lambda queue, at: fill(queue, 1.0),
           "Depth as a part of the capacity, in messages or bytes, the higher one; no sample without one", DEPTHS),
    metric("penstock_queue_paged_bytes", lambda queue, at: 0 if queue.pager is None else int(queue.pager.bytes),
           "Bytes (charges) of messages on the disk only", DEPTHS),
    metric("penstock_stream_first_offset", lambda queue, at: stream_number(queue, "first"),
           "Offset of the oldest retained message of a stream", DEPTHS),
    metric("penstock_stream_segments", lambda queue, at: stream_number(queue, "segments"),
           "Segments of a stream on the disk", DEPTHS),
    metric("penstock_stream_dropped_messages_total", lambda queue, at: stream_number(queue, "dropped"),
           "Messages of a stream that retention has dropped", LOSSES),
    metric("penstock_stream_consumers_overtaken_total", lambda queue, at: stream_number(queue, "overtaken"),
           "Times that retention has overtaken a consumer of a stream", LOSSES),
    metric("penstock_queue_retained_messages_total", lambda queue, at: retention_number(queue, "retained"),
           "Settled messages that were retained, of a queue with retain-time or retain-bytes", DEPTHS),
    metric("penstock_queue_not_retained_messages_total", lambda queue, at: retention_number(queue, "left_out"),
           "Settled messages of such a queue that found no room on the disk, or no working store", LOSSES),
    metric("penstock_queue_oldest_message_age_seconds", lambda queue, at: max(queue.oldest_age_s(at.now), 0.0),
           "Age of the oldest ready message; 0 without one", DEPTHS),
    metric("penstock_queue_gate_open", lambda queue, at: queue.gate.open,
           "Whether the gate of the queue is open (1), or its publishers wait (0)", GATES),
    metric("penstock_queue_held", _held,
           "Whether publishes to the queue are held (1), with the kind of the first closed gate of its road; no sample "
           "for others", GATES),
    metric("penstock_queue_gate_crossings_total", lambda queue, at: queue.gate.stats.transitions,
           "Times that the gate closed", GATES),
    metric("penstock_queue_gate_closed_seconds_total", lambda queue, at: closed_s(queue.gate, at.now),
           "Seconds that the gate was closed; its rate is the duty cycle of blocking", GATES),
    metric("penstock_queue_blocked_producers", lambda queue, at: queue.gate.stats.sums(at.now).blocked,
           "Producers that the gate blocks now", GATES),
    metric("penstock_queue_producers_blocked_seconds_total", lambda queue, at: queue.gate.stats.sums(at.now).blocked_s,
           "Seconds that producers were blocked by the gate, the sum over all of them", GATES),
    metric("penstock_queue_waiting_producers", lambda queue, at: queue.gate.in_line(),
           "Producers in the line of the gate: they hold a publish, or wait for credit", GATES),
    metric("penstock_queue_confirms_withheld_total", lambda queue, at: queue.gate.stats.sums(at.now).withheld,
           "Messages that were accepted while the gate was closed, and confirmed later", GATES),
    metric("penstock_queue_publishes_held_total", lambda queue, at: queue.gate.stats.sums(at.now).held,
           "Publishes that were held before the gate", GATES),
    metric("penstock_queue_publishes_refused_total", lambda queue, at: queue.gate.stats.sums(at.now).refused,
           "Publishes that were refused at the gate: their hold deadline passed, or there was no room to hold them",
           GATES),

    metric("rabbitmq_queue_messages_published_total", lambda queue, at: int(queue.counters.published(queue)),
           "Total number of messages published to queues", PUBLISHED),
    metric("rabbitmq_queue_messages_delivered_ack_total", lambda queue, at: int(queue.counters.delivered_to_ack()),
           "Total number of messages delivered from a queue in manual acknowledgement mode", DELIVERIES),
    metric("rabbitmq_queue_messages_delivered_total",
           lambda queue, at: int(queue.counters.delivered_no_ack - queue.counters.gets_no_ack),
           "Total number of messages delivered from a queue in automatic acknowledgement mode", DELIVERIES),
    metric("rabbitmq_queue_messages_redelivered_total", lambda queue, at: int(queue.counters.redelivered),
           "Total number of messages redelivered from a queue", DELIVERIES),
    metric("rabbitmq_queue_messages_acked_total", lambda queue, at: int(queue.counters.acknowledged(queue)),
           "Total number of messages acknowledged by consumers on a queue", DELIVERIES),
    metric("rabbitmq_queue_get_ack_total", lambda queue, at: int(queue.counters.gets),
           "Total number of messages fetched with basic.get in manual acknowledgement mode", DELIVERIES),
    metric("rabbitmq_queue_get_total", lambda queue, at: int(queue.counters.gets_no_ack),
           "Total number of messages fetched with basic.get in automatic acknowledgement mode", DELIVERIES),
    metric("rabbitmq_queue_get_empty_total", lambda queue, at: int(queue.counters.gets_empty),
           "Total number of times basic.get fetched no message", DELIVERIES),
)  # fmt: skip
"""RabbitMQ's families in bytes count bodies, which Penstock does not: charges are in `penstock_queue_depth_bytes`."""

SUMMED: Final = tuple([each for each in QUEUE.families if each.group in (COARSE, CONSUMERS, DETAILS)])
"""Families that `/metrics` sums over all queues."""


def queue_row(queue: Queue, broker: Broker) -> Row:
    """Return the row of a queue in `status` and `why`."""
    return {"queue": queue.name, "vhost": queue.vhost, **QUEUE.own(queue, Reading(broker.now, broker=broker))}


def queue_in_full(queue: Queue, at: Reading) -> Row:
    """Return a queue with its consumers and browsers, for a request about this queue."""
    row = QUEUE.row(queue, at)
    consumers = consumers_of(queue, CONSUMERS_DETAILED) + browsers_of(queue)
    row["consumer_details"] = [CONSUMER.row(consumer, at) for consumer in consumers[:CONSUMERS_DETAILED]]
    return row


CURSORS: Final = "penstock_cursor_metrics"
"""Group of `/metrics/detailed?family=`."""
QUEUES_SHOWN: Final = 100
"""Most queues of a cursor in one answer; the others are counted."""
QUEUES_SUMMED: Final = 1000
"""Most queues whose lag is added up; a cursor with more queues has no sums."""
PRODUCERS_SHOWN: Final = 10
"""Most producers in the answer about one cursor; `why` of a queue has more."""
POSITION_WORK: Final = 5
"""Units of work of each queue of a cursor."""
POSITIONS_A_UNIT: Final = 50
"""Cursors of a queue compared per unit of work."""


class Progress:
    """A cursor's position on one queue, with its lag there now; None if it cannot be counted now.

    That is the case if the position is among messages on the disk, or among messages that are not in the queue's index
    yet (a later look finds them there).
    """

    def __init__(self, cursor: CursorState, position: Position, lag: Lag | None) -> None:
        self.cursor = cursor
        self.position = position
        self.queue: Queue = position.queue
        self.lag = lag


def _lag(progress: Progress, at: Reading) -> object:
    """Return the lag in messages, bytes (charges) and seconds."""
    lag = progress.lag
    if lag is None:
        return None
    return {"messages": int(lag.messages), "bytes": int(lag.bytes), "oldest_s": lag.oldest_s(at.now)}


def _max_lag(progress: Progress, at: Reading) -> object:
    """Return the limit of lag of the queue, and whether the cursor is beyond it; None without one."""
    limit, lag = progress.queue.settings, progress.lag
    if not limit.limits_lag:
        return None
    messages, size, age_s = limit.cursor_max_lag_messages, limit.cursor_max_lag_bytes, limit.cursor_max_lag_age_s
    beyond = lag is not None and (lag.messages > messages or lag.bytes > size or (lag.oldest_s(at.now) or 0.0) > age_s)
    return {
        "messages": or_none(messages),
        "bytes": or_none(size),
        "age_s": None if age_s == NEVER else age_s,
        "policy": limit.cursor_max_lag_policy,
        "beyond": beyond,
    }


POSITION: Final[Table[Progress]] = Table(
    Field("queue", lambda progress, at: progress.queue.name),
    Field("settled", lambda progress, at: int(progress.position.settled), "messages"),
    Field("planned", lambda progress, at: int(progress.position.planned), "messages"),
    Field("tail", lambda progress, at: int(progress.queue.tail), "messages"),
    Field("deleted", lambda progress, at: progress.queue.deleted),
    Field("left", lambda progress, at: progress.position.left),
    Field("lag", _lag),
    Field("max_lag", _max_lag),
    Field("holds_back", lambda progress, at: holds_back(progress.position), "", "penstock_cursor_holds_back",
           "Whether no other cursor of the queue has settled less (1)", CURSORS),
    Field("gate_open", lambda progress, at: progress.queue.gate.open),
    Field("closed_s", lambda progress, at: closed_s(progress.queue.gate, at.now), "s"),
    Field("blocked", lambda progress, at: len(progress.queue.gate.blocked), "producers"),
    metric("penstock_cursor_lag_messages",
           lambda progress, at: None if progress.lag is None else int(progress.lag.messages),
           "Messages of the queue beyond the settled position; no sample while it cannot be counted", CURSORS),
    metric("penstock_cursor_lag_bytes", lambda progress, at: None if progress.lag is None else int(progress.lag.bytes),
           "Bytes (charges) of those messages", CURSORS),
    metric("penstock_cursor_lag_seconds",
           lambda progress, at: None if progress.lag is None else progress.lag.oldest_s(at.now),
           "Age of the oldest of those messages; no sample while it is on the disk only", CURSORS),
    metric("penstock_cursor_unsettled_messages",
           lambda progress, at: int(progress.queue.tail - progress.position.settled),
           "Sequence of the newest message less that of the position", CURSORS),
    metric("penstock_cursor_idle_seconds", lambda progress, at: asked_s_ago(progress.cursor, at.now),
           "Seconds since the last request of its reader; no sample before the first since the start of the broker",
           CURSORS),
)  # fmt: skip


def cursor_row(cursor: CursorState, node: DescribedNode) -> Row:
    """Return a cursor: its progress and lag by queue, its sums, and its reader."""
    at = reading(node)
    queues: list[Row] = []
    unsettled, messages, size, blocked = 0, 0, 0, 0
    oldest: float | None = 0.0
    counted = len(cursor.positions) <= QUEUES_SUMMED
    for position in cursor.positions.values():
        unsettled += int(position.queue.tail - position.settled)
        if not counted and len(queues) == QUEUES_SHOWN:
            continue
        node.broker.work.done += len(position.queue.cursors) // POSITIONS_A_UNIT
        row = POSITION.row(Progress(cursor, position, lag_of(position, node.broker.work)), at)
        lag = row["lag"]
        if isinstance(lag, dict):
            messages += int(lag["messages"])
            size += int(lag["bytes"])
            oldest = _older(oldest, lag["oldest_s"])
        else:
            counted = False
        blocked += len(position.queue.gate.blocked) if row["holds_back"] else 0
        if len(queues) < QUEUES_SHOWN:
            queues.append(row)
    return {
        "name": cursor.name,
        "vhost": cursor.vhost,
        "queues": queues,
        "more_queues": len(cursor.positions) - len(queues),
        "unsettled": unsettled,
        "lag": {"messages": messages, "bytes": size, "oldest_s": oldest} if counted else None,
        "blocks": blocked,
        "polling": cursor.polling,
        "asked_s_ago": asked_s_ago(cursor, at.now),
        "user": cursor.user or None,
        "reader": _reader(cursor, node),
        "idle_s": idle_s(cursor, at.now),
        "expires_in_s": expires_in_s(cursor, at.now),
        "share": _share(cursor),
        "read": cursor.counters.as_dict(),
    }


CURSOR: Final[Table[CursorState]] = Table(Field("cursor.*", lambda cursor, at: cursor_row(cursor, at.node)))


def asked_s_ago(cursor: CursorState, now: float) -> float | None:
    """Return the seconds since the reader's last request; None if there was none since the broker's start."""
    return max(now - cursor.touched, 0.0) if cursor.touched else None


def _share(cursor: CursorState) -> Row | None:
    """Return the share of this broker in the last batch of several brokers; None for one broker."""
    share = cursor.share
    if share is None:
        return None
    return {"servers": int(share.servers), "cap": or_none(share.cap), "messages": int(share.messages)}


def share_words(cursor: CursorState) -> str:
    """Return the share of this broker in the last batch of several brokers, as a phrase; empty for one broker."""
    share = cursor.share
    if share is None:
        return ""
    cap = "" if share.cap == UNLIMITED else f" of up to {share.cap:,} messages"
    return f"a share of {share.messages:,} messages in its last batch{cap} from {share.servers} brokers"


def idle_s(cursor: CursorState, now: float) -> float | None:
    """Return the seconds since which no reader is attached; None while there is one."""
    since = cursor.idle_since()
    return None if since == NEVER else max(now - since, 0.0)


def expires_in_s(cursor: CursorState, now: float) -> float | None:
    """Return the seconds after which a cursor expires if no reader attaches; None if it never does."""
    expires_s = cursor.expires_s()
    return None if expires_s == NEVER else max(expires_s - (idle_s(cursor, now) or 0.0), 0.0)


def idle_words(cursor: CursorState, now: float) -> str:
    """Return since when nobody is attached to a cursor, and when it expires; empty while there is a reader."""
    idle = idle_s(cursor, now)
    if idle is None:
        return ""
    ends = expires_in_s(cursor, now)
    since = f"nobody has been attached for {idle:,.1f} s"
    if ends is None:
        return f"{since}, and it never expires (cursor-expires is not set)"
    return f"{since}, and it expires in {ends:,.1f} s (cursor-expires={cursor.expires_s():g})"


def _reader(cursor: CursorState, node: DescribedNode) -> Row | None:
    """Return the connection that attached or planned last, and its query; None if there was none since the start."""
    if not cursor.reader:
        return None
    return {
        "connection": cursor.reader_name,
        "open": is_read(cursor, node),
        "query": None if cursor.room is None else cursor.room.query.name,
    }


def is_read(cursor: CursorState, node: DescribedNode) -> bool:
    """Return whether the connection that attached or planned last is still open."""
    return cursor.reader in node.connections


def in_use(cursor: CursorState, node: DescribedNode) -> str:
    """Return the reader of a cursor, as the beginning of a sentence; empty without one."""
    if not is_read(cursor, node):
        return ""
    query = "" if cursor.room is None else f" for query {cursor.room.query.name}"
    asked = asked_s_ago(cursor, node.broker.now) or 0.0
    return f"cursor '{cursor.name}' is in use by {cursor.reader_name}{query}, which asked {asked:.1f} s ago"


def blocked_rows(cursor: CursorState, now: float) -> list[Row]:
    """Return the producers that wait because of a cursor, the first of each queue that it holds back."""
    rows: list[Row] = []
    for position in cursor.positions.values():
        queue = position.queue
        if queue.gate.blocked and len(rows) < PRODUCERS_SHOWN and holds_back(position):
            for block in list(queue.gate.stats.blocked().values())[: PRODUCERS_SHOWN - len(rows)]:
                since = None if block.since is None else now - block.since
                rows.append({"queue": queue.name, "producer": block.producer, "blocked_for_s": since})
    return rows


def _older(one: float | None, other: object) -> float | None:
    """Return the higher age; None if either is unknown."""
    if one is None or not isinstance(other, float):
        return None
    return max(one, other)
