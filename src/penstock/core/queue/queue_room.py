"""Room that is reserved in a queue for granted credit, and for batches that are entering it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.gates.address_depth import AddressDepth
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED, Level
from penstock.flow.reserved_room import ReservedRoom, RoomHolder
from penstock.flow.shared_limit import CountedDepth

if TYPE_CHECKING:
    from penstock.core.queue.arrival import Arrival
    from penstock.core.queue.cursor_state import CursorState, Position
    from penstock.core.queue.queue import Queue


class PromisedRoom:
    """Room of a queue that is kept for batches which are being promoted, and the batch that is entering it."""

    def __init__(self) -> None:
        self.messages: i64 = 0
        self.bytes: i64 = 0
        self.arrival: Arrival | None = None
        """The batch that is entering the queue, a slice a turn; None at other times."""


class QueueRoom(ReservedRoom):
    """The reserved room of one queue, which is not part of its depth."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue
        self._promised: PromisedRoom | None = None
        """The part of it that is kept for batches which are being promoted (see arrival.py); None as a rule.

        Shared limits count those where they are staged.
        """
        self.most_messages: i64 = 0
        self.most_bytes: i64 = 0
        """Depth up to which a message on credit takes its own room by the fast path, even if others wait."""

    def arrival(self) -> Arrival | None:
        """Return the batch that is entering the queue, a slice a turn; None at other times."""
        promised = self._promised
        return None if promised is None else promised.arrival

    def set_arrival(self, arrival: Arrival | None) -> None:
        """Set the batch that is entering the queue."""
        self._promises().arrival = arrival
        self._end_promises()

    def promised_messages(self) -> i64:
        """Return the number of promised messages."""
        promised = self._promised
        return 0 if promised is None else promised.messages

    def promised_bytes(self) -> i64:
        """Return the bytes (charges) of promised messages."""
        promised = self._promised
        return 0 if promised is None else promised.bytes

    def reserves(self) -> bool:
        """Return whether granted credit has its room here: the queue holds publishes that do not fit into memory."""
        queue = self.queue
        return queue.overflow.reserves and not queue.deleted and queue.pager is None and queue.length is None

    def reserve(self, holder: RoomHolder, messages: i64, bytes: i64, still: bool, now: float) -> None:
        """Reserve room, or (negative) release it; see `ReservedRoom.count`."""
        self.count(holder, messages, bytes, still)
        self.queue.update_gate(now)

    def set_most(self, paging: bool) -> None:
        """Set the depth up to which the fast path takes messages on credit: while the gate is open, the stop threshold.

        Shared limits lower it. `paging`: messages are on pages.
        """
        queue = self.queue
        self.most_messages = 0
        self.most_bytes = 0
        if self.messages > 0 and queue.gate.open and queue.length is None:
            if not (queue.operator_gated or queue.deleted or paging):
                stop = queue.thresholds.stop
                self.most_messages = stop.messages
                self.most_bytes = stop.bytes + stop.uncounted * queue.messages

    def take_place(self, charge: i64, reserved: i64) -> i64:
        """As `Queue.take_place`, for a message that uses so many reserved bytes."""
        queue = self.queue
        messages = queue.messages + 1
        size = queue.bytes + charge
        if messages > self.most_messages or size > self.most_bytes:
            return 0
        queue.messages = messages
        queue.bytes = size
        queue.tail += 1
        self.messages -= 1
        self.bytes -= reserved
        return queue.tail

    def return_places(self, messages: i64, bytes: i64) -> None:
        """Reserve again the amount that `take_place` used: its holder counts it now."""
        self.messages += messages
        self.bytes += bytes

    def promise(self, messages: i64, bytes: i64) -> None:
        """Keep room for a batch, or (negative) give it up; the caller updates the gate."""
        self.messages += messages
        self.bytes += bytes
        promised = self._promises()
        promised.messages += messages
        promised.bytes += bytes
        self._end_promises()

    def _promises(self) -> PromisedRoom:
        promised = self._promised
        if promised is None:
            promised = PromisedRoom()
            self._promised = promised
        return promised

    def _end_promises(self) -> None:
        promised = self._promised
        if promised is not None and promised.messages == 0 and promised.bytes == 0 and promised.arrival is None:
            self._promised = None

    def take_arriving(self) -> i64:
        """Drop the arrivals that have not entered yet, for a purge; returns the number of messages."""
        arrival = self.arrival()
        if arrival is None or arrival.purged:
            return 0
        arrival.purged = True
        return arrival.messages

    def free(self) -> Level:
        """Return the room that is neither filled nor reserved."""
        queue = self.queue
        return queue.thresholds.capacity.less(queue.messages + self.messages, queue.bytes + self.bytes)

    def free_below_stop(self) -> Level:
        """Return the room for exact credit: what depth and reservations leave below the stop threshold."""
        queue = self.queue
        return queue.thresholds.exact().less(queue.messages + self.messages, queue.bytes + self.bytes)

    def may_open(self) -> bool:
        """Return whether the depth lets a closed gate open: underfull, and below stop if exact credit is wanted."""
        queue = self.queue
        messages, size = queue.depth_messages(), queue.depth_bytes()
        if not queue.thresholds.underfull(messages, size):
            return False
        return queue.gate.exact_requests == 0 or queue.thresholds.exact().covers(messages + 1, size + 1)

    def close_for_exact(self, now: float) -> None:
        """Close the gate, as the next message would: all room below stop is granted, and exact credit has no more.

        Not at a depth at which it would open at once: then only reservations are in the way.
        """
        queue = self.queue
        if queue.gate.open and not queue.deleted and not self.may_open():
            queue.gate.close(queue.depth_messages(), queue.measure().bytes, now)
            queue.update_gate(now)

    @override
    def shared(self) -> Level:
        queue = self.queue
        promised = self._promised
        if promised is None:
            return queue.thresholds.capacity.less(queue.messages, queue.bytes)
        return queue.thresholds.capacity.less(queue.messages + promised.messages, queue.bytes + promised.bytes)

    def review(self, now: float) -> None:
        """Take reserved room back that no longer fits; all of it if none may be reserved."""
        queue = self.queue
        if self.messages > 0:
            if self.reserves():
                self.fit(queue.thresholds.capacity.less(queue.messages, queue.bytes), now)
            else:
                self.fit(Level(0, 0), now)


BEYOND: Final = 2
"""Part of a limit's capacity that the publishes of one query may take beyond it: 1/2."""


class PinnedRoom:
    """The cursors of one query, and the excess of its publishes over limits in which these cursors pin messages.

    The amounts are those of all limits together, so a query that meets several is judged more strictly.
    """

    def __init__(self, query: str) -> None:
        self.query = query
        self.cursors: list[CursorState] = []
        self.messages: i64 = 0
        self.bytes: i64 = 0
        """Bytes (charges) that its publishes took."""

    def excuses(self, gate: Gate, messages: i64, bytes: i64) -> bool:
        """Return whether a publish of this amount need not wait at a gate, open or closed."""
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
            present = self._rooms.get(query)
            if present is None:
                present = PinnedRoom(query)
                self._rooms[query] = present
            present.cursors.append(cursor)
            cursor.room = present


def _counts(position: Position, limit: CountedDepth) -> bool:
    """Return whether the messages of a position count in a limit. All messages have the address of the first one."""
    if not isinstance(limit, AddressDepth):
        return limit in position.queue.membership.pools
    for message in position.line.between(position.settled, position.planned, 1, UNLIMITED):
        if message.share is not None:
            return message.share.depth is limit
    return False
