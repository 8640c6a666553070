"""Outcomes of deliveries, and their effect on the queue.

The outcomes of AMQP 1.0 (section 3.4) include the outcomes of AMQP 0-9-1: basic.ack is ACCEPTED, basic.nack and
basic.reject are REJECTED, and with requeue FAILED.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume import rotation
from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.scan import MessageFilter, SelectorScan
from penstock.core.deaths import REJECTED
from penstock.core.message import Message, StoredMessage
from penstock.core.message_format import MessageFormats
from penstock.core.queue.context import ContentChange
from penstock.core.queue.queue import Queue

EXCLUDED_MAX: Final = 1024
"""Messages that a consumer may exclude before its client is warned."""
HARD_MAX: Final = 2 * EXCLUDED_MAX
"""Most messages that a consumer excludes; further messages are delivered to it again."""


def exclude(consumer: Consumer, messages: list[Message | None]) -> None:
    """Exclude messages from delivery to a consumer, before they are requeued.

    No effect if the consumer is not subscribed any more.
    """
    broker = consumer.broker
    if broker is None or consumer.queue.features.type.retains or not rotation.is_subscribed(consumer):
        return  # A stream delivers each message once to each consumer.
    scan = consumer.scan
    if scan is None:
        scan = SelectorScan(consumer, MessageFilter(broker.formats), broker.work)
        rotation.begin_scan(consumer, scan)
    for message in messages:
        if message is not None and len(scan.filter.excluded) < HARD_MAX:
            scan.filter.excluded.add(int(message.sequence))


def excluded(consumer: Consumer) -> i64:
    """Return how many messages a consumer has excluded."""
    scan = consumer.scan
    return 0 if scan is None else len(scan.filter.excluded)


ADDED_OCTETS_MAX: Final = 1024
"""Most bytes that a settlement adds to a message; beyond, no headers are added."""
ADDING_COST: Final = 20
"""Units of work to add headers to a message."""


class AddedHeaders(ContentChange):
    """Headers that a settlement adds to its messages: annotations of `modified`, or the error of `rejected`."""

    def __init__(self, formats: MessageFormats, headers: dict[str, object]) -> None:
        self._formats = formats
        self.headers = headers

    @override
    def content_of(self, content: bytes) -> bytes | None:
        """Return the content with the headers; None if the format cannot carry them, or the content grows too much."""
        changed = self._formats.find(content).with_headers(content, self.headers)
        return None if changed is None or len(changed) - len(content) > ADDED_OCTETS_MAX else changed


class Outcome(IntEnum):
    """The outcome of a delivery. AMQP 1.0's `modified` is one of the last three outcomes: see `modified`."""

    ACCEPTED = 0
    """Processed: the message leaves its queue."""
    REJECTED = 1
    """Invalid: the message is dead-lettered, or dropped without a dead-letter exchange."""
    RELEASED = 2
    """Not processed: the message returns to its position, and no failure is counted."""
    FAILED = 3
    """Not processed: the message returns to its position, or is dead-lettered at its delivery limit."""
    UNDELIVERABLE = 4
    """Unsuitable for this consumer: dead-lettered, or requeued for other consumers if there is no dead-letter
    exchange.
    """


def modified(delivery_failed: bool, undeliverable_here: bool) -> Outcome:
    """Return the outcome for AMQP 1.0's `modified`, as RabbitMQ 4 understands its fields."""
    if undeliverable_here:
        return Outcome.UNDELIVERABLE
    return Outcome.FAILED if delivery_failed else Outcome.RELEASED


def is_rejection(outcome: Outcome, queue: Queue) -> bool:
    """Return whether a message of a queue is dead-lettered or dropped."""
    return outcome is Outcome.REJECTED or (outcome is Outcome.UNDELIVERABLE and queue.dead_letters is not None)


def settle_batch(batch: Batch, outcome: Outcome, now: float, added: AddedHeaders | None = None) -> None:
    """Settle the messages of a detached batch in its queue, where they still count as unacknowledged."""
    queue = batch.consumer.queue
    if outcome is Outcome.ACCEPTED:
        queue.unacked(-batch.left, -batch.charge)
        if queue.tracks_removals:
            queue.accept(batch.messages, now)
        queue.settle(batch.left, batch.charge, now)
        return
    rejection = is_rejection(outcome, queue)
    if outcome is Outcome.UNDELIVERABLE and not rejection:
        exclude(batch.consumer, batch.messages)
    for message in batch.messages:
        if message is not None:
            queue.unacked(-1, -message.charge)
            if rejection:
                queue.dead_letter(message, REJECTED, now, added)
                continue
            if added is not None:
                add_headers(queue, message, added, now)
            queue.requeue(message, now, outcome is Outcome.FAILED)


def add_headers(queue: Queue, message: Message, added: ContentChange, now: float) -> None:
    """Add headers to an unacknowledged message of a queue, if there is room for them. They are not stored.

    No effect for a stream, whose messages do not return.
    """
    if queue.features.type.retains:
        return
    content = added.content_of(message.content)
    if content is None:
        return
    growth: i64 = len(content) - len(message.content)
    if message.share is not None:
        return  # The address counts the message with its original charge.
    if growth > 0:
        if not queue.has_memory_for(0, growth):
            return
        for pool in queue.membership.pools:
            if not pool.has_room(0, growth, now):
                return
    message.content = content
    message.charge += growth
    queue.bytes += growth
    queue.counters.removed_bytes -= growth  # No message has entered the queue.
    if queue.storage is not None and isinstance(message, StoredMessage):
        queue.storage.grow(message, growth)
    queue.update_gate(now)
