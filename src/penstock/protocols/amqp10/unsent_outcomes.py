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

OF_CONNECTION_MAX: Final = 65_536
"""Most deliveries of all links of a connection, about 235 octets each. Beyond, a link forgets its own oldest."""

ATTACH_OCTETS: Final = 1024
"""Octets of the frame of an attach that are left for its other fields."""


class UnsentCount:
    """Number of deliveries of all links of one connection whose outcome their sender does not know yet."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count: i64 = 0


class UnsentOutcomes:
    """Deliveries of one link by the numbers of its producer, and the outcomes that were sent but not settled."""

    def __init__(self, total: UnsentCount) -> None:
        self._total = total
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
            self._total.count -= 1
        if self._has_room():
            self._tags[int(number)] = tag
            self._total.count += 1

    def _has_room(self) -> bool:
        """Return whether one more may be remembered; at the bound of the connection the oldest of the link goes."""
        if self._total.count < OF_CONNECTION_MAX:
            return True
        if self._awaited:
            del self._awaited[next(iter(self._awaited))]
        elif self._tags:
            del self._tags[next(iter(self._tags))]
        else:
            return False
        self._total.count -= 1
        return True

    def end(self) -> None:
        """Forget everything: the link has ended."""
        self._total.count -= len(self._tags) + len(self._awaited) + len(self.resumed)
        self._tags = {}
        self._awaited = {}
        self.resumed = {}

    def sent(self, first: i64, last: i64) -> None:
        """Forget the publishes first..last: their outcome was sent, and is settled."""
        tags = self._tags
        number = first
        while number <= last and tags:
            if tags.pop(int(number), None) is not None:
                self._total.count -= 1
            number += 1

    def await_settlement(self, first: i64, last: i64, delivery_id: i64, state: bytes) -> None:
        """Record that the outcome of the publishes first..last was sent, and that their sender settles it."""
        number = first
        while number <= last:
            tag = self._tags.pop(int(number), None)
            if tag is not None:
                if len(self._awaited) >= TAGS_MAX:
                    del self._awaited[next(iter(self._awaited))]
                    self._total.count -= 1
                self._awaited[int((delivery_id + number - first) & 0xFFFFFFFF)] = (tag, state)
            number += 1

    def on_settled(self, first: i64, last: i64) -> i64:
        """Forget deliveries that their sender has settled; returns how many were looked up."""
        awaited = self._awaited
        count = serial_distance(first, last) + 1
        if count < len(awaited):
            for after in range(count):
                if awaited.pop(int(serial_add(first, after)), None) is not None:
                    self._total.count -= 1
            return count if count > 0 else 0
        looked_at: i64 = len(awaited)
        for delivery_id in list(awaited):
            if serial_distance(first, delivery_id) >= 0 and serial_distance(delivery_id, last) >= 0:
                del awaited[delivery_id]
                self._total.count -= 1
        return looked_at

    def take_resumed(self, tag: bytes) -> bytes | None:
        """Take the state of a resumed delivery; None for one that is not known."""
        state = self.resumed.pop(tag, None)
        if state is not None:
            self._total.count -= 1
        return state

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
            if tag in unsettled and self._total.count < OF_CONNECTION_MAX:
                self.resumed[tag] = state
                self._total.count += 1
                room -= len(tag) + len(state) + 8
                if room > 0:
                    found[tag] = as_described(decode_composite(state)[0])
        return found, len(found) < len(self.resumed)
