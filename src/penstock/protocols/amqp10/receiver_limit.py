"""Limit of a receiver: the largest message that it takes, by the max-message-size of its attach (section 2.7.3).

A larger message stays in its queue, for others. The link is detached with `amqp:link:message-size-exceeded`, so that
its client learns of it. What lies before that message in its batch is sent first.

What a delivery has in octets is known when it is written. So a consumer of such a link takes its messages unsettled,
and the deliveries of one with snd-settle-mode settled are accepted as soon as they are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.consume.bulk_requeue import settle_batches, settle_in_slices
from penstock.core.consume.consumer import Batch
from penstock.core.consume.outcome import Outcome
from penstock.errors import ContentTooLarge
from penstock.protocols.amqp10.link import SETTLED
from penstock.wire.amqp10.composite import Composite

if TYPE_CHECKING:
    from penstock.protocols.amqp10.delivery_writer import DeliveryWriter
    from penstock.protocols.amqp10.outgoing_link import OutgoingLink

UNLIMITED_FROM: Final = 1 << 62
"""Octets from which on a limit is none: no message is that large."""
ADDED_OCTETS: Final = 4096
"""Octets that header and annotations of a delivery add at most to twice the charge of its message."""


def limit_of(attach: Composite) -> ReceiverLimit | None:
    """Return the limit of the receiver that attaches; None if it has none."""
    most = attach.number("max_message_size", 0)
    if 0 < most < UNLIMITED_FROM:
        return ReceiverLimit(most, attach.number("snd_settle_mode") == SETTLED)
    return None


class ReceiverLimit:
    """The limit of one outgoing link."""

    def __init__(self, most: i64, settles: bool) -> None:
        self._most: i64 = most
        """Octets of the largest message."""
        self.settles: Final = settles
        """True if deliveries are sent settled."""

    def deliver(self, link: OutgoingLink, batch: Batch) -> None:
        """Write a batch up to the first message that is too large, and detach the link if that is the first one."""
        session = link.session
        fitting = self._fitting(session.writer, batch)
        if fitting == len(batch.messages):
            self._write(link, batch)
            return
        first, last = batch.first, batch.last()  # The batch shrinks as it is settled.
        browses = batch.consumer.browses()
        if fitting > 0:
            self._write(link, Batch(batch.consumer, first, batch.messages[:fitting], 0, batch.at))
        if not browses:
            settle_batches(session.broker, session.unsettled.detach(first + fitting, last), Outcome.RELEASED)
        if fitting > 0 and not browses:
            link.credit.take_back(last + 1 - first - fitting)  # The next batch begins with the message.
            return
        link.detach(
            ContentTooLarge(
                f"queue '{batch.consumer.queue.name}' has a message that is larger than the {self._most} octets that "
                f"link '{link.link_name}' takes"
            )
        )

    def _write(self, link: OutgoingLink, batch: Batch) -> None:
        session = link.session
        session.writer.write(link, batch)
        if self.settles and not batch.consumer.browses():
            settle_in_slices(session.broker, session, batch.first, batch.last(), Outcome.ACCEPTED)

    def _fitting(self, writer: DeliveryWriter, batch: Batch) -> i64:
        """Return the number of messages before the first one that is too large."""
        fitting: i64 = 0
        for message in batch.messages:
            if message is not None and 2 * message.charge + ADDED_OCTETS > self._most:
                if writer.octets_of(message) > self._most:
                    return fitting
            fitting += 1
        return fitting
