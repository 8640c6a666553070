"""Removal of references in ended objects, so that reference counts free them without the garbage collector.

A queue and its parts refer to each other, and so do a producer and its client, or a session and its parts. The broker
collects ended objects (`Turns.ended`). The driver cuts their references at the end of a turn, after their last effects.
"""

from __future__ import annotations

from typing import Final

from penstock.core.consume.session import Session
from penstock.core.gates.operator import OperatorGate
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_listener import NO_CLIENT
from penstock.core.queue.counters import UnreportedLosses
from penstock.core.queue.overflow import POLICIES
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings
from penstock.core.queue.types import Features
from penstock.flow.gate import Gate
from penstock.flow.level import Level, Thresholds
from penstock.flow.turns import Turns, forget_returning


def _gone() -> Queue:
    """Return the deleted, empty queue that parts of deleted queues refer to."""
    settings = Settings(Thresholds(Level(), Level(), Level()), POLICIES["block"], {})
    settings.hold_deadline_s = 0.0
    queue = Queue("", "", settings, Turns(), UnreportedLosses(), Features())
    queue.deleted = True
    return queue


GONE: Final = _gone()


def unlink(ended: list[object]) -> None:
    """Cut the references of queues, producers, sessions and gates that have ended. Repeating it changes nothing."""
    for each in ended:
        if isinstance(each, Producer):
            unlink_producer(each)
        elif isinstance(each, Queue):
            unlink_queue(each)
        elif isinstance(each, Session):
            each.unlink()
        elif isinstance(each, OperatorGate):
            unlink_gate(each.gate, each.turns)


def unlink_producer(producer: Producer) -> None:
    """Cut the references to the client of a producer and to its credit."""
    producer.listener = NO_CLIENT
    producer.credit = None
    producer.transaction = None


def unlink_queue(queue: Queue) -> None:
    """Cut the references between a deleted queue and its parts, unless the parts have work left."""
    pager = queue.pager
    if queue.messages > 0 or queue.reserved.messages > 0 or queue.reserved.arrival() is not None:
        return
    if pager is not None:
        if pager.reading is not None or pager.unwritten:
            return
        pager.queue = GONE
    if queue.storage is not None:
        queue.storage.queue = GONE
    queue.membership.queue = GONE
    queue.reserved.queue = GONE
    queue.queue_expiry = None
    queue.dead_letters = None
    queue.delays = None
    queue.length = None
    queue.clearing = None
    unlink_gate(queue.gate, queue.turns)


def unlink_gate(gate: Gate, turns: Turns) -> None:
    """Cut the references of a gate whose owner has ended."""
    gate.owner = None
    forget_returning(gate)
    if gate.timer is not None:
        turns.timers.drop(gate.timer)
        gate.timer = None
