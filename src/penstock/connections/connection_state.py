"""States of a connection, from the first bytes to the closed socket, and of the teardown of its sessions."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from penstock.flow.states import StateTable


class ConnectionState(IntEnum):
    """State of a connection. A protocol without a step skips its state.

    From `REFUSED` on input is ignored, except input that belongs to the close. From `CLOSED` on nothing more is sent or
    read.
    """

    HEADER = 0
    """The first bytes, which choose the protocol, are awaited."""
    START = 1
    """The client must log in."""
    VERIFYING = 2
    """The client's password is being verified; its input waits (login.py)."""
    TUNE = 3
    """Limits are being agreed."""
    OPEN = 4
    """The client must open a virtual host."""
    RUNNING = 5
    REFUSED = 6
    """The password was wrong; the answer is delayed (login_limits.py)."""
    CLOSE_SENT = 7
    """The broker's close was sent, and the answer is awaited."""
    CLOSE_RECEIVED = 8
    """The client's close is carried out; the answer follows the teardown.

    The broker's close may have been sent before.
    """
    CLOSED = 9
    """Nothing more is sent or read; the event loop closes the socket."""
    CLOSED_BY_CLIENT = 10
    """As `CLOSED`, at the client's request: the client gets a moment to close its side of the socket first."""
    GONE = 11
    """The socket is closed."""

    def word(self) -> str:
        """Return the state for texts and for the HTTP API, with one word for each stage of the close."""
        if self >= ConnectionState.CLOSED:
            return "closed"
        if self >= ConnectionState.CLOSE_SENT:
            return "closing"
        return "start" if self in (ConnectionState.VERIFYING, ConnectionState.REFUSED) else self.name.lower()


class TeardownState(IntEnum):
    """State of the teardown of a connection's sessions and exclusive queues."""

    NONE = 0
    RUNNING = 1
    """Further input of the sessions is ignored, and no session sends anything."""
    DONE = 2
    """The sessions are gone and the exclusive queues deleted."""


_CLOSED_BY_BROKER: Final = "error, or the broker stops"
_CLOSED_BY_CLIENT: Final = "client's close"
_ENDED: Final = "end of input, or the broker stops"
_SOCKET_CLOSED: Final = "socket closed"

CONNECTION_STATES: Final = StateTable(
    "connection",
    ConnectionState.HEADER,
    {
        ConnectionState.HEADER: {
            ConnectionState.START: "protocol chosen",
            ConnectionState.OPEN: "logged in by another process",
            ConnectionState.CLOSED: "unknown protocol, end of input, or the broker stops",
            ConnectionState.GONE: _SOCKET_CLOSED,
        },
        ConnectionState.START: {
            ConnectionState.VERIFYING: "credentials received",
            ConnectionState.TUNE: "logged in without a password",
            ConnectionState.REFUSED: "wrong proof, answered later",
            ConnectionState.CLOSE_SENT: _CLOSED_BY_BROKER,
            ConnectionState.CLOSE_RECEIVED: _CLOSED_BY_CLIENT,
            ConnectionState.CLOSED: "refused, end of input, or the broker stops",
            ConnectionState.GONE: _SOCKET_CLOSED,
        },
        ConnectionState.VERIFYING: {
            ConnectionState.TUNE: "logged in",
            ConnectionState.OPEN: "logged in, nothing to agree",
            ConnectionState.RUNNING: "logged in, virtual host known",
            ConnectionState.REFUSED: "wrong password, answered later",
            ConnectionState.CLOSE_SENT: _CLOSED_BY_BROKER,
            ConnectionState.CLOSE_RECEIVED: _CLOSED_BY_CLIENT,
            ConnectionState.CLOSED: "wrong password, end of input, or the broker stops",
            ConnectionState.GONE: _SOCKET_CLOSED,
        },
        ConnectionState.TUNE: {
            ConnectionState.OPEN: "limits agreed",
            ConnectionState.CLOSE_SENT: _CLOSED_BY_BROKER,
            ConnectionState.CLOSE_RECEIVED: _CLOSED_BY_CLIENT,
            ConnectionState.CLOSED: _ENDED,
            ConnectionState.GONE: _SOCKET_CLOSED,
        },
        ConnectionState.OPEN: {
            ConnectionState.RUNNING: "virtual host opened",
            ConnectionState.CLOSE_SENT: _CLOSED_BY_BROKER,
            ConnectionState.CLOSE_RECEIVED: _CLOSED_BY_CLIENT,
            ConnectionState.CLOSED: _ENDED,
            ConnectionState.GONE: _SOCKET_CLOSED,
        },
        ConnectionState.RUNNING: {
            ConnectionState.CLOSE_SENT: _CLOSED_BY_BROKER,
            ConnectionState.CLOSE_RECEIVED: _CLOSED_BY_CLIENT,
            ConnectionState.CLOSED: "end of input",
            ConnectionState.GONE: _SOCKET_CLOSED,
        },
        ConnectionState.REFUSED: {
            ConnectionState.CLOSE_SENT: "time for the answer, or another error",
            ConnectionState.CLOSE_RECEIVED: _CLOSED_BY_CLIENT,
            ConnectionState.CLOSED: "time for the answer, end of input, or the broker stops",
            ConnectionState.GONE: _SOCKET_CLOSED,
        },
        ConnectionState.CLOSE_SENT: {
            ConnectionState.CLOSE_RECEIVED: "client's close crosses ours",
            ConnectionState.CLOSED: "close answered, end of input, or the broker stops",
            ConnectionState.GONE: _SOCKET_CLOSED,
        },
        ConnectionState.CLOSE_RECEIVED: {
            ConnectionState.CLOSED_BY_CLIENT: "either close answered, end of input, or the broker stops",
            ConnectionState.GONE: _SOCKET_CLOSED,
        },
        ConnectionState.CLOSED: {ConnectionState.GONE: _SOCKET_CLOSED},
        ConnectionState.CLOSED_BY_CLIENT: {ConnectionState.GONE: _SOCKET_CLOSED},
    },
)

TEARDOWN_STATES: Final = StateTable(
    "teardown of a connection",
    TeardownState.NONE,
    {
        TeardownState.NONE: {TeardownState.RUNNING: "close, end of input, or socket closed"},
        TeardownState.RUNNING: {TeardownState.DONE: "last session and exclusive queue removed"},
    },
)
