"""HTTP listener: its port is open from the start, and its application is loaded with the first connection.

The libraries cost memory and time, and many brokers get no request over HTTP.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.server.event_loop import EventLoop
from penstock.server.inside import is_of_this_user
from penstock.server.listener import Listener
from penstock.server.socket_transport import attach
from penstock.server.tls.contexts import TlsServer
from penstock.server.tls.layer import TlsLayer
from penstock.settings.config import Settings

if TYPE_CHECKING:
    from penstock.server.http.asks import Inside
    from penstock.server.http.connections import HttpConnections


class HttpListener:
    """Listeners of one application."""

    def __init__(
        self,
        event_loop: EventLoop,
        settings: Settings,
        has_login: bool,
        inside: Inside | None = None,
        load: Callable[[], HttpConnections] | None = None,
    ) -> None:
        """The application is the HTTP API with the console, or without `has_login` that of metrics and probes.

        With `inside` the API is for other processes of the node. `load` returns the connections of another application.
        """
        self._inside = inside
        self._load_other = load
        self._event_loop = event_loop
        self._settings = settings
        self._has_login = has_login
        self._loading = asyncio.Lock()
        self._connections: HttpConnections | None = None
        """None until the first connection."""
        self._listeners: list[Listener] = []
        self._stopped = False

    async def start(self, host: str, port: int, tls: TlsServer | None = None) -> list[tuple[str, int]]:
        """Open a port, with TLS or without; return the addresses. Raises StartError if it is in use."""
        listener = Listener(self._event_loop.driver, self._event_loop.loop, partial(self._take, tls))
        self._listeners.append(listener)
        return await listener.start(host, port, "serve HTTP")

    def start_inside(self, sock: socket.socket) -> None:
        """Serve other processes of the node at a listening Unix socket, which does not block."""
        listener = Listener(self._event_loop.driver, self._event_loop.loop, self._take_inside)
        self._listeners.append(listener)
        listener.serve(sock)

    async def stop(self) -> None:
        """Accept no more connections, and end the open connections (see `HttpConnections.stop`)."""
        self._stopped = True
        for listener in self._listeners:
            listener.close()
        if self._connections is not None:
            await self._connections.stop()

    async def _take(self, tls: TlsServer | None, sock: socket.socket) -> None:
        """Serve an accepted socket. Raises OSError if its peer has disconnected, or the ports were closed meanwhile."""
        connections = await self._load()
        if self._stopped:
            raise ConnectionAbortedError("the port was closed meanwhile")
        protocol = connections.make()
        await attach(self._event_loop.loop, sock, protocol if tls is None else TlsLayer(tls, protocol))

    async def _take_inside(self, sock: socket.socket) -> None:
        if not is_of_this_user(sock):
            raise ConnectionAbortedError("the process at the other end belongs to another user")
        await self._take(None, sock)

    async def _load(self) -> HttpConnections:
        """Load the application once; in a thread, because the broker has other work meanwhile."""
        async with self._loading:
            if self._connections is None:
                self._connections = await asyncio.to_thread(self._loaded)
            return self._connections

    def _loaded(self) -> HttpConnections:
        if self._load_other is not None:
            return self._load_other()
        from penstock.server.http.connections import api_connections, metrics_connections

        if not self._has_login:
            return metrics_connections(self._event_loop, self._settings)
        return api_connections(self._event_loop, self._settings, self._inside)
