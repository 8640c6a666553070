"""Large messages that arrive on a connection: counted memory, and input that waits for the store.

Of a message for the store only the incomplete piece counts as a partial message (partial_messages.py). Pieces that the
store has not written yet are bounded by the connection's `PieceBudget`. At the bound the connection is not read until
some of them are written.

While a gate of the disk is closed, the connection counts as blocked, and its client gets a notice. A wait without a
closed gate has no notice: it ends with the next transaction of the store.

The input waits at most for the broker's hold deadline. Then the connection is closed (506), and the received part is
deleted. Otherwise two large messages could wait for the space of each other.
"""

from __future__ import annotations

from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.connection import Connection
from penstock.connections.partial_messages import PartialMessage
from penstock.core.large_bodies import LargeArrival, LargeBody, RoomListener, Span
from penstock.errors import ResourceError
from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER, TimerHandler


class LargeMessage:
    """A large message that arrives. The caller drops `partial` when the message is complete, or given up."""

    def __init__(self, connection: Connection, partial: PartialMessage, is_persistent: bool) -> None:
        self._connection = connection
        self._partial = partial
        self._pieces = connection.pausing.pieces
        self._arrival: LargeArrival = connection.broker.large.begin(self._pieces, is_persistent)

    def octets(self) -> i64:
        """Return the received bytes of the body."""
        return self._arrival.octets

    def append(self, data: bytes, start: i64 = 0, end: i64 = -1) -> None:
        """Append bytes of the body, as `LargeArrival` does.

        Raises ResourceError (506) if too much has arrived in part.
        """
        arrival = self._arrival
        arrival.append(data, start, end)
        connection = self._connection
        connection.services.partial_messages.resize(self._partial, arrival.held() + 1)
        if arrival.must_wait() and self._pieces.listener is None:
            self._pieces.listener = _PausedInput(connection)

    def finish(self, spans: list[Span]) -> LargeBody:
        """Return the body, with its data spans; an empty list means that all of it is data."""
        return self._arrival.finish(spans)


class _PausedInput(RoomListener):
    """A connection whose input waits for the store."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._deadline = _StoreDeadline(connection)
        connection.hold_input()
        broker = connection.broker
        if broker.defaults.hold_deadline_s > 0:
            broker.timers.add(self._deadline, broker.now + broker.defaults.hold_deadline_s)
        self._blocked_by: Gate | None = None
        """Closed gate of the disk that is counted as blocking the connection."""
        self.on_disk_changed()

    @override
    def on_disk_changed(self) -> None:
        self._count(self._connection.broker.gates.disk.closed_gate())

    def _count(self, gate: Gate | None) -> None:
        """Count the gate that blocks the connection; None for none."""
        counted = self._blocked_by
        self._blocked_by = gate
        if counted is None and gate is not None:
            self._connection.count_block(gate, 1)
        elif counted is not None and gate is None:
            self._connection.count_block(counted, -1)

    @override
    def on_room(self) -> None:
        connection = self._connection
        self.end()
        self._count(None)
        connection.pausing.pieces.listener = None
        connection.release_input()

    @override
    def end(self) -> None:
        self._connection.broker.timers.drop(self._deadline)


class _StoreDeadline(TimerHandler):
    """The end of a wait for the store."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    @override
    def on_deadline(self, now: float) -> float:
        connection = self._connection
        broker = connection.broker
        disk = broker.gates.disk
        why = "the disk has not answered"
        if disk.is_failing():
            why = disk.fault.reason
        elif broker.large.disk_short:
            why = "a quota, or the free space of the disk, is used up"
        hold_deadline = f"{broker.defaults.hold_deadline_s:g} s"
        connection.close(ResourceError(f"a large message has waited {hold_deadline} for the store: {why}"))
        listener = connection.pausing.pieces.listener
        if listener is not None:
            listener.on_room()  # Input is read again: it has the answer to the close.
        return NEVER
