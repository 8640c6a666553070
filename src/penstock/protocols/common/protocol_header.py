"""Choice of the protocol by the first eight octets of a connection."""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from penstock.errors import BrokerError
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.engine import Protocol, ProtocolEngine

HEADER_OCTETS: Final = 8
"""Octets of every protocol header (AMQP 0-9-1 section 4.2.2, AMQP 1.0 section 2.2)."""


class HeaderReader(ProtocolEngine):
    """First engine of a connection: reads the protocol header and puts the protocol's engine into its place."""

    def __init__(self, connection: Connection, protocols: list[Protocol]) -> None:
        super().__init__(connection)
        self._protocols = protocols
        """Protocols of this broker; the header of the first one is the answer to unknown octets."""
        self._start: bytes = b""

    @override
    def receive(self, data: bytes) -> None:
        connection = self.connection
        connection.input_paused = False
        if connection.is_closed():
            return
        self._start += data
        start = self._start[:HEADER_OCTETS]
        found = [protocol for protocol in self._protocols if protocol.accepts(start)]
        if not found:
            connection.output.buffer.write(self._protocols[0].header())
            connection.end()
        elif len(start) == HEADER_OCTETS:
            engine = found[0].engine(connection)
            connection.engine = engine
            engine.receive(self._start)

    @override
    def defer(self, data: bytes) -> None:
        self._start += data
        self.connection.input_paused = True

    @override
    def forget_input(self) -> None:
        self._start = b""

    def close(self, error: BrokerError) -> None:
        """See `ProtocolEngine.close`: nothing can be said before the protocol is known."""
        self.connection.end()
