"""The flow map: producers, gates, queues and readers with the present rates between them, for the console.

Theory of operation. A map is collected in steps while consoles watch, and all watch the same map. It counts all queues
and producers, and shows the `QUEUES_SHOWN` most relevant queues: queues that block producers, then the busiest, then
the deepest. Rates are differences to the previous map. The part of a producer in the arrivals of a queue is estimated
from samples (core/queue/counters.py) of the flow log, or without a flow log from the map's own.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import Final

from mypy_extensions import i64

from penstock.access.permission import ADMINISTRATOR
from penstock.access.rules import Rules
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.rotation import consumers_of
from penstock.core.publish.admission import gates_of
from penstock.core.publish.sender_credit import SenderCredit
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.counters import LastLook
from penstock.core.queue.cursor_state import CursorState
from penstock.core.queue.queue import Queue
from penstock.describe.gate import closed_s, text_of
from penstock.describe.listed import listed_unacknowledged
from penstock.describe.lists import Best
from penstock.describe.message_stats import Depths
from penstock.describe.queue import QUEUE
from penstock.describe.road import road_of
from penstock.describe.session import withheld_by
from penstock.describe.table import DescribedNode, Reading, field_at
from penstock.flow.gate import Gate, Waiter
from penstock.flow.level import UNLIMITED
from penstock.flow.work import Steps

QUEUES_SHOWN: Final = 24
"""Most queues of a map; the others are counted."""
BLOCKED_SHOWN: Final = 24
"""Most blocked producers of a map besides those of the shown queues: the longest blocked."""
QUEUES_A_STEP: Final = 100
"""Queues examined between two checks of the share of the slice."""
EXAMINED_A_UNIT: Final = 2
SHAPE_WORK: Final = 100
"""Queues or producers examined per unit of work, and units for one queue of the map with its producers and readers."""


PRODUCERS_EACH: Final = 8
"""Most producers shown for one queue: blocked producers, then the busiest."""
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


class Seen:
    """Counts of one queue in the last map that counted it."""

    __slots__ = ("number", "tail", "left", "in_rate", "out_rate")

    def __init__(self) -> None:
        self.number: i64 = 0
        """Number of the map."""
        self.tail: i64 = 0
        self.left: i64 = 0
        self.in_rate: float = 0.0
        """Messages per second that arrived, and that left."""
        self.out_rate: float = 0.0


class Totals:
    """Sums of one map over all objects that its user may see."""

    def __init__(self) -> None:
        self.depths = Depths()
        self.connections: i64 = 0
        self.channels: i64 = 0
        self.consumers: i64 = 0
        self.producers: i64 = 0
        self.blocked: i64 = 0
        """Blocked producers."""
        self.idle: i64 = 0
        """Queues without traffic since the last map, and with open gates."""
        self.in_rate: float = 0.0
        self.out_rate: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """Return the sums as plain data."""
        return {
            "queues": int(self.depths.queues),
            **self.depths.row(),
            "closed_queues": int(self.depths.closed),
            "idle_queues": int(self.idle),
            "connections": int(self.connections),
            "channels": int(self.channels),
            "consumers": int(self.consumers),
            "producers": int(self.producers),
            "blocked_producers": int(self.blocked),
            "in_rate": round(self.in_rate, 1),
            "out_rate": round(self.out_rate, 1),
        }


class FlowMap:
    """Consecutive maps for one set of permissions."""

    def __init__(self, node: DescribedNode, rules: Rules | None, samples: bool) -> None:
        """Without `rules` (None) everything is shown. `samples`: sample arrivals, because there is no flow log."""
        self.node = node
        self.rules = rules
        self._samples = samples
        self._stopped: bool = False
        self._sampled: dict[Queue, None] = {}
        self._number: i64 = 0
        """Number of the present or last map."""
        self._seen: dict[Queue, Seen] = {}
        """Counts of the queues; reused from map to map, because ten thousand new objects are work for the garbage
        collector.
        """
        self._readers: dict[str, int] = {}
        """Messages of the readers shown last, so far."""
        self._senders: dict[Queue, dict[str, int]] = {}
        """Sampled publishers of the queues shown last, with the number of their messages."""
        self._at: float = 0.0
        """Time of the last map (monotonic seconds); 0 before the first."""

    def sees(self, vhost: str) -> bool:
        """Return whether the queues of a virtual host are shown, as lists show them."""
        return self.rules is None or self.rules.enters(vhost) or self.rules.has_tag(ADMINISTRATOR)

    def steps(self) -> Steps[dict[str, object]]:
        """Return the next map. `seconds` is the time since the previous map, 0 for the first, which has no rates."""
        broker = self.node.broker
        began = broker.now
        seconds = began - self._at if self._at else 0.0
        totals = Totals()
        queues = yield from self._queue_steps(totals, seconds)
        senders = self._senders_of(queues)
        blocked = yield from self._producer_steps(totals, senders)
        self._senders = senders
        self._at = began
        self._sample(queues)
        rows = MapRows(self.node, self._readers, seconds)
        for queue in queues:
            if not queue.deleted:
                seen = self._seen[queue]
                rows.add_queue(queue, seen.in_rate, seen.out_rate, senders[queue])
                self._renew_samples(queue, seen.in_rate)
            if broker.work.spend(SHAPE_WORK):
                yield
        for producer in blocked:
            rows.add_blocked(producer)
        self._readers = rows.readers_seen
        more = int(totals.depths.queues) - len(queues)
        return {"seconds": round(seconds, 3), "totals": totals.as_dict(), "more_queues": more, **rows.as_dict()}

    def stop(self) -> None:
        """Stop the samples, because no console watches any more."""
        self._stopped = True
        for queue in self._sampled:
            _stop_samples(queue)
        self._sampled.clear()

    def _queue_steps(self, totals: Totals, seconds: float) -> Steps[list[Queue]]:
        """Count all queues, and return the most relevant."""
        work = self.node.broker.work
        self._number += 1
        best: Best[Queue] = Best(QUEUES_SHOWN, True)
        for vhost in list(self.node.broker.vhosts.values()):
            if not self.sees(vhost.name):
                continue
            for part in vhost.roll.parts(QUEUES_A_STEP):
                for queue in part:
                    if not queue.deleted:
                        best.offer((self._count(queue, totals, seconds),), queue)
                if work.spend(1 + QUEUES_A_STEP // EXAMINED_A_UNIT):
                    yield
        if len(self._seen) > totals.depths.queues:
            yield from self._forget_steps()
        return best.ranked()

    def _forget_steps(self) -> Steps[None]:
        """Forget the queues deleted since the previous map."""
        work = self.node.broker.work
        known = list(self._seen)
        for start in range(0, len(known), QUEUES_A_STEP):
            for queue in known[start : start + QUEUES_A_STEP]:
                if self._seen[queue].number < self._number:
                    del self._seen[queue]
            if work.spend(1 + QUEUES_A_STEP // EXAMINED_A_UNIT):
                yield

    def _count(self, queue: Queue, totals: Totals, seconds: float) -> float:
        """Count one queue; return its relevance."""
        depth = queue.depth_messages()
        tail = queue.tail
        left = tail - depth
        now = self._seen.get(queue)
        if now is None:
            now = Seen()
            self._seen[queue] = now
        elif seconds > 0:
            now.in_rate = max(float(tail - now.tail) / seconds, 0.0)
            now.out_rate = max(float(left - now.left) / seconds, 0.0)
        now.number = self._number
        now.tail = tail
        now.left = left
        totals.depths.add(queue)
        totals.consumers += len(queue.consumers)
        totals.in_rate += now.in_rate
        totals.out_rate += now.out_rate
        gate = queue.gate
        if gate.blocked:
            return 4e9
        if not gate.open:
            return 3e9
        broker = self.node.broker
        if broker.gates.operator_gates and road_of(queue, broker).closed:
            return 3e9
        rate = now.in_rate + now.out_rate
        if rate == 0:
            totals.idle += 1
        if rate > 0:
            return 2e9 + min(rate, 9e8)
        return min(float(depth), 9e8)

    def _senders_of(self, queues: list[Queue]) -> dict[Queue, dict[str, int]]:
        """Return the publishers that were sampled last, queue by queue."""
        senders: dict[Queue, dict[str, int]] = {}
        for queue in queues:
            look = queue.counters.last_look
            fresh: dict[str, int] = {} if look is None or look.arrivals is None else look.arrivals.senders
            senders[queue] = dict(fresh) if fresh else self._senders.get(queue, {})
        return senders

    def _producer_steps(self, totals: Totals, senders: dict[Queue, dict[str, int]]) -> Steps[list[WaitingPublisher]]:
        """Count connections and producers, and return the producers that are blocked longest.

        Publishers that have ended are removed from the samples.
        """
        work = self.node.broker.work
        sampled = {name for each in senders.values() for name in each}
        live: set[str] = set()
        for connection in list(self.node.connections.values()):
            if connection.vhost is not None and self.sees(connection.vhost.name):
                totals.connections += 1
                totals.channels += len(connection.engine.sessions())
            if work.spend(1):
                yield
        longest: Best[WaitingPublisher] = Best(BLOCKED_SHOWN, True)
        for origin in list(self.node.broker.gates.connections):
            for producer in origin.producers:
                totals.producers += 1
                if producer.name in sampled:
                    live.add(producer.name)
                if producer.gates:
                    totals.blocked += 1
                    longest.offer((-blocked_since(producer),), producer)
            if work.spend(1 + len(origin.producers) // EXAMINED_A_UNIT):
                yield
        for queue, each in senders.items():
            senders[queue] = {name: weight for name, weight in each.items() if name in live}
        return longest.ranked()

    def _sample(self, queues: list[Queue]) -> None:
        """Sample the arrivals of exactly these queues."""
        if not self._samples or self._stopped:
            return
        shown = dict.fromkeys(queues)
        for queue in list(self._sampled):
            if queue not in shown:
                _stop_samples(queue)
                del self._sampled[queue]
        for queue in shown:
            if queue not in self._sampled and queue.counters.last_look is None:
                queue.counters.begin_sampling(LastLook(self._at))
                self._sampled[queue] = None

    def _renew_samples(self, queue: Queue, in_rate: float) -> None:
        """Begin the samples of the next map."""
        look = queue.counters.last_look
        if queue in self._sampled and look is not None and look.arrivals is not None:
            look.arrivals.take_senders()
            queue.counters.next_sample = queue.tail + look.arrivals.fit(i64(in_rate))


def _stop_samples(queue: Queue) -> None:
    queue.counters.next_sample = UNLIMITED
    queue.counters.last_look = None


def blocked_since(producer: WaitingPublisher) -> float:
    """Return the time since which a producer is blocked (monotonic seconds)."""
    times = [producer.entry(gate).since for gate in producer.gates.values()]
    return min([since for since in times if since is not None], default=producer.broker.now)


# Shown rows


class MapRows:
    """Builder of one flow map. Its ids are the ids of objects in the process, and valid only for this map."""

    def __init__(self, node: DescribedNode, readers_before: dict[str, int], seconds: float) -> None:
        """`readers_before` are the readers of the previous map, `seconds` ago (0 without one)."""
        self._node = node
        self._now = node.broker.now
        self._before = readers_before
        self._seconds = seconds
        self.readers_seen: dict[str, int] = {}
        """Messages of each reader so far, by its id."""
        self._producers: dict[str, dict[str, object]] = {}
        self._gates: dict[int, dict[str, object]] = {}
        self._queues: list[dict[str, object]] = []
        self._readers: list[dict[str, object]] = []
        self._edges: list[dict[str, object]] = []
        """Edges from producers to queues, with the estimated rate; null without samples."""

    def as_dict(self) -> dict[str, object]:
        """Return the map as plain data."""
        shown = {"queues": self._queues, "readers": self._readers, "edges": self._edges}
        chosen: dict[str, object] = {"longest": self._longest(), "nearest": self._nearest()}
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

    def add_queue(self, queue: Queue, in_rate: float, out_rate: float, senders: dict[str, int]) -> None:
        """Add a queue with its gates, producers and readers.

        Rates are in messages per second; `senders` are the sampled publishers with the number of their messages.
        """
        gates = gates_of(queue)
        for gate in gates:
            if gate is queue.gate or not gate.open or gate.blocked:
                self._add_gate(gate)
        number = f"q{id(queue)}"
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
                "gate": _gate_id(queue.gate),
                "gates": [_gate_id(gate) for gate in gates if id(gate) in self._gates],
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
        """Add the producers that a queue blocks, and the sampled publishers."""
        total = sum(senders.values())
        shown = 0
        for waiter in list(queue.gate.blocked.values()):
            if shown < PRODUCERS_EACH and isinstance(waiter, WaitingPublisher):
                shown += 1
                self.add_blocked(waiter)
                share = senders.get(waiter.name, 0) / total if total else 0.0
                self._add_edge(waiter.name, number, in_rate * share if total else None)
        blocked = {edge["producer"] for edge in self._edges if edge["queue"] == number}
        busiest = heapq.nlargest(PRODUCERS_EACH, senders.items(), key=lambda sender: sender[1])
        for name, weight in busiest:
            if shown < PRODUCERS_EACH and name not in blocked:
                shown += 1
                self._add_producer(name)
                self._add_edge(name, number, in_rate * weight / total)

    def _add_edge(self, producer: str, queue: str, rate: float | None) -> None:
        self._edges.append({"producer": producer, "queue": queue, "rate": None if rate is None else round(rate, 1)})

    def _add_producer(self, name: str) -> dict[str, object]:
        row = self._producers.get(name)
        if row is None:
            row = {"name": name, "client": self._client(name), "blocked": []}
            row.update({"held": 0, "withheld": 0, "ticket": None})
            self._producers[name] = row
        return row

    def _client(self, name: str) -> str:
        """Return the name that a client chose for its connection; `name` begins with the connection's: con:2(...)."""
        number = name.removeprefix("con:").partition("(")[0]
        if not number.isdecimal() or len(number) > NUMBER_LETTERS:
            return ""
        connection = self._node.connections.get(int(number))
        given = None if connection is None else connection.peer.properties.get("connection_name")
        return given[:CLIENT_LETTERS] if isinstance(given, str) else ""

    def _describe(self, producer: WaitingPublisher) -> None:
        """Describe the gate that blocks a producer, and the time."""
        row = self._add_producer(producer.name)
        if row["blocked"]:
            return
        blocks: list[dict[str, object]] = []
        for gate in list(producer.gates.values()):
            since = producer.entry(gate).since
            self._add_gate(gate)
            blocked_s = 0.0 if since is None else self._now - since
            blocks.append({"gate": _gate_id(gate), "blocked_s": round(blocked_s, 1)})
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
            "id": _gate_id(gate),
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
        """Return the rate of a reader since the previous map; None if it was not in that map."""
        self.readers_seen[name] = int(moved)
        before = self._before.get(name)
        if before is None or self._seconds <= 0:
            return None
        return round(max(float(moved - before), 0.0) / self._seconds, 1)


def _gate_id(gate: Gate) -> str:
    return f"g{id(gate)}"


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
