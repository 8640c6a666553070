"""Resumption of a receiver's link: its unsettled deliveries go on as both sides remember them (section 2.6.13).

| the receiver has | the delivery |
|---|---|
| an outcome | is settled with it; a resumed transfer without a payload tells so |
| the delivery without an outcome | is resumed: sent again from its beginning with its old delivery-tag |
| no such delivery | returns to its queue |

Resumed transfers use link credit like others, and come before new messages.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.consume.bulk_requeue import settle_batches
from penstock.core.consume.consumer import Batch
from penstock.core.consume.outcome import Outcome
from penstock.core.message import Message
from penstock.protocols.amqp10.delivery_outcomes import outcome_of
from penstock.protocols.amqp10.suspended_links import SuspendedReceiver
from penstock.wire.amqp10.composite import Composite, as_composite, as_described
from penstock.wire.amqp10.malformed import CodecError
from penstock.wire.amqp10.spec import ACCEPTED, MODIFIED

if TYPE_CHECKING:
    from penstock.protocols.amqp10.outgoing_link import OutgoingLink

ENTRY_OCTETS = 32
"""Octets of the frame of an attach that an entry of its unsettled map is counted with."""
ATTACH_OCTETS = 1024
"""Octets that are left for its other fields."""


class ResumedDelivery:
    """A delivery to be resumed: one message, or an outcome alone."""

    __slots__ = ("tag", "batch", "state")

    def __init__(self, tag: i64, batch: Batch | None, state: Composite | None) -> None:
        self.tag: i64 = tag
        self.batch = batch
        """The message; None if it is settled."""
        self.state = state


class Resumption:
    """Deliveries of one link that it has from a suspended one."""

    def __init__(self, link: OutgoingLink) -> None:
        self._link = link
        self._waiting: deque[ResumedDelivery] = deque()
        """Those that wait for credit."""
        self._tags: dict[int, int] = {}
        """Delivery-tags of those that were sent, by number: all others of the link have theirs by their number."""

    def begin(self, suspended: SuspendedReceiver, unsettled: dict[object, object]) -> None:
        """Take over what is suspended; `unsettled` is the map of the receiver's attach."""
        suspended.collect()
        link = self._link
        link.tag_base = suspended.next_tag - link.session.unsettled.next_number
        back: list[Batch] = []
        settled: dict[Outcome, list[Batch]] = {}
        for batch in suspended.batches:
            for index, message in enumerate(batch.messages):
                if message is None:
                    continue
                tag = batch.first + index
                octets = int(tag).to_bytes(8, "big")
                one = _single(link, tag, message, batch.at)
                if octets not in unsettled:
                    back.append(one)
                    continue
                state = _state(unsettled[octets])
                if state is None or not ACCEPTED <= state.code <= MODIFIED:
                    self._waiting.append(ResumedDelivery(tag, one, None))
                    continue
                settled.setdefault(outcome_of(state.code, state), []).append(one)
                self._waiting.append(ResumedDelivery(tag, None, state))
        suspended.batches = []
        broker = link.session.broker
        settle_batches(broker, back, Outcome.RELEASED)
        for outcome in settled:
            settle_batches(broker, settled[outcome], outcome)

    def unsettled(self) -> tuple[dict[object, object], bool]:
        """Return the unsettled map for our attach, and whether it is incomplete: all of it has to fit into a frame."""
        room = (self._link.session.engine.peer_max_frame_size - ATTACH_OCTETS) // ENTRY_OCTETS
        found: dict[object, object] = {}
        for delivery in self._waiting:
            if len(found) >= room:
                return found, True
            state = delivery.state
            found[int(delivery.tag).to_bytes(8, "big")] = None if state is None else as_described(state)
        return found, False

    def send(self) -> None:
        """Send what waits, as far as credit and window permit."""
        link = self._link
        session = link.session
        consumer = link.consumer
        while self._waiting and consumer.credit.left() > 0 and not session.stopped():
            delivery = self._waiting.popleft()
            number = session.unsettled.next_number
            session.unsettled.next_number = number + 1
            batch = delivery.batch
            charge: i64 = 0 if batch is None else batch.charge
            consumer.credit.spend(1, charge)
            if batch is None:
                consumer.credit.restore(1, charge)
                session.writer.write_outcome(link, number, delivery.tag, delivery.state)
                continue
            consumer.shared.spend(1, charge)
            consumer.delivered += 1
            batch.consumer = consumer
            batch.first = number
            batch.at = session.broker.now
            session.unsettled.add(batch)
            self._tags[int(number)] = int(delivery.tag)
            message = batch.messages[0]
            assert message is not None
            session.writer.write_resumed(link, number, delivery.tag, message)

    def take(self) -> list[Batch]:
        """Take the messages that still wait; the number of each is its delivery-tag."""
        waiting = self._waiting
        self._waiting = deque()
        return [each.batch for each in waiting if each.batch is not None]

    def tag_of(self, number: i64) -> i64:
        """Return the delivery-tag of a number."""
        return self._tags.get(int(number), int(number + self._link.tag_base))


def _single(link: OutgoingLink, tag: i64, message: Message, at: float) -> Batch:
    messages: list[Message | None] = [message]
    return Batch(link.consumer, tag, messages, message.charge, at)


def _state(value: object) -> Composite | None:
    try:
        return value if isinstance(value, Composite) else as_composite(value)
    except CodecError:
        return None
