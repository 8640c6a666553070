"""Views: the broker's state as plain data, taken from the deciding code. None is no limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.rotation import waits_behind
from penstock.core.consume.session import Session
from penstock.core.gates.disk import Disk
from penstock.core.gates.rate_gate import RateGate
from penstock.core.publish.producer import Producer, producers_of
from penstock.core.publish.sender_credit import SenderCredit
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.queue import Queue
from penstock.flow.confirms import WITHHELD
from penstock.flow.credit import UNBOUNDED, LinkCredit
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED
from penstock.management.gate_descriptions import text_of
from penstock.management.links import links_of

if TYPE_CHECKING:
    from penstock.protocols.common.connection import Connection

CONSUMERS_SHOWN: Final = 20
CHANNELS_SHOWN: Final = 50
PRODUCERS_SHOWN: Final = 20
CONNECTIONS_SHOWN: Final = 20
"""Most connections in one answer; the others are counted."""


def queue_view(queue: Queue, now: float) -> dict[str, object]:
    """Return a queue."""
    thresholds = queue.thresholds
    highest = queue.highest()
    return {
        "queue": queue.name,
        "vhost": queue.vhost,
        "depth": {"messages": int(queue.depth_messages()), "bytes": int(queue.measure().bytes)},
        "paged": paged(queue),
        "unacknowledged": {"messages": int(queue.unacked_messages), "bytes": unacknowledged_bytes(queue)},
        "highest": {"messages": highest[0], "bytes": highest[1]},
        "capacity": thresholds.capacity.as_dict(),
        "fill_percent": fill_percent(queue),
        "stop": thresholds.stop.as_dict(),
        "resume": thresholds.resume.as_dict(),
        "max_length": length(queue),
        "overflow": queue.overflow.name,
        "tail": int(queue.tail),
        "settled": int(queue.settled),
        "dropped": int(queue.counters.dropped),
        "expired": int(queue.counters.expired),
        "refused": int(queue.counters.refused),
        "dead_lettered": int(queue.counters.rare.dead_lettered),
        "letters_lost": int(queue.counters.rare.dead_letters_lost),
        "letters_waiting": 0 if queue.dead_letters is None else int(queue.dead_letters.waiting().messages),
        "consumers": len(queue.consumers),
        "cursors": [cursor.name for cursor in queue.cursors],
        "gate": gate_state(queue.gate, now),
    }


def unacknowledged_bytes(queue: Queue) -> int:
    """Return the bytes of unacknowledged messages as the limits of the queue count them."""
    return int(queue.thresholds.capacity.counted(queue.unacked_messages, queue.unacked_bytes))


def fill_percent(queue: Queue) -> float | None:
    """Return a queue's fill percentage: of its capacity in messages or bytes, the higher one; None without capacity.

    Messages on disk do not count: the capacity is of its memory.
    """
    capacity = queue.thresholds.capacity
    filled: list[float] = []
    if capacity.messages != UNLIMITED and capacity.messages > 0:
        filled.append(100.0 * float(queue.messages) / float(capacity.messages))
    if capacity.bytes != UNLIMITED and capacity.bytes > 0:
        filled.append(100.0 * float(capacity.counted(queue.messages, queue.bytes)) / float(capacity.bytes))
    return round(max(filled), 1) if filled else None


def length(queue: Queue) -> dict[str, object] | None:
    """Return a queue's ready messages and their limit; None without a length limit."""
    limited = queue.length
    if limited is None:
        return None
    return {"ready": {"messages": int(limited.ready()), "bodies": int(limited.bodies)}, **limited.most.as_dict()}


def paged(queue: Queue) -> dict[str, object] | None:
    """Return a queue's messages on disk and their limit; None if it does not page."""
    pages = queue.pager
    if pages is None:
        return None
    return {"messages": int(pages.messages), "bytes": int(pages.bytes), "limit": queue.settings.page_limit.as_dict()}


def gate_state(gate: Gate, now: float) -> dict[str, object]:
    """Return a gate, without its producers and its measurements."""
    return {
        "kind": gate.kind,
        "name": gate.name,
        "open": gate.open,
        "waiting": gate.in_line(),
        **gate.stats.summary(now),
        "overshoot": text_of(gate).overshoot(gate),
    }


def gate_view(gate: Gate, now: float) -> dict[str, object]:
    """Return a gate, without its producers, with its depth and thresholds if it has any."""
    view = gate_state(gate, now)
    judged = None if gate.owner is None else gate.owner.exact_measure(now)
    words = text_of(gate)
    if words.shows_cause and gate.owner is not None:
        view["cause"] = "" if gate.open else words.cause(gate, now)
    if judged is not None:
        view["depth"] = {"messages": int(judged.messages), "bytes": int(judged.bytes)}
        if judged.reserved_messages > 0:
            view["reserved"] = {"messages": int(judged.reserved_messages), "bytes": int(judged.reserved_bytes)}
        view["capacity"] = judged.thresholds.capacity.as_dict()
        view["stop"] = judged.thresholds.stop.as_dict()
        view["resume"] = judged.thresholds.resume.as_dict()
    return view


def held_by(producer: WaitingPublisher) -> tuple[int, int]:
    """Return the number of a producer's held publishes, and their bytes (charges)."""
    outbox = producer.outbox
    return sum(int(held.messages) for held in outbox), sum(int(held.charge) for held in outbox)


def withheld_by(producer: WaitingPublisher, gate: Gate | None = None) -> int:
    """Return the number of a producer's withheld confirms; with a gate, of those that this gate withholds first."""
    found = 0
    if not isinstance(producer, Producer):
        return found  # Dead letters have no confirms.
    for pending in producer.confirms.pending:
        if pending.state == WITHHELD and (gate is None or pending.obstacle() is gate):
            found += pending.publishes()
    return found


