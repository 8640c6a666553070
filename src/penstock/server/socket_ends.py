"""Ends of a connection: addresses of its socket, or for a Unix socket the process of the peer and the path."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final, NamedTuple

from penstock.connections.peer import UNIX_HOST

CREDENTIALS: Final = struct.Struct("iII")
"""`struct ucred` (unix(7)): process, user and group."""
UNKNOWN: Final = ("unknown", 0)
"""End of a socket whose address the system does not return."""


class Ends(NamedTuple):
    """Host and port of a connection's peer, and of its own end."""

    peer: tuple[str, int]
    own: tuple[str, int]


def ends_of(transport: asyncio.BaseTransport) -> Ends:
    """Return both ends of a connection.

    The peer at a Unix socket has the host `unix` and the number of its process as its port; the own end is the path.
    """
    peer = transport.get_extra_info("peername")
    own = transport.get_extra_info("sockname")
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family == socket.AF_UNIX:
        return Ends((UNIX_HOST, _process_of(sock)), (f"{UNIX_HOST}:{own or ''}", 0))
    return Ends((peer or UNKNOWN)[:2], (own or UNKNOWN)[:2])


def _process_of(sock: socket.socket) -> int:
    """Return the number of the process at the other end when it connected; 0 if the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return 0
    try:
        return int(CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, option, CREDENTIALS.size))[0])
    except OSError:
        return 0
