"""Producers that wait for a queue, in line: ticket, what waits, for how long, and when it is refused or confirmed."""

from __future__ import annotations

from typing import Final

from penstock.core.publish.producer import Producer
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.describe.gate import text_of
from penstock.describe.session import held_by, withheld_by
from penstock.describe.table import Row
from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER

LISTED: Final = 20
"""Producers listed; their gates count the others."""


def line_rows(gates: list[Gate], now: float) -> list[Row]:
    """Return the first producers that gates of a queue's road block: those with a ticket first, in their order."""
    found: dict[int, tuple[WaitingPublisher, Gate]] = {}
    for gate in gates:
        for key, producer in gate.blocked.items():
            if len(found) >= LISTED:
                break
            if isinstance(producer, WaitingPublisher) and (key not in found or producer.gate is gate):
                found[key] = (producer, gate)
    waiting = sorted(found.values(), key=lambda each: _place(each[0]))
    return [_row(producer, gate, now) for producer, gate in waiting]


def _place(producer: WaitingPublisher) -> tuple[bool, int, int]:
    return producer.gate is None, int(producer.ticket), int(producer.order)


def _row(producer: WaitingPublisher, gate: Gate, now: float) -> Row:
    held, size = held_by(producer)
    since = producer.entry(gate).since
    deadline = producer.outbox[0].deadline if producer.outbox else NEVER
    if isinstance(producer, Producer):
        deadline = min(deadline, producer.confirms.due())
    return {
        "producer": producer.name,
        "ticket": int(producer.ticket) if producer.gate is not None else None,
        "gate": text_of(gate).name(gate),
        "held": held,
        "held_bytes": size,
        "withheld": withheld_by(producer),
        "blocked_for_s": None if since is None else round(now - since, 1),
        "deadline_s": None if deadline == NEVER else round(max(deadline - now, 0.0), 1),
    }
