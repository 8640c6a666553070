"""States of a connection, from the first octets to the closed socket."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from penstock.flow.states import StateTable


class ConnectionState(IntEnum):
    """State of a connection. A protocol without a step passes over its state."""

    HEADER = 0
    """The first octets, which choose the protocol, are awaited."""
    START = 1
    """The client has to log in."""
    TUNE = 2
    """Limits are being agreed."""
    OPEN = 3
    """The client has to open a virtual host."""
    RUNNING = 4
    CLOSING = 5
    """Our close was sent, and the answer is awaited; or the client's close is being carried out."""
    CLOSED = 6
    """Nothing more is sent or read; the event loop closes the socket."""

    def word(self) -> str:
        """Return the state in lower case, for people."""
        return self.name.lower()


_CLOSED_BY_BROKER: Final = "error, or the broker stops"
_SOCKET_CLOSED: Final = "socket closed"

CONNECTION_STATES: Final = StateTable(
    "connection",
    ConnectionState.HEADER,
    {
        ConnectionState.HEADER: {
            ConnectionState.START: "protocol chosen",
            ConnectionState.CLOSED: "unknown protocol, or socket closed",
        },
        ConnectionState.START: {
            ConnectionState.TUNE: "logged in",
            ConnectionState.OPEN: "logged in, nothing to agree",
            ConnectionState.RUNNING: "logged in, virtual host known",
            ConnectionState.CLOSING: _CLOSED_BY_BROKER,
            ConnectionState.CLOSED: "login refused, or socket closed",
        },
        ConnectionState.TUNE: {
            ConnectionState.OPEN: "limits agreed",
            ConnectionState.CLOSING: _CLOSED_BY_BROKER,
            ConnectionState.CLOSED: _SOCKET_CLOSED,
        },
        ConnectionState.OPEN: {
            ConnectionState.RUNNING: "virtual host opened",
            ConnectionState.CLOSING: _CLOSED_BY_BROKER,
            ConnectionState.CLOSED: _SOCKET_CLOSED,
        },
        ConnectionState.RUNNING: {
            ConnectionState.CLOSING: "client's close, error, or the broker stops",
            ConnectionState.CLOSED: _SOCKET_CLOSED,
        },
        ConnectionState.CLOSING: {
            ConnectionState.CLOSING: "client's close after ours",
            ConnectionState.CLOSED: "close answered, or socket closed",
        },
        ConnectionState.CLOSED: {ConnectionState.CLOSED: _SOCKET_CLOSED},
    },
)
