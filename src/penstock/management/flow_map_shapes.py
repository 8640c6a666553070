"""Shapes of the flow map: queues with their gates, producers and readers as plain data, each once."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.rotation import consumers_of
from penstock.core.publish.admission import gates_of
from penstock.core.publish.sender_credit import SenderCredit
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.cursor import Cursor
from penstock.core.queue.queue import Queue
from penstock.flow.gate import Gate, Waiter
from penstock.management import views
from penstock.management.gate_descriptions import text_of

if TYPE_CHECKING:
    from penstock.management.node import Node

PRODUCERS_EACH: Final = 8
"""Most producers shown for one queue: those that it blocks, then the busiest."""
READERS_EACH: Final = 6
"""Most consumers, and most cursors, shown for one queue."""
LINE_SHOWN: Final = 8
"""Most waiters shown at one gate, the next turn first."""
HELD_COUNTED: Final = 1_000
"""Most held publishes of one producer that are summed up."""
NUMBER_LETTERS: Final = 18
CLIENT_LETTERS: Final = 100
"""Most digits of a connection's number, and most letters of the name that its client gave it."""


class Shapes:
    """One flow map in the making. Ids are those of the process, and good for one map."""

    def __init__(self, node: Node, readers_before: dict[str, int], seconds: float) -> None:
        """`readers_before` are the readers of the map before, `seconds` ago (0 for none)."""
        self._node = node
        self._now = node.broker.now
        self._before = readers_before
        self._seconds = seconds
        self.readers_seen: dict[str, int] = {}
        """Messages that each reader had so far, by its id."""
        self._producers: dict[str, dict[str, object]] = {}
        self._gates: dict[int, dict[str, object]] = {}
        self._queues: list[dict[str, object]] = []
        self._readers: list[dict[str, object]] = []
        self._edges: list[dict[str, object]] = []
        """From producers to queues, with the estimated rate; null where there are no samples."""

    def as_dict(self) -> dict[str, object]:
        """Return the map as plain data."""
        return {
            "producers": list(self._producers.values()),
            "gates": list(self._gates.values()),
            "queues": self._queues,
            "readers": self._readers,
            "edges": self._edges,
        }

    def add_queue(self, queue: Queue, in_rate: float, out_rate: float, senders: dict[str, int]) -> None:
        """Add a queue with its gates, producers and readers.

        Rates are in messages per second; `senders` are its sampled publishers with the number of their messages.
        """
        gates = gates_of(queue)
        for gate in gates:
            if gate is queue.gate or not gate.open or gate.blocked:
                self._add_gate(gate)
        number = f"q{id(queue)}"
        thresholds = queue.thresholds
        self._queues.append(
            {
                "id": number,
                "name": queue.name,
                "vhost": queue.vhost,
                "messages": int(queue.depth_messages()),
                "bytes": int(queue.measure().bytes),
                "unacknowledged": int(queue.unacked_messages),
                "paged": 0 if queue.pager is None else int(queue.pager.messages),
                "capacity": thresholds.capacity.as_dict(),
                "stop": thresholds.stop.as_dict(),
                "resume": thresholds.resume.as_dict(),
                "fill_percent": views.fill_percent(queue),
                "in_rate": round(in_rate, 1),
                "out_rate": round(out_rate, 1),
                "gate": _gate_id(queue.gate),
                "gates": [_gate_id(gate) for gate in gates if id(gate) in self._gates],
                "consumers": len(queue.consumers),
                "cursors": len(queue.cursors),
            }
        )
        self._add_publishers(queue, number, in_rate, senders)
        self._add_readers(queue, number)

    def add_blocked(self, producer: WaitingPublisher) -> None:
        """Add a blocked producer with the gates that block it."""
        self._add_producer(producer.name)
        self._describe(producer)

    def _add_publishers(self, queue: Queue, number: str, in_rate: float, senders: dict[str, int]) -> None:
        """Add the producers that a queue blocks, and those whose messages were sampled."""
        total = sum(senders.values())
        shown = 0
        for waiter in list(queue.gate.blocked.values()):
            if shown < PRODUCERS_EACH and isinstance(waiter, WaitingPublisher):
                shown += 1
                self.add_blocked(waiter)
                share = senders.get(waiter.name, 0) / total if total else 0.0
                self._add_edge(waiter.name, number, in_rate * share if total else None)
        blocked = {edge["producer"] for edge in self._edges if edge["queue"] == number}
        busiest = heapq.nlargest(PRODUCERS_EACH, senders.items(), key=_weight)
        for name, weight in busiest:
            if shown < PRODUCERS_EACH and name not in blocked:
                shown += 1
                self._add_producer(name)
                self._add_edge(name, number, in_rate * weight / total)

    def _add_edge(self, producer: str, queue: str, rate: float | None) -> None:
        self._edges.append(
            {"producer": producer, "queue": queue, "rate": None if rate is None else round(rate, 1)},
        )

    def _add_producer(self, name: str) -> dict[str, object]:
        found = self._producers.get(name)
        if found is None:
            found = {
                "name": name,
                "client": self._client(name),
                "blocked": [],
                "held": 0,
                "withheld": 0,
                "ticket": None,
            }
            self._producers[name] = found
        return found

    def _client(self, name: str) -> str:
        """Return the name that a client gave its connection; `name` begins with the connection's: con:2(...)."""
        number = name.removeprefix("con:").partition("(")[0]
        if not number.isdecimal() or len(number) > NUMBER_LETTERS:
            return ""
        connection = self._node.connections.get(int(number))
        given = None if connection is None else connection.peer.properties.get("connection_name")
        return given[:CLIENT_LETTERS] if isinstance(given, str) else ""

    def _describe(self, producer: WaitingPublisher) -> None:
        """Say what blocks a producer, and for how long."""
        shape = self._add_producer(producer.name)
        if shape["blocked"]:
            return
        blocks: list[dict[str, object]] = []
        for gate in list(producer.gates.values()):
            since = producer.entry(gate).since
            self._add_gate(gate)
            blocked_s = 0.0 if since is None else self._now - since
            blocks.append({"gate": _gate_id(gate), "blocked_s": round(blocked_s, 1)})
        shape["blocked"] = blocks
        shape["held"] = _held(producer)
        shape["withheld"] = views.withheld_by(producer)
        shape["ticket"] = int(producer.ticket) if producer.gate is not None else None

    def _add_gate(self, gate: Gate) -> None:
        if id(gate) in self._gates:
            return
        stats = gate.stats
        closed_for = 0.0 if stats.since is None else self._now - stats.since
        line = heapq.nsmallest(LINE_SHOWN, [*gate.waiters, *gate.requests], key=_turn)
        words = text_of(gate)
        self._gates[id(gate)] = {
            "id": _gate_id(gate),
            "kind": gate.kind,
            "name": gate.name,
            "title": words.name(gate),
            "vhost": words.vhost(gate),
            "open": gate.open,
            "closed_for_s": None if stats.since is None else round(closed_for, 1),
            "closed_s": round(stats.closed_s + closed_for, 2),
            "crossings": stats.transitions,
            "blocked": len(gate.blocked),
            "waiting": gate.in_line(),
            "line": [_waiter(waiter) for _, _, waiter in line],
        }

    def _add_readers(self, queue: Queue, number: str) -> None:
        """Add the first consumers and cursors of a queue."""
        for consumer in consumers_of(queue, READERS_EACH):
            self._readers.append(self._consumer(consumer, number))
        for cursor in queue.cursors[:READERS_EACH]:
            self._readers.append(self._cursor(cursor, queue, number))

    def _consumer(self, consumer: Consumer, number: str) -> dict[str, object]:
        name = f"c{id(consumer)}"
        obstacles = [] if consumer.queue.available() == 0 else consumer.obstacles(self._now)
        return {
            "id": name,
            "kind": "consumer",
            "name": consumer.tag,
            "of": consumer.session.name,
            "client": self._client(consumer.session.name),
            "queue": number,
            "unacknowledged": int(consumer.credit.out),
            "prefetch": int(consumer.prefetch) or None,
            "rate": self._rate(name, consumer.delivered),
            "obstacles": obstacles,
        }

    def _cursor(self, cursor: Cursor, queue: Queue, number: str) -> dict[str, object]:
        position = cursor.positions[queue.name]
        name = f"r{id(position)}"
        return {
            "id": name,
            "kind": "lease" if cursor.is_lease else "cursor",
            "name": cursor.name,
            "of": cursor.reader_name,
            "client": "",
            "queue": number,
            "unacknowledged": int(position.planned - position.settled),
            "prefetch": None,
            "lag": int(queue.tail - position.settled),
            "rate": self._rate(name, position.settled),
            "obstacles": [],
        }

    def _rate(self, name: str, moved: i64) -> float | None:
        """Return the rate of a reader since the map before; None if it was not there."""
        self.readers_seen[name] = int(moved)
        before = self._before.get(name)
        if before is None or self._seconds <= 0:
            return None
        return round(max(float(moved - before), 0.0) / self._seconds, 1)


def _gate_id(gate: Gate) -> str:
    return f"g{id(gate)}"


def _weight(sender: tuple[str, int]) -> int:
    return sender[1]


def _turn(entry: tuple[i64, i64, Waiter]) -> tuple[int, int]:
    return int(entry[0]), int(entry[1])


def _waiter(waiter: Waiter) -> dict[str, object]:
    """Return one that waits in line: its name, its ticket, and what it waits with."""
    ticket = int(waiter.ticket)
    if isinstance(waiter, SenderCredit):
        return {"name": waiter.producer.name, "ticket": ticket, "for": "credit", "held": 0}
    held = _held(waiter) if isinstance(waiter, WaitingPublisher) else 0
    name = waiter.name if isinstance(waiter, WaitingPublisher) else ""
    return {"name": name, "ticket": ticket, "for": "publish", "held": held}


def _held(producer: WaitingPublisher) -> int:
    """Return the number of held publishes, of the first `HELD_COUNTED` entries."""
    found = 0
    for index, held in enumerate(producer.outbox):
        if index == HELD_COUNTED:
            break
        found += int(held.messages)
    return found
