"""Rows of a flow map: its queues with their gates, producers and readers.

Ids are the ids of objects in the process. A closed gate of a queue is in the row of that queue by its id. Gates of
exchanges are in the rows of exchanges (describe/flow_map_roads.py). All other gates are shared: of a virtual host, of
the memory, of the disk, of a user or of a connection.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import Final

from mypy_extensions import i64

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.rotation import consumers_of
from penstock.core.gates.operator import QUEUE as SCOPE_QUEUE
from penstock.core.publish.admission import gates_of
from penstock.core.publish.dead_letters import DeadLetterPublisher
from penstock.core.publish.sender_credit import SenderCredit
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.cursor_state import CursorState
from penstock.core.queue.queue import Queue
from penstock.describe.flow_map_roads import Published, Roads, Shares, gate_id
from penstock.describe.gate import closed_s, text_of
from penstock.describe.listed import listed_unacknowledged
from penstock.describe.queue import QUEUE
from penstock.describe.session import withheld_by
from penstock.describe.table import DescribedNode, Reading, field_at
from penstock.flow.gate import Gate, Waiter

PRODUCERS_EACH: Final = 8
"""Most producers shown for one queue: blocked producers, then the busiest."""
QUEUES_EACH: Final = 8
"""Most queues of a held publish that have a road."""
READERS_EACH: Final = 6
"""Most consumers, and most cursors, shown for one queue."""
LINE_SHOWN: Final = 8
"""Most waiters shown at one gate, the next turn first."""
HELD_COUNTED: Final = 1_000
"""Most held publishes of one producer that are summed up."""
NUMBER_LETTERS: Final = 18
CLIENT_LETTERS: Final = 100
"""Most digits of a connection's number, and most characters of the name that its client chose."""

OF_QUEUE: Final = QUEUE.select(
    ["name", "vhost", "messages", "consumers"]
    + [f"penstock.{name}" for name in ("capacity", "stop", "resume", "fill_percent", "state")]
)
"""Fields of a queue that the map shows unchanged."""


Publishers = dict[str, WaitingPublisher]
"""Publishers by name."""


class Before:
    """Counts of what one map shows, from which the next one derives rates."""

    def __init__(self) -> None:
        self.moved: dict[str, int] = {}
        """Messages of each reader, by its id, and of each producer."""
        self.published = Published()


