"""The flow map: producers, gates, queues and readers with the present rates between them, for the console.

Theory of operation. A map is collected in steps while consoles watch, and all watch the same map. It counts all queues
and producers, and shows the `QUEUES_SHOWN` most relevant queues: queues that block producers, then the busiest, then
the deepest. Rates are differences to the previous map. The part of a producer in the arrivals of a queue is estimated
from samples (core/queue/counters.py) of the flow log, or without a flow log from the map's own
(describe/flow_map_roads.py). Rows are in describe/flow_map_rows.py.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.access.permission import ADMINISTRATOR
from penstock.access.rules import Rules
from penstock.connections.single_publish import HTTP_ORIGIN
from penstock.core.publish.connection_gates import ConnectionGates
from penstock.core.publish.dead_letters import DeadLetterPublisher
from penstock.core.publish.producer import Producer
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.counters import LastLook, Sender
from penstock.core.queue.queue import Queue
from penstock.describe.flow_map_roads import Shares, blended
from penstock.describe.flow_map_rows import Before, MapRows, Publishers
from penstock.describe.lists import Best
from penstock.describe.message_stats import Depths
from penstock.describe.queue_state import is_unread
from penstock.describe.road import road_of
from penstock.describe.table import DescribedNode
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
VHOSTS_SHOWN: Final = 24
"""Most virtual hosts with sums of their own: those with blocked producers, then the busiest, then the largest."""


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
    """Sums of one map over the objects of one virtual host, or of all that its user may see."""

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
        self.unread: i64 = 0
        """Those of them with messages that no consumer takes."""
        self.in_rate: float = 0.0
        self.out_rate: float = 0.0

    def add(self, other: Totals) -> None:
        """Add other sums."""
        self.depths.join(other.depths)
        self.connections += other.connections
        self.channels += other.channels
        self.consumers += other.consumers
        self.producers += other.producers
        self.blocked += other.blocked
        self.idle += other.idle
        self.unread += other.unread
        self.in_rate += other.in_rate
        self.out_rate += other.out_rate

    def rank(self) -> tuple[int, float, int]:
        """Return what is compared where there is room for some virtual hosts only."""
        return int(self.blocked), self.in_rate + self.out_rate, int(self.depths.queues)

    def as_dict(self) -> dict[str, object]:
        """Return the sums as plain data."""
        return {
            "queues": int(self.depths.queues),
            **self.depths.row(),
            "closed_queues": int(self.depths.closed),
            "idle_queues": int(self.idle),
            "unread_queues": int(self.unread),
            "connections": int(self.connections),
            "channels": int(self.channels),
            "consumers": int(self.consumers),
            "producers": int(self.producers),
            "blocked_producers": int(self.blocked),
            "in_rate": round(self.in_rate, 1),
            "out_rate": round(self.out_rate, 1),
        }


class SeenProducers:
    """Producers that a map has found among all."""

    def __init__(self, sampled: set[str]) -> None:
        self._sampled = sampled
        """Names of the publishers that were sampled."""
        self.live: Publishers = {}
        """Those that have not ended."""
        self.longest: Best[WaitingPublisher] = Best(BLOCKED_SHOWN, True)

    def look(self, origin: ConnectionGates, sums: Totals) -> None:
        """Count the producers of a connection."""
        for producer in origin.producers:
            if has_published(producer):
                sums.producers += 1
            if producer.name in self._sampled:
                self.live[producer.name] = producer
            if producer.gates:
                sums.blocked += 1
                self.longest.offer((-blocked_since(producer),), producer)


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
        self._before = Before()
        """Counts of what was shown last."""
        self._shares: dict[Queue, Shares] = {}
        """Samples of the queues shown last."""
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
        totals: dict[str, Totals] = {}
        queues = yield from self._queue_steps(totals, seconds)
        shares = {queue: blended(self._shares.get(queue, {}), _fresh(queue)) for queue in queues}
        seen = yield from self._producer_steps(totals, {name for each in shares.values() for name, _ in each})
        _add_letters(queues, seen.live)
        self._shares = shares
        self._at = began
        self._sample(queues)
        rows = MapRows(self.node, self._before, seconds)
        for queue in queues:
            if not queue.deleted:
                counts = self._seen[queue]
                rows.add_queue(queue, counts.in_rate, counts.out_rate, shares[queue], seen.live)
                self._renew_samples(queue, counts.in_rate)
            if broker.work.spend(SHAPE_WORK):
                yield
        for producer in seen.longest.ranked():
            rows.add_blocked(producer)
        self._before = rows.counts
        return {"seconds": round(seconds, 3), **_sums(totals, len(queues)), **rows.as_dict()}

    def stop(self) -> None:
        """Stop the samples, because no console watches any more."""
        self._stopped = True
        for queue in self._sampled:
            _stop_samples(queue)
        self._sampled.clear()

    def _queue_steps(self, totals: dict[str, Totals], seconds: float) -> Steps[list[Queue]]:
        """Count all queues, and return the most relevant."""
        work = self.node.broker.work
        self._number += 1
        best: Best[Queue] = Best(QUEUES_SHOWN, True)
        for vhost in list(self.node.broker.vhosts.values()):
            if not self.sees(vhost.name):
                continue
            sums = totals[vhost.name] = Totals()
            for part in vhost.roll.parts(QUEUES_A_STEP):
                for queue in part:
                    if not queue.deleted:
                        best.offer((self._count(queue, sums, seconds),), queue)
                if work.spend(1 + QUEUES_A_STEP // EXAMINED_A_UNIT):
                    yield
        if len(self._seen) > sum(int(each.depths.queues) for each in totals.values()):
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
            if depth > 0 and is_unread(queue, broker.now):
                totals.unread += 1
        if rate > 0:
            return 2e9 + min(rate, 9e8)
        return min(float(depth), 9e8)

    def _producer_steps(self, totals: dict[str, Totals], sampled: set[str]) -> Steps[SeenProducers]:
        """Count connections and producers, and find the sampled ones, and those that are blocked longest."""
        work = self.node.broker.work
        seen = SeenProducers(sampled)
        for connection in list(self.node.connections.values()):
            sums = None if connection.vhost is None else totals.get(connection.vhost.name)
            if sums is not None:
                sums.connections += 1
                sums.channels += len(connection.engine.sessions())
                if connection.origin is not None:
                    seen.look(connection.origin, sums)
                    work.count(len(connection.origin.producers) // EXAMINED_A_UNIT)
            if work.spend(1):
                yield
        if self.rules is None:  # Single publishes by HTTP have no connection, and several virtual hosts.
            sums = totals.setdefault("", Totals())
            for origin in list(self.node.broker.gates.connections):
                if origin.name == HTTP_ORIGIN:
                    seen.look(origin, sums)
                if work.spend(1):
                    yield
        return seen

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


def _fresh(queue: Queue) -> dict[Sender, int]:
    """Return the samples of a queue since the last look."""
    look = queue.counters.last_look
    return {} if look is None or look.arrivals is None else look.arrivals.senders


def _add_letters(queues: list[Queue], live: Publishers) -> None:
    """Add the publishers of the dead letters of these queues."""
    for queue in queues:
        letters = queue.dead_letters
        if isinstance(letters, DeadLetterPublisher):
            live[letters.name] = letters


def _sums(totals: dict[str, Totals], shown: int) -> dict[str, object]:
    """Return the sums of all virtual hosts, and of the most relevant ones."""
    everything = Totals()
    for each in totals.values():
        everything.add(each)
    named = sorted((name for name in totals if name), key=lambda name: totals[name].rank(), reverse=True)
    rows = [{"name": name, **totals[name].as_dict()} for name in named[:VHOSTS_SHOWN]]
    return {
        "totals": everything.as_dict(),
        "vhosts": rows,
        "more_vhosts": max(len(named) - VHOSTS_SHOWN, 0),
        "more_queues": int(everything.depths.queues) - shown,
    }


def _stop_samples(queue: Queue) -> None:
    queue.counters.next_sample = UNLIMITED
    queue.counters.last_look = None


def has_published(producer: Producer) -> bool:
    """Return whether a producer has published, or may: each channel of AMQP 0-9-1 has a producer, used or not."""
    if producer.accepted_messages > 0 or producer.credit is not None:
        return True
    return len(producer.gates) > 0 or producer.rest is not None or len(producer.outbox) > 0


def blocked_since(producer: WaitingPublisher) -> float:
    """Return the time since which a producer is blocked (monotonic seconds)."""
    times = [producer.entry(gate).since for gate in producer.gates.values()]
    return min([since for since in times if since is not None], default=producer.broker.now)
