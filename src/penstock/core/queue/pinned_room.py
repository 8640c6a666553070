"""Room that a query pins in shared limits, and what its own publishes may take beyond their capacity meanwhile.

Theory of operation. A query reads a queue through cursors and publishes its results to another queue of the same
virtual host. It settles what it has read only after its publishes are confirmed. If both queues count in one limit and
that is full, its publishes would wait for room that only its own settlement frees. So they are judged as a commit is
(decision 15): by what they add after what the query pins there is gone. While it has planned messages in a limit that
it has not settled, its publishes pass that limit's gate, as far as half of the capacity beyond it. What they took is
given back when the query settles, and when the sum is found to be lower.

A plan takes no more of a limit than half of its messages and a quarter of its bytes (ranges/plans.py). So the publishes
of a batch have their room, unless it makes much more of what it reads. The capacities of queues are exact as ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.gates.address_depth import AddressDepth
from penstock.flow.counted_depth import CountedDepth
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED

if TYPE_CHECKING:
    from penstock.core.queue.cursor_state import CursorState, Position

BEYOND: Final = 2
"""Part of a limit's capacity that the publishes of one query may take beyond it: 1/2."""


class PinnedRoom:
    """The cursors of one query, and what its publishes took beyond the capacity of limits in which those pin messages.

    The amounts are those of all limits together, so a query that meets several is judged more strictly.
    """

    def __init__(self, query: str) -> None:
        self.query = query
        self.cursors: list[CursorState] = []
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Bytes (charges) that its publishes took."""

    def excuses(self, gate: Gate, messages: i64, bytes: i64) -> bool:
        """Return whether a publish of so much need not wait at a gate, open or closed."""
        limit = gate.owner
        if not isinstance(limit, CountedDepth) or not self.pins(limit):
            return False
        capacity = limit.thresholds.capacity
        over = limit.messages - capacity.messages if limit.messages > capacity.messages else 0
        over_bytes = limit.bytes - capacity.bytes if limit.bytes > capacity.bytes else 0
        if over == 0 and over_bytes == 0:
            self.messages = 0
            self.bytes = 0
        return (
            self.messages + messages <= capacity.messages // BEYOND and self.bytes + bytes <= capacity.bytes // BEYOND
        )

    def pins(self, limit: CountedDepth) -> bool:
        """Return whether a cursor has planned messages that count in a limit, and has not settled them."""
        for cursor in self.cursors:
            for position in cursor.positions.values():
                if position.planned > position.settled and not position.queue.deleted and _counts(position, limit):
                    return True
        return False

    def take(self, messages: i64, bytes: i64) -> None:
        """Count a publish that passed a gate which is closed."""
        self.messages += messages
        self.bytes += bytes

    def give_back(self, messages: i64, bytes: i64) -> None:
        """Count messages that a cursor has settled."""
        self.messages = self.messages - messages if self.messages > messages else 0
        self.bytes = self.bytes - bytes if self.bytes > bytes else 0


class PinnedRooms:
    """The queries that read through cursors, by the names that they give themselves."""

    def __init__(self) -> None:
        self._rooms: dict[str, PinnedRoom] = {}

    def of(self, query: str) -> PinnedRoom | None:
        """Return the room of a query; None if it has no cursor."""
        return self._rooms.get(query)

    def assign(self, cursor: CursorState, query: str) -> None:
        """Record the query that reads through a cursor now; empty: it is not known."""
        room = cursor.room
        if room is not None:
            if room.query == query:
                return
            room.cursors.remove(cursor)
            if not room.cursors:
                del self._rooms[room.query]
            cursor.room = None
        if query:
            found = self._rooms.get(query)
            if found is None:
                found = PinnedRoom(query)
                self._rooms[query] = found
            found.cursors.append(cursor)
            cursor.room = found


def _counts(position: Position, limit: CountedDepth) -> bool:
    """Return whether the messages of a position count in a limit. One message tells the address of all."""
    if not isinstance(limit, AddressDepth):
        return limit in position.queue.membership.pools
    for message in position.line.between(position.settled, position.planned, 1, UNLIMITED):
        if message.share is not None:
            return message.share.depth is limit
    return False
