"""Sockets inside a node: how its processes ask each other, over HTTP/1.1 at Unix sockets without files.

An address is a name that the kernel keeps for as long as a process listens there ("abstract", unix(7)): no file is left
behind by a killed process, and no path is too long. Any process of the machine may connect to such a name, and may
listen at one that is free. So both sides look at the user of the other process, and a request has the key of the node.

A request at such a socket has no password: the login is the header `penstock-asker` (asker.py).
"""

from __future__ import annotations

import asyncio
import hmac
import os
import socket
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from penstock.describe.table import Row
from penstock.errors import StartError
from penstock.server.socket_ends import CREDENTIALS

KEY_HEADER: Final = "penstock-key"
ASKER_HEADER: Final = "penstock-asker"
MISSING_HEADER: Final = "penstock-missing"
"""Header of an answer over HTTP: shards that have not answered."""
MISSING: Final = "penstock.missing"
"""Field of an answer: shards that have not answered, each with the reason."""
ASK_PATH: Final = "/penstock/ask"
"""Path of requests for an operation by its name (http/asks.py)."""
BACKLOG: Final = 256
BEAT_S: Final = 0.5
"""Seconds after which a process that works on an answer writes an empty line: it is alive."""
SILENCE_S: Final = 2.0
"""Seconds without a byte after which a process counts as one that does not answer."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Request for an operation, by the name that `management.operation.name_of` returns."""

    operation: str
    fields: Row
    vhost: str = ""
    """Virtual host of the request; empty if it has none."""
    tag: str | None = None
    """Tag that the user needs where the request came in; None for that of the operation."""
    audited: bool = True
    """False if the process that asks records the change."""
    detached: bool = False
    """True if a job is answered with its row at once."""
    body: bytes = b""
    """Fields as an object of JSON that is not read, in the place of `fields`; it says itself whether a job is detached.
    """

    def target(self) -> str:
        """Return path and query of the request; the fields are its body."""
        query = {"operation": self.operation, "vhost": self.vhost}
        if self.tag is not None:
            query["tag"] = self.tag
        if not self.audited:
            query["audited"] = "false"
        if self.detached:
            query["job"] = "true"
        return f"{ASK_PATH}?{urlencode(query)}"


def address_of(name: str) -> str:
    """Return the address of a name; an absolute path is one, too."""
    return name if name.startswith("/") else f"\0{name}"


def listening_at(name: str) -> socket.socket:
    """Return a listening socket, which does not block. Raises StartError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        sock.bind(address_of(name))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise StartError(f"cannot listen inside the node at '{name}': {error.strerror or error}") from None
    return sock


def is_of_this_user(sock: socket.socket) -> bool:
    """Return whether the process at the other end of a connected Unix socket belongs to the user of this process."""
    try:
        _, user, _ = CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    except OSError:
        return False
    return bool(user == os.geteuid())


async def connected(name: str, limit: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the streams of a connection to a process of this user; `limit` is that of the reader. Raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        await asyncio.get_running_loop().sock_connect(sock, address_of(name))
        if not is_of_this_user(sock):
            raise ConnectionRefusedError(0, "a process of another user listens at its address")
        return await asyncio.open_unix_connection(sock=sock, limit=limit)
    except BaseException:
        sock.close()
        raise


def is_key(given: str, key: str) -> bool:
    """Return whether a request has the key of the node."""
    return hmac.compare_digest(given.encode(errors="replace"), key.encode())
