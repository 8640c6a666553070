"""Transports of connections that another process of the node has accepted.

A client that is logged in begins with the input of its record. A client that has not logged in brings its number alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from typing_extensions import override

from penstock.server.login_record import LoginRecord
from penstock.server.transport import Transport

if TYPE_CHECKING:
    from penstock.connections.connection import Connection
    from penstock.connections.peer import Peer
    from penstock.server.event_loop import EventLoop


class HandedTransport(Transport):
    """Transport of a connection that begins in the state OPEN. `begin` handles the input of the record."""

    __slots__ = ("_record", "_ended")

    def __init__(self, event_loop: EventLoop, record: LoginRecord, ended: Callable[[], None] | None = None) -> None:
        """`ended` is called once the connection has ended."""
        super().__init__(event_loop)
        self._ended = ended
        self._record: LoginRecord | None = record
        """Record of the login; None once its input is handled."""

    @override
    def _connect(self, transport: asyncio.Transport) -> Connection:
        record = self._record
        assert record is not None
        login = record.login(self.event_loop.driver.broker)
        return self.event_loop.connected_logged_in(self, record.peer(), record.protocol, login)

    def begin(self) -> None:
        """Handle the input of the record, unless it is handled."""
        if self._record is not None:
            self.data_received(b"")

    @override
    def data_received(self, data: bytes) -> None:
        record = self._record
        if record is not None:
            self._record = None
            data = record.rest + data
        super().data_received(data)

    @override
    def eof_received(self) -> bool | None:
        self.begin()
        return super().eof_received()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        ended, self._ended = self._ended, None
        if ended is not None:
            ended()


class StrangerTransport(Transport):
    """Transport of a connection that has a number, and whose client has not logged in."""

    __slots__ = ("_number",)

    def __init__(self, event_loop: EventLoop, number: int) -> None:
        super().__init__(event_loop)
        self._number = number

    @override
    def _peer_at(self, transport: asyncio.Transport) -> Peer:
        peer = super()._peer_at(transport)
        peer.number = self._number
        return peer
