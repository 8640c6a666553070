"""Drain: a receiver asks for what can be delivered now, and to be told when that is all (AMQP 1.0, section 2.6.7).

Theory of operation. Whatever changes what a consumer may get schedules its queue: arrivals, requeued messages, pages
from the disk, room in the output. So the question is asked when the queue has been served and nothing of it is
scheduled. Then the credit that is left is given up, and the session is told with the effects of the turn.

A consumer is drained when nothing can be delivered to it without an event from outside. What would come by itself is
waited for: pages that are on the disk or on their way to it, messages being requeued, the rest of a scan, and the
output of its connection. What depends on the receiver, or on others, is not: its byte window, its rate, and a queue
whose single active consumer is another one. An adaptive window does not apply meanwhile: the receiver knows what it
asks for.
"""

from __future__ import annotations

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.consumer_lists import LISTED, READY, UNMATCHED
from penstock.core.consume.rotation import rotation_of
from penstock.core.queue.queue import Queue
from penstock.flow.credit import LinkCredit


def request_drain(consumer: Consumer) -> None:
    """Give up the credit of a subscribed consumer as soon as it is drained, after the deliveries of this turn.

    `Session.on_drained` is called then, once; also if the deliveries have used up the credit.
    """
    rotation = rotation_of(consumer.queue)
    if rotation is not None and consumer.broker is not None:
        rotation.draining[consumer] = None
        if consumer.adaptive_window is not None:
            consumer.adaptive_window.lift(True)
        consumer.broker.schedule_delivery(consumer.queue)


def cancel_drain(consumer: Consumer) -> None:
    """Withdraw a request; its receiver has said `drain=false`."""
    rotation = rotation_of(consumer.queue)
    if rotation is not None:
        rotation.draining.pop(consumer, None)
    _end_lift(consumer)


def drained_consumers(queue: Queue) -> list[tuple[Consumer, int]]:
    """Return the consumers of a queue that are drained now, each with the credit that it gave up."""
    rotation = rotation_of(queue)
    if rotation is None:
        return []
    found: list[tuple[Consumer, int]] = []
    for consumer in list(rotation.draining):
        if is_drained(consumer):
            del rotation.draining[consumer]
            _end_lift(consumer)
            credit = consumer.credit
            found.append((consumer, int(credit.drain()) if isinstance(credit, LinkCredit) else 0))
    return found


def _end_lift(consumer: Consumer) -> None:
    if consumer.adaptive_window is not None:
        consumer.adaptive_window.lift(False)


def is_drained(consumer: Consumer) -> bool:
    """Return whether nothing can be delivered to a consumer without an event from outside."""
    queue = consumer.queue
    credit = consumer.credit
    if credit.left() == 0:
        return not (isinstance(credit, LinkCredit) and credit.paused)
    if queue.scheduled or queue.returning is not None or queue.reserved.arrival() is not None:
        return False
    scan = consumer.scan
    if scan is not None:
        # Of an empty queue a selector may have missed messages that others have meanwhile.
        if consumer.state == UNMATCHED or not scan.has_more() or (not scan.copies and queue.available() == 0):
            return not scan.is_reading()
    elif queue.available() == 0:
        return queue.pager is None or queue.pager.messages == 0
    return consumer.state != LISTED and consumer.state != READY
