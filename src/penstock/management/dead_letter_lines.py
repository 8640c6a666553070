"""Sentences of `penstock why` about the dead letters of a queue: waiting, without a target, or lost."""

from __future__ import annotations

from typing import Final

from penstock.core.broker import Broker
from penstock.core.publish.dead_letters import DeadLetterPublisher, publisher_of
from penstock.core.queue.queue import Queue
from penstock.settings.table import AT_LEAST_ONCE, AT_MOST_ONCE


def has_parked(queue: Queue) -> bool:
    """Return whether a queue has dead letters without a target."""
    letters = publisher_of(queue)
    return letters is not None and len(letters.parked) > 0


def parked_line(queue: Queue) -> str:
    """Return the sentence about the dead letters without a target of a queue that has such letters."""
    letters = publisher_of(queue)
    assert letters is not None
    count = len(letters.parked)
    have, they = ("has", "it keeps its") if count == 1 else ("have", "they keep their")
    return (
        f"{_of_queue(count, queue)} {have} no way ({AT_LEAST_ONCE}): {letters.parked[0].cause}; "
        f"{they} room in the queue until there is a way, or the queue is deleted"
    )


def sentences(queue: Queue, broker: Broker) -> list[str]:
    """Return the sentences about the dead letters of a queue; empty without dead letters to report."""
    lines: list[str] = []
    letters = publisher_of(queue)
    if letters is not None and letters.outbox:
        lines.append(_waiting(letters, broker))
    if has_parked(queue):
        lines.append(parked_line(queue))
    lost = int(queue.counters.rare.dead_letters_lost)
    if lost:
        advice = "" if queue.settings.dead_letter_strategy == AT_LEAST_ONCE else _ADVICE
        lines.append(f"{_of_queue(lost, queue)} {'was' if lost == 1 else 'were'} lost{advice}")
    return lines


_ADVICE: Final = (
    f" (dead-letter-strategy={AT_MOST_ONCE}): without room until a hold deadline, without a queue, or in a cycle; "
    f"dead-letter-strategy={AT_LEAST_ONCE} keeps them"
)


def _waiting(letters: DeadLetterPublisher, broker: Broker) -> str:
    count = len(letters.outbox)
    queue = letters.queue
    place = "" if letters.gate is None else f" at {letters.gate.kind} '{letters.gate.name}'"
    first = f"{_of_queue(count, queue)} {'waits' if count == 1 else 'wait'}{place}"
    if letters.keeps:
        return f"{first}, for as long as need be ({AT_LEAST_ONCE})"
    left = max(0.0, letters.outbox[0].deadline - broker.now)
    return f"{first}; the first of them is lost in {left:.1f} s ({AT_MOST_ONCE})"


def _of_queue(count: int, queue: Queue) -> str:
    return f"{count:,} dead {'letter' if count == 1 else 'letters'} of queue {queue.name}"
