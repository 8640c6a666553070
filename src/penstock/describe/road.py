"""Roads of queues: the closed gates that hold publishes to a queue, its own or others, by one word each.

| word | closed gate |
|---|---|
| own | of the queue: its depth is above stop |
| operator | the operator's, of the queue or of its virtual host |
| virtual host | the sum of the queues of its virtual host |
| memory | the memory of the node |
| disk | a quota, the free space, or a store that cannot be written: of messages that are stored |
| exchange | the operator's, of an exchange that leads to the queue |
| address | the bound of such an exchange |

The cost of a row is bounded whatever the number of bindings: the first `BINDINGS_MOST` of those that lead to a queue
are looked at, also from exchange to exchange, and the default exchange. Without an operator's gate and without a bound
of an exchange none is looked at. Rates are left out: they close with every message.
"""

from __future__ import annotations

from typing import Final

from penstock.core.broker import Broker
from penstock.core.gates.operator import ADDRESS
from penstock.core.publish.admission import gates_of
from penstock.core.queue.queue import Queue
from penstock.describe.table import Row
from penstock.flow.gate import Gate

BINDINGS_MOST: Final = 100
"""Most bindings that are looked at for one queue: a row takes 2 to 20 microseconds longer interpreted."""
OWN: Final = "own"
WORDS: Final = {"queue": OWN, "vhost": "virtual host"}
"""Words for kinds of gates, where they are others."""


class Road:
    """Closed gates of a road, and the most producers that one of its gates blocks."""

    __slots__ = ("closed", "blocked")

    def __init__(self) -> None:
        self.closed: list[Gate] = []
        """In the order of the table above."""
        self.blocked: int = 0
        """Those of a shared gate may publish to other queues as well."""

    def look(self, gate: Gate) -> None:
        """Count a gate."""
        blocked = len(gate.blocked)
        if blocked > self.blocked:
            self.blocked = blocked
        if not gate.open:
            self.closed.append(gate)

    def held_by(self) -> str | None:
        """Return the word for the first closed gate; None for an open road."""
        return word_of(self.closed[0]) if self.closed else None

    def since(self) -> float | None:
        """Return since when a gate of the road is closed without a break (monotonic seconds); None if it is open."""
        if not self.closed:
            return None
        times = [gate.stats.since for gate in self.closed if gate.stats.since is not None]
        return min(times) if times else None

    def row(self, now: float) -> Row:
        """Return what a queue's row says of its road."""
        since = self.since()
        return {
            "open": not self.closed,
            "held_by": self.held_by(),
            "closed_for_s": None if since is None else now - since,
            "blocked": self.blocked,
        }


def word_of(gate: Gate) -> str:
    """Return the word for a gate."""
    if gate.kind == "operator" and gate.name.startswith(f"{ADDRESS} "):
        return "exchange"
    return WORDS.get(gate.kind, gate.kind)


OPEN: Final = Road()
"""Road of most queues: nothing is closed, and no producer is blocked."""
OPEN_ROW: Final[Row] = OPEN.row(0.0)
"""Its row, which nobody changes."""


def road_of(queue: Queue, broker: Broker) -> Road:
    """Return the road of a queue now."""
    road: Road | None = None
    gates = queue.gates
    if queue.storage is not None or queue.pager is not None:
        gates = gates_of(queue)
    for gate in gates:
        # Below its guaranteed share a shared gate does not hold it.
        if (not gate.open or gate.blocked) and queue.bytes >= gate.guaranteed_bytes:
            if road is None:
                road = Road()
            road.look(gate)
    if broker.gates.depths or broker.gates.operator_gates:
        for gate in source_gates(queue, broker):
            if not gate.open or gate.blocked:
                if road is None:
                    road = Road()
                road.look(gate)
    return OPEN if road is None else road


def road_row(queue: Queue, broker: Broker) -> Row:
    """Return what a queue's row says of its road."""
    road = road_of(queue, broker)
    return OPEN_ROW if road is OPEN else road.row(broker.now)


def source_gates(queue: Queue, broker: Broker) -> list[Gate]:
    """Return the gates of the exchanges that lead to a queue, and of the default one."""
    vhost = broker.vhosts.get(queue.vhost)
    gates: list[Gate] = []
    if vhost is None:
        return gates
    for source in [*vhost.bindings.sources(queue.name, BINDINGS_MOST), vhost.exchanges[""]]:
        gates += [gate for gate in source.gates if not gate.frequent]
    return gates
