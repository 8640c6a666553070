"""Outcomes of deliveries, and their effect on the queue.

They are those of AMQP 1.0 (section 3.4), which include those of AMQP 0-9-1: basic.ack is ACCEPTED, basic.nack and
basic.reject are REJECTED, and with requeue they are FAILED.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from penstock.core.death_record import REJECTED

if TYPE_CHECKING:
    from penstock.core.consume.consumer import Batch


class Outcome(IntEnum):
    """The outcome of a delivery. AMQP 1.0's `modified` is one of the last three: see `modified`."""

    ACCEPTED = 0
    """Processed: the message leaves its queue."""
    REJECTED = 1
    """Invalid: the message is dead-lettered, or dropped without a dead-letter exchange."""
    RELEASED = 2
    """Not processed: the message returns to its position, and no failure is counted."""
    FAILED = 3
    """Not processed: the message returns to its position, or is dead-lettered at its delivery limit."""
    UNDELIVERABLE = 4
    """Unsuitable for this consumer. A queue does not remember consumers for each message, so it counts as REJECTED."""


def modified(delivery_failed: bool, undeliverable_here: bool) -> Outcome:
    """Return the outcome for AMQP 1.0's `modified`, as RabbitMQ 4 understands its fields."""
    if undeliverable_here:
        return Outcome.UNDELIVERABLE
    return Outcome.FAILED if delivery_failed else Outcome.RELEASED


def is_rejection(outcome: Outcome) -> bool:
    """Return whether the message is dead-lettered or dropped."""
    return outcome is Outcome.REJECTED or outcome is Outcome.UNDELIVERABLE


def settle_batch(batch: Batch, outcome: Outcome, now: float) -> None:
    """Settle the messages of a detached batch in its queue, where they still count as unacknowledged."""
    queue = batch.consumer.queue
    if outcome is Outcome.ACCEPTED:
        queue.unacked(-batch.left, -batch.charge)
        if queue.tracks_removals:
            queue.release(batch.messages, now)
        queue.settle(batch.left, batch.charge, now)
        return
    rejection = is_rejection(outcome)
    for message in batch.messages:
        if message is not None:
            queue.unacked(-1, -message.charge)
            if rejection:
                queue.dead_letter(message, REJECTED, now)
            else:
                queue.requeue(message, now, outcome is Outcome.FAILED)
