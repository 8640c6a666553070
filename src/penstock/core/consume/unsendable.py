"""Messages that cannot be sent to a consumer: their content header is larger than a frame of its connection.

A client that gets such a frame closes its connection, the message is requeued, and the same happens again without end.
So the consumer passes the message over as if its selector did not match: the message stays in the queue for others, and
the consumer gets later messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.consume import rotation
from penstock.core.consume.scan import MessageFilter, SelectorScan
from penstock.core.message import Message

if TYPE_CHECKING:
    from penstock.core.consume.consumer import Consumer


def put_back_unsendable(consumer: Consumer, messages: list[Message | None], charge: i64) -> i64:
    """Put back messages that were taken for a consumer and cannot be sent to it; return the charge of the others.

    From then on the consumer scans its queue, and skips these messages.
    """
    queue, session = consumer.queue, consumer.session
    sendable: list[Message | None] = []
    for message in messages:
        assert message is not None
        if message.charge > session.sure_charge and session.passes_over(queue, message):
            queue.ready_queue.put_back(message)
            charge -= message.charge
        else:
            sendable.append(message)
    if len(sendable) == len(messages):
        return charge
    messages.clear()
    messages.extend(sendable)
    broker = consumer.broker
    if broker is not None and consumer.scan is None and rotation.is_subscribed(consumer):
        rotation.begin_scan(consumer, SelectorScan(consumer, MessageFilter(broker.formats), broker.work))
    return charge
