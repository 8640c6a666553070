"""Large messages that arrive on a connection: memory that is counted, and input that waits for the store.

Of a message that goes to the store only the incomplete piece counts as a partial message (partial_messages.py). Pieces
that the store has not written yet are bounded by the connection's `PieceBudget`. At the bound the connection is not
read until some of them are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.large_bodies import LargeArrival, LargeBody, RoomListener, Span
from penstock.protocols.common.partial_messages import PartialMessage

if TYPE_CHECKING:
    from penstock.protocols.common.connection import Connection


class LargeMessage:
    """A large message that arrives. The caller drops `partial` when it is complete, or given up."""

    def __init__(self, connection: Connection, partial: PartialMessage) -> None:
        self._connection = connection
        self._partial = partial
        self._pieces = connection.pausing.pieces
        self._arrival: LargeArrival = connection.broker.large.begin(self._pieces)

    def octets(self) -> i64:
        """Return how many octets of its body have come."""
        return self._arrival.octets

    def append(self, data: bytes) -> None:
        """Append octets of its body. Raises ResourceError (506) if too much has arrived in part."""
        arrival = self._arrival
        arrival.append(data)
        connection = self._connection
        connection.services.partial_messages.resize(self._partial, arrival.held() + 1)
        if self._pieces.is_full() and self._pieces.listener is None:
            self._pieces.listener = _PausedInput(connection)

    def finish(self, spans: list[Span]) -> LargeBody:
        """Return its body, with the data in it; an empty list: all of it is data."""
        return self._arrival.finish(spans)


class _PausedInput(RoomListener):
    """A connection whose input waits for the store."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        connection.busy += 1

    @override
    def on_room(self) -> None:
        connection = self._connection
        connection.pausing.pieces.listener = None
        connection.busy -= 1
        connection.services.resume_input(connection)
