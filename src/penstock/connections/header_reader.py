"""Header reader: the first engine of every connection, which chooses the protocol by the first bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.connections.engine import Protocol, ProtocolEngine

if TYPE_CHECKING:
    from penstock.connections.connection import Connection
    from penstock.errors import BrokerError


HEADER_OCTETS: Final = 8
"""Bytes of every protocol header (AMQP 0-9-1 section 4.2.2, AMQP 1.0 section 2.2)."""


class HeaderReader(ProtocolEngine):
    """First engine of a connection: reads the protocol header and installs the protocol's engine."""

    def __init__(self, connection: Connection, protocols: list[Protocol]) -> None:
        super().__init__(connection)
        self._protocols = protocols
        """Protocols of this broker; unknown bytes are answered with the first protocol's header."""

    @override
    def read(self, data: bytes) -> i64:
        connection = self.connection
        start = data[:HEADER_OCTETS]
        accepting = [protocol for protocol in self._protocols if protocol.accepts(start)]
        if not accepting:
            connection.output.buffer.write(self._protocols[0].header())
            connection.end()
            return len(data)
        if len(start) < HEADER_OCTETS:
            return 0
        connection.engine = accepting[0].engine(connection)
        return connection.engine.read(data)

    @override
    def next_unit(self, data: bytes) -> int:
        start = data[:HEADER_OCTETS]
        known = [protocol for protocol in self._protocols if protocol.accepts(start)]
        return HEADER_OCTETS if known else len(data)

    def close(self, error: BrokerError) -> None:
        """See `ProtocolEngine.close`: no error can be sent before the protocol is known."""
        self.connection.end()
