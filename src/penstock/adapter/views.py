"""What the broker is and why something waits, as plain data and as sentences.

Read from what decides, kept nowhere else.
"""

from __future__ import annotations

from penstock.adapter import telling
from penstock.core.broker import Broker
from penstock.core.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.flow.ledger import Block


def queue_view(queue: Queue, now: float) -> dict[str, object]:
    """Return a queue as plain data; None is no limit."""
    thresholds = queue.thresholds
    highest = queue.highest()
    return {
        "queue": queue.name,
        "vhost": queue.vhost,
        "depth": {"messages": int(queue.messages), "bytes": int(queue.bytes)},
        "unacknowledged": {"messages": int(queue.unacked_messages), "bytes": int(queue.unacked_bytes)},
        "highest": {"messages": highest[0], "bytes": highest[1]},
        "capacity": thresholds.capacity.plain(),
        "stop": thresholds.stop.plain(),
        "resume": thresholds.resume.plain(),
        "overflow": queue.overflow.name,
        "tail": int(queue.tail),
        "settled": int(queue.settled),
        "dropped": int(queue.dropped),
        "expired": int(queue.expired),
        "refused": int(queue.refused),
        "consumers": len(queue.consumers),
        "cursors": [cursor.name for cursor in queue.cursors],
        "gate": {"open": queue.gate.open, "waiting": len(queue.gate.waiters), **queue.gate.book.plain(now)},
    }


def why(queue: Queue, now: float) -> dict[str, object]:
    """Return a queue with the sentences that say who is blocked by what and since when."""
    view = queue_view(queue, now)
    blocks = [block for block in queue.gate.book.blocks.values() if block.since is not None]
    view["blocked"] = [block.plain(now) for block in blocks]
    view["sentences"] = _sentences(queue, blocks, now)
    return view


def _sentences(queue: Queue, blocks: list[Block], now: float) -> list[str]:
    gate = queue.gate
    sentences: list[str] = []
    if gate.open and not gate.waiters:
        sentences.append(
            f"queue {queue.name}: the gate is open; {telling.amount(queue.messages)} messages, "
            f"{telling.amount(queue.bytes)} bytes; nobody is blocked by it"
        )
    else:
        cause = telling.reason(gate, now)
        for block in blocks:
            assert block.since is not None
            sentences.append(f"{block.producer} is blocked {now - block.since:.1f} s by {cause}")
        if not blocks:
            sentences.append(f"{cause}; nobody is blocked by it now")
        sentences.append(_what_it_waits_for(queue, now))
    return sentences


def _what_it_waits_for(queue: Queue, now: float) -> str:
    if queue.cursors:
        slowest = min(queue.cursors, key=lambda cursor: cursor.positions[queue.name].settled)
        position = slowest.positions[queue.name]
        return (
            f"it waits for cursor {slowest.name}, which has settled up to {position.settled} of {queue.tail}, has "
            f"{position.planned - position.settled} planned and asked last {now - slowest.touched:.1f} s ago"
        )
    if not queue.consumers:
        return "it has no consumer"
    phrases: list[str] = []
    for consumer in queue.consumers[:10]:
        obstacles = consumer.obstacles()
        state = ", ".join(obstacles) if obstacles else "may receive"
        phrases.append(f"consumer {consumer.tag} ({state})")
    more = len(queue.consumers) - len(phrases)
    return "it waits for " + "; ".join(phrases) + (f" and {more} more" if more > 0 else "")


def status(broker: Broker, vhost: VirtualHost) -> dict[str, object]:
    """Return the broker, and the queues of one virtual host, as plain data."""
    return {
        "vhost": vhost.name,
        "queues": [queue_view(queue, broker.now) for queue in vhost.queues.values()],
        "exchanges": len(vhost.exchanges),
        "bindings": int(vhost.bindings),
        "unroutable": int(broker.unroutable),
        "lingering": {"messages": int(broker.lingering.messages), "bytes": int(broker.lingering.bytes)},
    }
