"""Deliveries of one incoming link whose outcome its sender does not know yet, by delivery-tag (section 2.6.13)."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.publish.producer import Producer
from penstock.flow.confirms import HELD, REFUSED
from penstock.protocols.amqp10.delivery_tags import TAGS_MAX, DeliveryTags, TagCount
from penstock.wire.amqp10.composite import as_described, decode_composite
from penstock.wire.amqp10.transfer import ACCEPTED_STATE
from penstock.wire.amqp10.values import serial_add, serial_distance

ATTACH_OCTETS: Final = 1024
"""Bytes in the frame of an attach that are reserved for its other fields."""


class UnsentOutcomes:
    """Deliveries of one link by the numbers of its producer, and outcomes that were sent but not settled."""

    __slots__ = ("_total", "tags", "_awaited", "_awaited_tags", "resumed")

    def __init__(self, total: TagCount) -> None:
        self._total = total
        self.tags = DeliveryTags(total)
        """Tags of publishes whose outcome was not sent."""
        self._awaited: dict[int, tuple[bytes, bytes]] = {}
        """Tag and state by delivery-id, of outcomes that the sender settles (rcv-settle-mode second)."""
        self._awaited_tags: set[bytes] = set()
        """Tags of these outcomes."""
        self.resumed: dict[bytes, bytes] = {}
        """States by tag that were decided before the link was resumed."""

    def follows(self, data: bytes, start: i64, stop: i64, number: i64) -> bool:
        """Take the tag of a beginning delivery and return True if the tag follows from the number (`DeliveryTags`).

        Return False, and do nothing, for any other tag, and while the connection stores tags; see `take`.
        """
        return self._total.count == 0 and self.tags.follows(data, start, stop, number)

    def take(self, data: bytes, start: i64, stop: i64, number: i64, reported: i64) -> bool:
        """Take the tag of a beginning delivery; return False if an unsettled delivery has it (`DeliveryTags.take`)."""
        if self._awaited or self.resumed:
            tag = data[start:stop]
            if tag in self._awaited_tags or tag in self.resumed:
                return False
        return self.tags.take(data, start, stop, number, reported)

    def end(self) -> None:
        """Drop all outcomes and tags: the link has ended."""
        self._total.remove(len(self._awaited) + len(self.resumed))
        self._awaited = {}
        self._awaited_tags = set()
        self.resumed = {}
        self.tags.end()

    def await_settlement(self, first: i64, last: i64, delivery_id: i64, state: bytes) -> None:
        """Record that the outcome of the publishes first..last was sent, and that their sender settles it."""
        for number in range(first, last + 1):
            tag = self.tags.tag_of(number)
            if tag is None:
                continue
            if len(self._awaited) >= TAGS_MAX or (self._awaited and not self._total.has_room()):
                self._settled(next(iter(self._awaited)))
            if self._total.has_room():
                self._awaited[int((delivery_id + number - first) & 0xFFFFFFFF)] = (tag, state)
                self._awaited_tags.add(tag)
                self._total.count += 1

    def _settled(self, delivery_id: int) -> None:
        known = self._awaited.pop(delivery_id, None)
        if known is not None:
            self._awaited_tags.discard(known[0])
            self._total.remove(1)

    def on_settled(self, first: i64, last: i64) -> i64:
        """Forget deliveries that the sender has settled; return the number of lookups."""
        awaited = self._awaited
        if not awaited:
            return 0
        count = serial_distance(first, last) + 1
        if count < len(awaited):
            for after in range(count):
                self._settled(int(serial_add(first, after)))
            return count if count > 0 else 0
        looked_at: i64 = len(awaited)
        for delivery_id in list(awaited):
            if serial_distance(first, delivery_id) >= 0 and serial_distance(delivery_id, last) >= 0:
                self._settled(delivery_id)
        return looked_at

    def take_resumed(self, tag: bytes) -> bytes | None:
        """Take the state of a resumed delivery; None for an unknown delivery."""
        state = self.resumed.pop(tag, None)
        if state is not None:
            self._total.remove(1)
        return state

    def outcomes(self, producer: Producer) -> dict[bytes, bytes]:
        """Return the states of all decided deliveries, by tag; held publishes are left out.

        A message in its queue is accepted, also if its outcome is withheld.
        """
        confirms = producer.confirms
        undecided = set()
        for pending in confirms.pending:
            if pending.state == HELD or pending.state == REFUSED:
                undecided.add(int(pending.number))
        outcomes = dict(self.resumed)
        for tag, state in self._awaited.values():
            outcomes[tag] = state
        for number in range(max(confirms.sent_upto + 1, confirms.published - TAGS_MAX + 1), confirms.published + 1):
            waiting = None if int(number) in undecided else self.tags.tag_of(number)
            if waiting is not None:
                outcomes[waiting] = ACCEPTED_STATE
        return outcomes

    def resume(
        self, outcomes: dict[bytes, bytes], unsettled: dict[object, object], max_frame_size: i64
    ) -> tuple[dict[object, object], bool]:
        """Take over the outcomes of a suspended link for the deliveries that the sender still has.

        Return the unsettled map for the broker's attach, and whether it is incomplete: the map must fit into a frame.
        """
        states: dict[object, object] = {}
        room = max_frame_size - ATTACH_OCTETS
        for tag, state in outcomes.items():
            if tag in unsettled and self._total.has_room():
                self.resumed[tag] = state
                self._total.count += 1
                room -= len(tag) + len(state) + 8
                if room > 0:
                    states[tag] = as_described(decode_composite(state)[0])
        return states, len(states) < len(self.resumed)
