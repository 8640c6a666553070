"""Changed hold deadlines of held publishes and withheld confirms.

A changed hold deadline counts from now for publishes that already wait: shortening it does not expire them at once, and
an unlimited wait gets an end. A stopped producer has a whole hold deadline again.
"""

from __future__ import annotations

from penstock.core.publish import admission
from penstock.core.publish.connection_gates import ConnectionGates
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.flow.confirms import WITHHELD
from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER


def waiting_at(queues: dict[int, Queue], origins: list[ConnectionGates]) -> list[Producer]:
    """Return producers that may wait at these queues: producers of connections, and closed ones with held publishes."""
    producers: dict[int, Producer] = {}
    for origin in origins:
        for producer in origin.producers:
            producers[id(producer)] = producer
    for queue in queues.values():
        for waiter in [*queue.gate.waiters, *queue.gate.blocked.values()]:
            if isinstance(waiter, Producer):
                producers[id(waiter)] = waiter
    return list(producers.values())


def renew(producer: Producer, queues: dict[int, Queue], now: float) -> None:
    """Renew the deadlines of a producer's held publishes and withheld confirms at these queues (by identity)."""
    earliest = NEVER
    for held in producer.outbox:
        if any(id(queue) in queues for queue in held.queues):
            held.deadline = now + admission.hold_deadline_s(held.queues)
            earliest = min(earliest, held.deadline)
            if held.pending is not None:
                held.pending.deadline = held.deadline
    for pending in producer.confirms.pending:
        if pending.state == WITHHELD:
            hold_deadline_s = _hold_deadline_s(pending.road, queues)
            if hold_deadline_s is not None:
                pending.deadline = now + hold_deadline_s
                earliest = min(earliest, pending.deadline)
    producer.wake_at(earliest)
    for gate in producer.gates.values():
        if gate.kind != "queue" or id(gate.owner) in queues:
            # A gate that stopped the producer can stop it again only after a whole new deadline.
            producer.entry(gate).renewed = now


def _hold_deadline_s(gates: list[Gate], queues: dict[int, Queue]) -> float | None:
    own = [queues[id(gate.owner)].settings.hold_deadline_s for gate in gates if id(gate.owner) in queues]
    return min(own, default=None)
