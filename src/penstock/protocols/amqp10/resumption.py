"""Resumption of a receiver's link: its unsettled deliveries continue as both sides remember them (section 2.6.13).

| the receiver has | the delivery |
|---|---|
| an outcome | is settled with it; a resumed transfer without a payload reports that |
| the delivery without an outcome | is resumed: sent again from its beginning with its old delivery-tag |
| no such delivery | returns to its queue |

Resumed transfers use link credit like other transfers, and precede new messages.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.consume.bulk_requeue import settle_batches
from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.message import Message
from penstock.protocols.amqp10.delivery_outcomes import outcome_of
from penstock.protocols.amqp10.link import LinkKey
from penstock.protocols.amqp10.suspended_links import LONGEST_S, Expiry, SuspendedLink, SuspendedLinks
from penstock.wire.amqp10.composite import Composite, as_composite, as_described
from penstock.wire.amqp10.spec import ACCEPTED, MODIFIED
from penstock.wire.amqp10.values import CodecError

if TYPE_CHECKING:
    from penstock.protocols.amqp10.outgoing_link import OutgoingLink


SUSPENDED_DELIVERIES: Final = 2048
"""Most deliveries that a suspended link keeps, the oldest first; the others are released.

One flow may send all of them at once, in about 10 ms.
"""


RESUMED_BYTES: Final = 350
"""Memory of a resumed delivery beside its message: a batch of its own, and its delivery-tag."""


class SuspendedReceiver(SuspendedLink):
    """Suspended link of a receiver. The number of a batch is the delivery-tag of its first message."""

    def __init__(self, owner: SuspendedLinks, key: LinkKey, expiry: Expiry, consumer: Consumer, next_tag: i64) -> None:
        super().__init__(owner, key, expiry)
        self.queue = consumer.queue
        self.timeout_s: float = consumer.timeout_s()
        """Acknowledgement timeout of the link's former consumer, in seconds."""
        self.batches: list[Batch] = []
        self.next_tag: i64 = next_tag
        """Delivery-tag of the next message, new to the link."""
        self.detached: OutgoingLink | None = None
        """The detached link whose unsettled messages are still in its session; None if `batches` has all."""

    def keep(self, batches: list[Batch]) -> list[Batch]:
        """Keep the oldest deliveries, within the bound; return the others."""
        room: i64 = SUSPENDED_DELIVERIES
        for batch in self.batches:
            room -= batch.left
        for at, batch in enumerate(batches):
            if batch.left > room:
                rest = batches[at + 1 :]
                rest.insert(0, batch if room == 0 else _cut(batch, room))
                if room > 0:
                    self.batches.append(batch)
                return rest
            room -= batch.left
            self.batches.append(batch)
        return []

    def collect(self) -> None:
        """Take over the deliveries of the detached link from its session; deliveries beyond the bound are released."""
        link = self.detached
        self.detached = None
        if link is not None:
            rest = self.keep(link.take_unsettled())
            self.next_tag = link.next_tag()
            settle_batches(self.owner.broker, rest, Outcome.RELEASED)

    @override
    def on_session_ended(self) -> bool:
        if self.expiry.timeout_s > 0:
            self.collect()
            return True
        self.detached = None  # The session settles the deliveries with their outcome.
        return False

    @override
    def release(self) -> None:
        self.collect()
        batches = self.batches
        self.batches = []
        settle_batches(self.owner.broker, batches, Outcome.RELEASED)

    @override
    def longest_s(self) -> float:
        longest_s = min(LONGEST_S, self.timeout_s)
        return longest_s if self.detached is None else longest_s / 2  # Before the timeout returns the messages.


ENTRY_OCTETS = 32
"""Bytes in the frame of an attach that are counted for an entry of its unsettled map."""
ATTACH_OCTETS = 1024
"""Bytes of that frame that are reserved for its other fields."""


class ResumedDelivery:
    """A delivery to be resumed: one message, or an outcome alone."""

    __slots__ = ("tag", "batch", "state")

    def __init__(self, tag: i64, batch: Batch | None, state: Composite | None) -> None:
        self.tag: i64 = tag
        self.batch = batch
        """The message; None if the delivery is settled."""
        self.state = state


class Resumption:
    """Deliveries that one link has taken over from a suspended link."""

    def __init__(self, link: OutgoingLink) -> None:
        self._link = link
        self._waiting: deque[ResumedDelivery] = deque()
        """Deliveries that wait for credit."""
        self._tags: dict[int, int] = {}
        """Delivery-tags of resumed deliveries that were sent, by number; tags of other deliveries follow from their
        number."""
        self._bytes: i64 = 0
        """Bytes counted in the node's memory until the link ends."""

    def begin(self, suspended: SuspendedReceiver, unsettled: dict[object, object]) -> None:
        """Take over the suspended deliveries; `unsettled` is the map of the receiver's attach."""
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
        broker = link.session.broker
        for batch in suspended.batches:
            broker.work.done += len(batch.messages)
        suspended.batches = []
        self._bytes = len(self._waiting) * RESUMED_BYTES
        broker.gates.count_other_memory(self._bytes)
        settle_batches(broker, back, Outcome.RELEASED)
        for outcome in settled:
            settle_batches(broker, settled[outcome], outcome)

    def unsettled(self) -> tuple[dict[object, object], bool]:
        """Return the unsettled map for the broker's attach, and whether it is incomplete: the map must fit into a
        frame."""
        room = (self._link.session.endpoint.peer_max_frame_size - ATTACH_OCTETS) // ENTRY_OCTETS
        states: dict[object, object] = {}
        for delivery in self._waiting:
            if len(states) >= room:
                return states, True
            state = delivery.state
            states[int(delivery.tag).to_bytes(8, "big")] = None if state is None else as_described(state)
        return states, False

    def send(self) -> None:
        """Send waiting deliveries, within credit and window."""
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
        """Take the messages that still wait; the number of each batch is its delivery-tag."""
        waiting = self._waiting
        self._waiting = deque()
        return [each.batch for each in waiting if each.batch is not None]

    def end(self) -> None:
        """Release the memory: the link has ended."""
        self._link.session.broker.gates.count_other_memory(-self._bytes)
        self._bytes = 0

    def tag_of(self, number: i64) -> i64:
        """Return the delivery-tag of a number."""
        return self._tags.get(int(number), int(number + self._link.tag_base))


def _single(link: OutgoingLink, tag: i64, message: Message, at: float) -> Batch:
    messages: list[Message | None] = [message]
    return Batch(link.consumer, tag, messages, message.charge, at)


def _cut(batch: Batch, most: i64) -> Batch:
    """Remove all but the first `most` messages of a batch, and return the removed ones as a batch."""
    end: i64 = 0
    charge: i64 = 0
    left: i64 = 0
    while left < most:
        message = batch.messages[end]
        if message is not None:
            left += 1
            charge += message.charge
        end += 1
    rest = Batch(batch.consumer, batch.first + end, batch.messages[end:], batch.charge - charge, batch.at)
    rest.left = batch.left - left
    del batch.messages[end:]
    batch.left = left
    batch.charge = charge
    return rest


def _state(value: object) -> Composite | None:
    try:
        return value if isinstance(value, Composite) else as_composite(value)
    except CodecError:
        return None
