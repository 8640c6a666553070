"""Listener at a TCP port or a Unix socket that survives the limit of open files.

asyncio's server logs a traceback for each failed `accept`, a hundred at a time, and leaves the peers waiting. This
listener releases a spare descriptor for a moment: it accepts the peer and closes the socket, with one log line a
second.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from penstock.connections.log_line import FILES
from penstock.driver.driver import BrokerDriver
from penstock.errors import StartError
from penstock.server.addresses import is_unix, socket_path
from penstock.server.unix_socket import UnixSocket

BACKLOG: Final = 4096
"""Sockets that the kernel queues until they are accepted, within its own limit (somaxconn).

Beyond the limit the kernel drops connection attempts, which clients repeat after 1, 3, 7 s and so on. After a restart
of the broker, thousands of clients may connect at the same time.
"""
CLOSED_AT_ONCE: Final = 100
"""Queued sockets that are closed when no more can be accepted."""
ACCEPTED_AT_ONCE: Final = 20
"""Sockets accepted per pass of the event loop."""
FULL: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
FOR_FILES: Final = 32
"""Descriptors reserved for store and logs, which no socket gets; at most an eighth of the limit."""
PAUSE_S: Final = 0.1
"""Seconds without accepting after the file limit was reached."""

Take: TypeAlias = Callable[[socket.socket], Awaitable[None]]
"""Function that gets a connected socket, which does not block. Raises OSError if its peer has disconnected."""


class Listener:
    """Listening sockets of one address; each accepted socket is passed on."""

    def __init__(self, driver: BrokerDriver, loop: asyncio.AbstractEventLoop, take: Take) -> None:
        """`take` gets each accepted socket; the listener closes the socket if `take` fails."""
        self._driver = driver
        self._loop = loop
        self._take = take
        self._sockets: list[socket.socket] = []
        self._unix: UnixSocket | None = None
        """The Unix socket; None for a TCP port."""
        self._spare: int | None = None
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._highest = limit - min(FOR_FILES, limit // 8) if limit > 0 else -1
        self._beginning: set[asyncio.Task[None]] = set()
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}

    async def start(self, host: str, port: int, what: str) -> list[tuple[str, int]]:
        """Open the port on every address of the host, or a Unix socket; return them.

        Raises StartError, which begins with `what`.
        """
        if is_unix(host):
            self._unix = UnixSocket(socket_path(host), what)
            self._sockets.append(self._unix.open(BACKLOG))
            return self._listen([(host, 0)])
        try:
            for family, address in await self._resolved(host, port):
                sock = socket.create_server(address, family=family, backlog=BACKLOG)
                sock.setblocking(False)
                self._sockets.append(sock)
        except OSError as error:
            self.close()
            if error.errno == errno.EADDRINUSE:
                raise StartError(
                    f"cannot {what} on {host}:{port}: the port is in use; stop the other program or choose another port"
                ) from None
            reason = (error.strerror or str(error)).partition(" (while attempting")[
                0
            ]  # socket.create_server adds the address to the error.
            raise StartError(f"cannot {what} on {host}:{port}: {reason}") from None
        return self._listen([sock.getsockname()[:2] for sock in self._sockets])

    def serve(self, sock: socket.socket) -> None:
        """Accept connections of a listening socket, which does not block."""
        self._sockets.append(sock)
        self._listen([])

    def _listen(self, addresses: list[tuple[str, int]]) -> list[tuple[str, int]]:
        self._keep_spare()
        for sock in self._sockets:
            self._loop.add_reader(sock.fileno(), self._accept, sock)
        return addresses

    async def _resolved(self, host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
        addresses = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return list(dict.fromkeys((family, (str(address[0]), int(address[1]))) for family, *_, address in addresses))

    def close(self) -> None:
        """Stop accepting and close the port."""
        for pause in self._pauses.values():
            pause.cancel()
        self._pauses.clear()
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        self._sockets.clear()
        if self._unix is not None:
            self._unix.remove()
            self._unix = None
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                sock, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._meet_limit(listening, error)
                return
            if sock.fileno() >= self._highest > 0:  # The kernel assigns the lowest free descriptor first.
                sock.close()
                self._log(f"{self._highest:,} descriptors are in use, and the others are for files", 1)
                continue
            begun = self._loop.create_task(self._begin(sock))
            self._beginning.add(begun)
            begun.add_done_callback(self._beginning.discard)

    async def _begin(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        try:
            # asyncio checks this only if the socket's protocol is set, which is not the case for a listening socket.
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._take(sock)
        except OSError:
            sock.close()  # The peer has disconnected.
        except ImportError:
            sock.close()
            raise  # A library is missing or damaged; the loop reports the error.

    def _meet_limit(self, listening: socket.socket, error: OSError) -> None:
        """Disconnect waiting peers with the spare descriptor, and accept none for a moment."""
        refused = 0
        if error.errno in FULL and self._spare is not None:
            os.close(self._spare)
            self._spare = None
            refused = self._hang_up(listening)
            self._keep_spare()
        self._log(error.strerror or str(error), refused)
        self._loop.remove_reader(listening.fileno())
        self._pauses[listening] = self._loop.call_later(PAUSE_S, self._resume, listening)

    def _log(self, why: str, closed: int) -> None:
        self._driver.begin(self._loop.time())
        self._driver.log_queue.add_refusal(
            FILES, f"no more sockets are accepted: {why}; {closed} that waited were closed"
        )

    def _hang_up(self, listening: socket.socket) -> int:
        count = 0
        with contextlib.suppress(OSError):
            while count < CLOSED_AT_ONCE:
                sock, _ = listening.accept()
                sock.close()
                count += 1
        return count

    def _keep_spare(self) -> None:
        if self._spare is None:
            with contextlib.suppress(OSError):  # The next pause tries again.
                self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _resume(self, listening: socket.socket) -> None:
        del self._pauses[listening]
        self._keep_spare()
        self._loop.add_reader(listening.fileno(), self._accept, listening)
