"""State of a connection and of a channel for people: some words, a tone, who holds it and since when.

| text | tone | when |
|---|---|---|
| held by the operator 18 s | stop | the operator holds the connection or its user |
| blocked 18 s by queue orders | stop | a gate blocks a publisher |
| not read | warn | publishes that are held fill the budget of the connection |
| open | | else; or RabbitMQ's word for a connection that begins or ends |

The cost is bounded: `LOOKED_MOST` publishers of a connection are looked at, and only while a gate blocks one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from penstock.connections.connection import Connection
from penstock.connections.connection_state import ConnectionState
from penstock.core.gates.operator import CONNECTION
from penstock.core.publish.producer import Producer
from penstock.describe.gate import text_of
from penstock.describe.queue_state import NORMAL, STOP, WARN
from penstock.describe.table import Row
from penstock.flow.gate import Gate
from penstock.texts import brief_age

LOOKED_MOST: Final = 100
"""Most publishers of a connection that are looked at for the gate that blocks longest."""
OPERATOR: Final = "operator"


def state_of_connection(connection: Connection, now: float) -> Row:
    """Return the state of a connection."""
    if connection.state is not ConnectionState.RUNNING:
        return _row(connection.state.word(), NORMAL)
    origin = connection.origin
    if origin is not None:
        for gate in origin.gates:
            if gate.kind == OPERATOR and not gate.open:
                return _held(gate, now)
        if connection.blocks > 0:
            found = _longest(islice(origin.producers, LOOKED_MOST))
            if found is not None:
                return _blocked(*found, now)
    if connection.may_pause() or connection.waits_for_store():
        return _row("not read", WARN)
    return _row("open", NORMAL)


def state_of_producers(producers: list[Producer], now: float) -> Row:
    """Return the state of a channel, or of a session, from its publishers."""
    found = _longest(islice(producers, LOOKED_MOST))
    return _row("open", NORMAL) if found is None else _blocked(*found, now)


def _longest(producers: Iterable[Producer]) -> tuple[Gate, float] | None:
    """Return the gate that blocks one of these publishers for the longest time, and since when; None for none."""
    longest: tuple[Gate, float] | None = None
    for producer in producers:
        if not producer.gates:
            continue
        for gate, block in producer.stories():
            if block.since is not None and not gate.frequent and (longest is None or block.since < longest[1]):
                longest = gate, block.since
    return longest


def _held(gate: Gate, now: float) -> Row:
    since = gate.stats.since
    for_s = 0.0 if since is None else now - since
    return _row(f"held by the operator {brief_age(for_s)}", STOP, gate, for_s, now)


def _blocked(gate: Gate, since: float, now: float) -> Row:
    if gate.kind == OPERATOR:
        scope, _, name = gate.name.partition(" ")
        return _row(
            f"blocked {brief_age(now - since)}: the operator holds {scope} {name}", STOP, gate, now - since, now
        )
    return _row(f"blocked {brief_age(now - since)} by {text_of(gate).name(gate)}", STOP, gate, now - since, now)


def _row(text: str, tone: str, gate: Gate | None = None, for_s: float | None = None, now: float = 0.0) -> Row:
    by: Row | None = None
    reason = ""
    if gate is not None:
        scope, _, name = gate.name.partition(" ") if gate.kind == OPERATOR else (gate.kind, "", gate.name)
        by = {
            "kind": gate.kind,
            "scope": scope,
            "name": "" if scope == CONNECTION else name,
            "vhost": text_of(gate).vhost(gate),
        }
        reason = text_of(gate).cause(gate, now)
    return {
        "text": text,
        "tone": tone,
        "by": by,
        "reason": reason,
        "for_s": None if for_s is None else round(for_s, 1),
    }