def producer_view(producer: Producer, now: float) -> dict[str, object]:
    """Return the publishing side of a channel: its held and withheld publishes, and its statistics by gate."""
    messages, size = held_by(producer)
    waits_at = producer.gate
    blocked_by = [
        {"gate": gate_view(gate, now), **block.as_dict(now, gate.stats.since)}
        for gate, block in producer.stories()
        if block.since is not None
    ]
    credit = producer.credit
    return {
        "producer": producer.name,
        "confirms": producer.confirming,
        **({} if credit is None else {"credit": credit_view(credit)}),
        "rates": rates_view(producer.rate),
        "held": {"messages": messages, "bytes": size},
        "withheld": withheld_by(producer),
        "waits_at": None if waits_at is None else {"kind": waits_at.kind, "name": waits_at.name},
        "blocked_by": blocked_by,
        "times_blocked": sum(block.times for _, block in producer.stories()),
        "blocked_s": sum(block.blocked_s(now) for _, block in producer.stories()),
    }


def rates_view(rate: RateGate | None) -> dict[str, object] | None:
    """Return the rates of a producer: a second each, None for no limit; None without any."""
    return None if rate is None else {"messages": rate.limits.rate_messages, "bytes": rate.limits.rate_bytes}


def credit_view(credit: SenderCredit) -> dict[str, object]:
    """Return the credit of a sender: what it may send, where that has its room, and the messages since it began."""
    reserved, held = credit.reservation, credit.hold
    return {
        "credit": int(credit.credit),
        "available": int(credit.available),
        "window": {"messages": int(credit.window.messages), "bytes": _or_none(credit.window.bytes)},
        "reserved": {"messages": int(reserved.messages), "bytes": int(reserved.messages * reserved.charge)},
        "hold_room": {"messages": int(held.count()), "bytes": int(held.bytes())},
        "draining": credit.idle.is_draining,
        **credit.counts.as_dict(credit.credit),
        "retry_after_ms": round(credit.retry_after_s() * 1000),
    }


def _or_none(number: i64) -> int | None:
    return None if number == UNLIMITED else int(number)


def consumer_view(consumer: Consumer, now: float) -> dict[str, object]:
    """Return a consumer, with the reasons why it gets no messages; an empty list if there are none."""
    credit = consumer.credit
    return {
        "consumer": consumer.tag,
        "channel": consumer.session.name,
        "queue": consumer.queue.name,
        "browses": consumer.browses(),
        "unacknowledged": int(consumer.credit.out),
        "prefetch": int(consumer.prefetch) or None,
        "link_credit": int(credit.granted) if isinstance(credit, LinkCredit) else None,
        "delivered": int(consumer.delivered),
        "adaptive_window": adaptive_window_view(consumer),
        "window_bytes": None if credit.window_bytes == UNBOUNDED else int(credit.window_bytes),
        "max_rate": None if consumer.rate_limiter is None else consumer.rate_limiter.rate,
        "obstacles": obstacles(consumer, now),
    }


def adaptive_window_view(consumer: Consumer) -> dict[str, object] | None:
    """Return a consumer's adaptive window with what it follows from; None without one."""
    window = consumer.adaptive_window
    if window is None:
        return None
    adaptive = window.adaptive
    return {
        "messages": int(adaptive.window),
        "min": int(adaptive.least),
        "max": _or_none(adaptive.most),
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


def session_view(session: Session, now: float) -> dict[str, object]:
    """Return a session, such as a channel: its producers and its consumers."""
    consumers = list(session.consumers.values())
    producers = producers_of(session)
    view: dict[str, object] = {
        "channel": session.name,
        "publishing": producer_view(producers[0], now) if producers else None,
        "receiving": session.receiving(),
        "unacknowledged": session.unsettled.count(),
        "consumers": [consumer_view(consumer, now) for consumer in consumers[:CONSUMERS_SHOWN]],
        "more_consumers": max(len(consumers) - CONSUMERS_SHOWN, 0),
    }
    links = links_of(session)
    if links:
        view["links"] = [producer_view(producer, now) for producer in links[:PRODUCERS_SHOWN]]
        view["more_links"] = max(len(links) - PRODUCERS_SHOWN, 0)
    return view


def connection_summary(connection: Connection) -> dict[str, object]:
    """Return a connection without its channels."""
    return {
        "name": connection.name(),
        "product": str(connection.peer.properties.get("product", "")),
        "protocol": connection.engine.details().get("protocol"),
        "state": connection.state.word(),
        "blocked": connection.blocks > 0,
        "channels": len(connection.engine.sessions()),
        "held": {"messages": int(connection.pausing.budget.messages), "bytes": int(connection.pausing.budget.bytes)},
    }


def connection_view(connection: Connection, now: float) -> dict[str, object]:
    """Return a connection with its channels."""
    sessions = list(connection.engine.sessions())
    return {
        **connection_summary(connection),
        "user": connection.user,
        "paused": connection.may_pause(),
        "channels": [session_view(session, now) for session in sessions[:CHANNELS_SHOWN]],
        "more_channels": max(len(sessions) - CHANNELS_SHOWN, 0),
    }


def disk_view(disk: Disk, vhost: str, now: float) -> dict[str, object]:
    """Return the state of the disk: its gates, the stored data of a virtual host, and data not yet written."""
    stock = disk.vhosts.get(vhost)
    return {
        "used": int(disk.used),
        "free": None if disk.free == UNLIMITED else int(disk.free),
        "stored": 0 if stock is None else int(stock.bytes()),
        "unwritten": 0 if disk.backlog is None else int(disk.backlog.unwritten()),
        "gates": [gate_view(gate, now) for gate in disk.gates()],
    }