class MapRows:
    """Builder of one flow map. Its ids are the ids of objects in the process, and valid only for this map."""

    def __init__(self, node: DescribedNode, before: Before, seconds: float) -> None:
        """`before` are counts of the previous map, `seconds` ago (0 without one)."""
        self._node = node
        self._now = node.broker.now
        self._before = before
        self._seconds = seconds
        self.counts = Before()
        """Counts for the next map."""
        self._numbers: dict[Queue, str] = {}
        """Ids of the shown queues."""
        self._roads = Roads(node, before.published, seconds)
        self.counts.published = self._roads.published
        self._producers: dict[str, dict[str, object]] = {}
        self._gates: dict[int, dict[str, object]] = {}
        self._queues: list[dict[str, object]] = []
        self._readers: list[dict[str, object]] = []

    def as_dict(self) -> dict[str, object]:
        """Return the map as plain data."""
        shown = {"queues": self._queues, "readers": self._readers, **self._roads.as_dict()}
        chosen: dict[str, object] = {"longest": self._longest(), "nearest": self._nearest()}
        for gate in self._roads.closed_gates():
            self._add_gate(gate)
        return {"producers": list(self._producers.values()), "gates": list(self._gates.values()), **shown, **chosen}

    def _longest(self) -> str | None:
        """Return the id of the queue that is held longest; None if no queue is held."""
        held = [(float(str(field_at(queue, "state.held.for_s") or 0.0)), str(queue["id"])) for queue in self._queues
                if field_at(queue, "state.held") is not None]  # fmt: skip
        return max(held)[1] if held else None

    def _nearest(self) -> str | None:
        """Return the id of the queue whose gate closes next at its steady rate; None without a forecast."""
        soon = [(float(str(field_at(queue, "state.closes_in_s"))), str(queue["id"])) for queue in self._queues
                if field_at(queue, "state.closes_in_s") is not None]  # fmt: skip
        return min(soon)[1] if soon else None

    def add_queue(self, queue: Queue, in_rate: float, out_rate: float, shares: Shares, live: Publishers) -> None:
        """Add a queue with its gates, roads, producers and readers.

        Rates are in messages per second; `shares` are the samples of its arrivals, `live` the sampled publishers that
        have not ended.
        """
        gates = gates_of(queue)
        for gate in gates:
            if gate is queue.gate or not gate.open or gate.blocked:
                self._add_gate(gate)
        number = f"q{id(queue)}"
        self._numbers[queue] = number
        row = QUEUE.row(queue, Reading(self._now, self._node), OF_QUEUE)
        own = row.pop("penstock")
        assert isinstance(own, dict)
        self._queues.append(
            {
                "id": number,
                **row,
                **own,
                "bytes": int(queue.measure().bytes),
                "unacknowledged": listed_unacknowledged(queue),
                "paged": 0 if queue.pager is None or queue.pager.retains else int(queue.pager.messages),
                "in_rate": round(in_rate, 1),
                "out_rate": round(out_rate, 1),
                "gate": gate_id(queue.gate),
                "gates": [gate_id(gate) for gate in gates if id(gate) in self._gates],
                "cursors": len(queue.cursors),
            }
        )
        self._add_publishers(queue, number, in_rate, shares, live)
        self._add_readers(queue, number)

    def add_blocked(self, producer: WaitingPublisher) -> None:
        """Add a blocked producer with the gates that block it, and the road on which it was stopped."""
        row = self._add_producer(producer.name, producer)
        self._describe(producer)
        if self._roads.leads(producer.name):
            return
        vhost, exchange = str(row["vhost"] or ""), producer.stopped_exchange
        held = islice(producer.outbox[0].queues, QUEUES_EACH) if producer.outbox else ()
        numbers: list[str | None] = [self._numbers[queue] for queue in held if queue in self._numbers]
        for number in numbers or [None]:
            self._roads.add_edge(producer.name, vhost, exchange, number, None)

    def _add_publishers(self, queue: Queue, number: str, in_rate: float, shares: Shares, live: Publishers) -> None:
        """Add the producers that a queue blocks, the sampled publishers, and their roads."""
        total = sum(shares.values())
        waiters = [waiter for gate in own_gates(queue) for waiter in islice(gate.blocked.values(), PRODUCERS_EACH)]
        blocked = [each for each in dict.fromkeys(waiters) if isinstance(each, WaitingPublisher)][:PRODUCERS_EACH]
        known: dict[str, str | None] = {}
        for producer in blocked:
            sampled = [(weight, exchange) for (name, exchange), weight in shares.items() if name == producer.name]
            stopped = producer.stopped_exchange
            if stopped is None:
                stopped = max(sampled)[1] if sampled else self._roads.sole_source(queue)
            known[producer.name] = stopped
        stops = [exchange for exchange in known.values() if exchange is not None]
        self._roads.add_routes(queue, number, in_rate, shares, stops)
        for producer in blocked:
            self._add_producer(producer.name, producer)
            self._describe(producer)
            exchange = known[producer.name]
            weight = 0.0 if exchange is None else shares.get((producer.name, exchange), 0.0)
            rate = in_rate * weight / total if total else None
            self._roads.add_edge(producer.name, queue.vhost, exchange, number, rate)
        busiest = heapq.nlargest(PRODUCERS_EACH, shares.items(), key=lambda sender: sender[1])
        room = PRODUCERS_EACH - len(blocked)
        for (name, exchange), weight in busiest:
            if room > 0 and name in live and not (name in known and known[name] == exchange):
                room -= 1
                self._add_producer(name, live[name])
                self._roads.add_edge(name, queue.vhost, exchange, number, in_rate * weight / total)

    def _add_producer(self, name: str, publisher: WaitingPublisher) -> dict[str, object]:
        row = self._producers.get(name)
        if row is None:
            letters = publisher.queue if isinstance(publisher, DeadLetterPublisher) else None
            vhost, client = self._origin_of(name)
            row = {
                "name": name,
                "client": client,
                "vhost": vhost if letters is None else letters.vhost,
                "letters_of": None if letters is None else letters.name,
                "rate": self._rate(f"p {name}", publisher.accepted_messages),
                "blocked": [],
                "held": 0,
                "withheld": 0,
                "ticket": None,
            }
            self._producers[name] = row
        return row

    def _origin_of(self, name: str) -> tuple[str | None, str]:
        """Return the virtual host of a connection, and the name that its client chose.

        `name` begins with the name of the connection: con:2(...).
        """
        number = name.removeprefix("con:").partition("(")[0]
        if not number.isdecimal() or len(number) > NUMBER_LETTERS:
            return None, ""
        connection = self._node.connections.get(int(number))
        if connection is None:
            return None, ""
        given = connection.peer.properties.get("connection_name")
        vhost = None if connection.vhost is None else connection.vhost.name
        return vhost, given[:CLIENT_LETTERS] if isinstance(given, str) else ""

    def _describe(self, producer: WaitingPublisher) -> None:
        """Describe the gate that blocks a producer, and the time."""
        row = self._add_producer(producer.name, producer)
        if row["blocked"]:
            return
        blocks: list[dict[str, object]] = []
        for gate in list(producer.gates.values()):
            since = producer.entry(gate).since
            self._add_gate(gate)
            blocked_s = 0.0 if since is None else self._now - since
            blocks.append({"gate": gate_id(gate), "blocked_s": round(blocked_s, 1)})
        ticket = int(producer.ticket) if producer.gate is not None else None
        waits = {"held": _held(producer), "withheld": withheld_by(producer), "ticket": ticket}
        row.update({"blocked": blocks, **waits})

    def _add_gate(self, gate: Gate) -> None:
        if id(gate) in self._gates:
            return
        stats = gate.stats
        line = heapq.nsmallest(LINE_SHOWN, [*gate.waiters, *gate.requests], key=lambda each: (each.ticket, each.order))
        words = text_of(gate)
        self._gates[id(gate)] = {
            "id": gate_id(gate),
            "kind": gate.kind,
            "name": gate.name,
            "title": words.name(gate),
            "vhost": words.vhost(gate),
            "open": gate.open,
            "closed_for_s": None if stats.since is None else round(self._now - stats.since, 1),
            "closed_s": round(closed_s(gate, self._now), 2),
            "crossings": stats.transitions,
            "blocked": len(gate.blocked),
            "waiting": gate.in_line(),
            "line": [_waiter(waiter) for waiter in line],
            "reason": None if gate.kind == "queue" else _reason(gate, self._now),
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
            "client": self._origin_of(consumer.session.name)[1],
            "queue": number,
            "unacknowledged": int(consumer.credit.out),
            "prefetch": int(consumer.prefetch) or None,
            "rate": self._rate(name, consumer.delivered),
            "obstacles": obstacles,
        }

    def _cursor(self, cursor: CursorState, queue: Queue, number: str) -> dict[str, object]:
        position = cursor.positions[queue.name]
        name = f"r{id(position)}"
        return {
            "id": name,
            "kind": "cursor" if cursor.lease is None else "lease",
            "name": cursor.name,
            "of": cursor.reader_name,
            "client": "",
            "queue": number,
            "unacknowledged": int(position.planned - position.settled),
            "prefetch": None,
            "lag": int((queue.tail if cursor.lease is None else position.planned) - position.settled),
            "rate": self._rate(name, position.settled),
            "obstacles": [],
        }

    def _rate(self, name: str, moved: i64) -> float | None:
        """Return the rate of a reader or producer since the previous map; None if it was not in that map."""
        self.counts.moved[name] = int(moved)
        before = self._before.moved.get(name)
        if before is None or self._seconds <= 0:
            return None
        return round(max(float(moved - before), 0.0) / self._seconds, 1)


