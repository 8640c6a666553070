"""basic.get: delivery of one message without a subscription, after a read from disk if the message is paged out."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be

from penstock.core.consume.consumer import Batch
from penstock.core.queue.expiry import expire_slice, expire_steps
from penstock.core.queue.page_io import PageLoadListener
from penstock.core.queue.queue import Queue
from penstock.errors import ResourceError, ResourceLocked
from penstock.flow.work import Steps
from penstock.protocols.amqp091 import method_arguments as arg
from penstock.protocols.amqp091.channel import Channel
from penstock.protocols.amqp091.delivery_frames import write_u16
from penstock.protocols.amqp091.methods_topology import readable_queue
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.field_writer import encode_shortstr

WAITING_MAX: Final = 10_000
"""Most basic.get requests per queue that may wait for a read from disk.

Clients that await each answer stay far below.
"""


def get(channel: Channel, args: dict[str, object]) -> None:
    """Deliver one message without a subscription (section 1.8.3.10)."""
    queue = readable_queue(channel, args)
    if _is_left_to_cursors(queue):
        raise ResourceLocked(
            f"queue '{queue.name}' pages and is read by cursor '{queue.cursors[0].name}'; delete the cursor first"
        )
    channel.connection.services.deliver_first(queue)
    no_ack = arg.flag(args, "no_ack")
    pages = queue.pager
    if pages is not None and not queue.available() and len(pages.waiters) >= WAITING_MAX:
        raise ResourceError(
            f"{WAITING_MAX:,} requests wait for messages of queue '{queue.name}' that are read back from the disk; "
            "try again later"
        )
    if expire_slice(channel.broker, queue):
        _get(channel, queue, no_ack)
    else:
        channel.connection.services.start_asking(_get_fresh(channel, queue, no_ack), channel.connection)


def _is_left_to_cursors(queue: Queue) -> bool:
    return len(queue.cursors) > 0 and queue.pager is not None


def _get_fresh(channel: Channel, queue: Queue, no_ack: bool) -> Steps[None]:
    """Answer when all expired messages at the front are removed, which may take many turns."""
    yield from expire_steps(channel.broker, queue)
    if channel.is_open():
        if queue.deleted or _is_left_to_cursors(queue):  # The channel may have closed since the request.
            channel.count_get_empty(queue)
            channel.send(spec.BASIC_GET_EMPTY, {})
        else:
            _get(channel, queue, no_ack)


def _get(channel: Channel, queue: Queue, no_ack: bool) -> None:
    channel.broker.touch_queue(queue)
    if not _answer(channel, queue, no_ack):
        _Getting(channel, queue, no_ack).wait()


def _answer(channel: Channel, queue: Queue, no_ack: bool) -> bool:
    """Answer with a message, or that the queue is empty.

    Return False if the next message must first be read from disk.
    """
    batch = channel.get(queue, no_ack, channel.broker.now)
    if batch is None:
        if queue.waiting() > queue.ready_queue.held_back():
            return False
        channel.count_get_empty(queue)
        channel.send(spec.BASIC_GET_EMPTY, {})
        return True
    if not batch.consumer.no_ack:
        channel.await_settlement(batch)
    message = batch.messages[0]
    assert message is not None
    counted = channel.broker.formats.with_delivery_count(message) if queue.counts_returns() else message
    channel.send_content(_get_ok(channel, batch), counted.content)
    if batch.waits_for_disk:
        channel.connection.output.await_deliveries()
    return True


class _Getting(PageLoadListener):
    """basic.get request that waits for its message to be read from disk."""

    def __init__(self, channel: Channel, queue: Queue, no_ack: bool) -> None:
        self.channel = channel
        self.queue = queue
        self.no_ack = no_ack

    def wait(self) -> None:
        """Wait until the next page is in memory."""
        assert self.queue.pager is not None
        self.queue.pager.waiters.append(self)

    def on_loaded(self) -> None:
        """See `PageLoadListener.on_loaded`. Another consumer may have taken the message already."""
        if self.channel.is_open() and not _answer(self.channel, self.queue, self.no_ack):
            self.wait()


def _get_ok(channel: Channel, batch: Batch) -> bytes:
    message = batch.messages[0]
    assert message is not None
    payload = BytesWriter()
    write_i16_be(payload, 60)
    write_i16_be(payload, 71)
    write_i64_be(payload, batch.first)
    payload.append(1 if message.redelivered else 0)
    payload.write(encode_shortstr(message.envelope.exchange))
    payload.write(encode_shortstr(message.envelope.routing_key))
    count = int(batch.consumer.queue.waiting())
    out = BytesWriter()
    out.append(1)
    write_u16(out, channel.number)
    size = len(payload) + 4
    out.write(int(size).to_bytes(4, "big"))
    out.write(payload.getvalue())
    write_i32_be(out, min(count, 0x7FFFFFFF))
    out.append(0xCE)
    return out.getvalue()
