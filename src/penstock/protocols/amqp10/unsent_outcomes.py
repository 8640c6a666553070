"""Deliveries of one incoming link whose outcome its sender does not know yet, by delivery-tag (section 2.6.13).

Only links that may be suspended have them: others need no tags.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.publish.producer import Producer
from penstock.flow.confirms import HELD, REFUSED
from penstock.wire.amqp10.composite import as_described, decode_composite
from penstock.wire.amqp10.disposition import ACCEPTED_STATE
from penstock.wire.amqp10.serial import serial_add, serial_distance

TAGS_MAX: Final = 2048
"""Most deliveries of a link; the oldest is forgotten beyond, and would be sent again."""

ATTACH_OCTETS: Final = 1024
"""Octets of the frame of an attach that are left for its other fields."""


class UnsentOutcomes:
    """Deliveries of one link by the numbers of its producer, and the outcomes that were sent but not settled."""

    def __init__(self) -> None:
        self._tags: dict[int, bytes] = {}
        """Tags by number, of publishes whose outcome was not sent."""
        self._awaited: dict[int, tuple[bytes, bytes]] = {}
        """Tag and state by delivery-id, of outcomes that their sender settles (rcv-settle-mode second)."""
        self.resumed: dict[bytes, bytes] = {}
        """States by tag that were decided before the link was resumed."""

    def add(self, number: i64, tag: bytes) -> None:
        """Record the tag of a publish."""
        if len(self._tags) >= TAGS_MAX:
            del self._tags[next(iter(self._tags))]
        self._tags[int(number)] = tag

    def sent(self, first: i64, last: i64) -> None:
        """Forget the publishes first..last: their outcome was sent, and is settled."""
        tags = self._tags
        number = first
        while number <= last and tags:
            tags.pop(int(number), None)
            number += 1

    def await_settlement(self, first: i64, last: i64, delivery_id: i64, state: bytes) -> None:
        """Record that the outcome of the publishes first..last was sent, and that their sender settles it."""
        number = first
        while number <= last:
            tag = self._tags.pop(int(number), None)
            if tag is not None:
                if len(self._awaited) >= TAGS_MAX:
                    del self._awaited[next(iter(self._awaited))]
                self._awaited[int((delivery_id + number - first) & 0xFFFFFFFF)] = (tag, state)
            number += 1

    def on_settled(self, first: i64, last: i64) -> i64:
        """Forget deliveries that their sender has settled; returns how many were looked up."""
        awaited = self._awaited
        count = serial_distance(first, last) + 1
        if count < len(awaited):
            for after in range(count):
                awaited.pop(int(serial_add(first, after)), None)
            return count if count > 0 else 0
        looked_at: i64 = len(awaited)
        for delivery_id in list(awaited):
            if serial_distance(first, delivery_id) >= 0 and serial_distance(delivery_id, last) >= 0:
                del awaited[delivery_id]
        return looked_at

    def outcomes(self, producer: Producer) -> dict[bytes, bytes]:
        """Return the states of all deliveries that are decided, by tag; those that are held are left out.

        A message that is in its queue is accepted, also if its outcome is withheld.
        """
        undecided = set()
        for pending in producer.confirms.pending:
            if pending.state == HELD or pending.state == REFUSED:
                undecided.add(int(pending.number))
        found = dict(self.resumed)
        for tag, state in self._awaited.values():
            found[tag] = state
        for number, tag in self._tags.items():
            if number not in undecided:
                found[tag] = ACCEPTED_STATE
        return found

    def resume(
        self, outcomes: dict[bytes, bytes], unsettled: dict[object, object], max_frame_size: i64
    ) -> tuple[dict[object, object], bool]:
        """Take over the outcomes of a suspended link, as far as the sender still has the deliveries.

        Returns the unsettled map for our attach, and whether it is incomplete: all of it has to fit into a frame.
        """
        found: dict[object, object] = {}
        room = max_frame_size - ATTACH_OCTETS
        for tag, state in outcomes.items():
            if tag in unsettled:
                self.resumed[tag] = state
                room -= len(tag) + len(state) + 8
                if room > 0:
                    found[tag] = as_described(decode_composite(state)[0])
        return found, len(found) < len(self.resumed)