def own_gates(queue: Queue) -> list[Gate]:
    """Return the gate of a queue, and the operator's gate of this queue."""
    held = [gate for gate in queue.gates if gate.kind == "operator" and gate.name.startswith(f"{SCOPE_QUEUE} ")]
    return [queue.gate, *held]


def _reason(gate: Gate, now: float) -> str:
    """Return why a gate is closed, in one sentence; of the operator's gates the reason that was given, or empty."""
    words = text_of(gate)
    return words.cause(gate, now) if gate.kind == "operator" else words.reason(gate, now)


def _waiter(waiter: Waiter) -> dict[str, object]:
    """Return the row of a waiting publisher: its name, its ticket, and its waiting amount."""
    ticket = int(waiter.ticket)
    if isinstance(waiter, SenderCredit):
        return {"name": waiter.producer.name, "ticket": ticket, "for": "credit", "held": 0}
    held = _held(waiter) if isinstance(waiter, WaitingPublisher) else 0
    name = waiter.name if isinstance(waiter, WaitingPublisher) else ""
    return {"name": name, "ticket": ticket, "for": "publish", "held": held}


def _held(producer: WaitingPublisher) -> int:
    """Return the number of held publishes, of the first `HELD_COUNTED` entries."""
    return sum([int(held.messages) for held in islice(producer.outbox, HELD_COUNTED)])
