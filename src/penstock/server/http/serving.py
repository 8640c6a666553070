"""The listener: uvicorn's protocol on the broker's own loop, with bounds on who may come and for how long.

No server of uvicorn's runs: that would take the signals, and look ten times a second whether it is to stop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from penstock.server.http.app import make_app
from penstock.server.listener import Listener
from penstock.server.shell import Shell

logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # What strangers send is no news, line by line.

CONNECTIONS_MOST: Final = 256
"""Connections at a time; the next one is closed at once."""
HEAD_BYTES: Final = 64 * 1024
"""Request line and headers together; more is answered with 400."""
IDLE_S: Final = 15
"""Seconds until the next request must have come, headers and all."""
LEAVE_S: Final = 0.5
"""Seconds that answers under way get when the broker stops."""


class BoundedProtocol(H11Protocol):
    """One connection; it is told goodbye where there are too many, or where no whole request comes in time."""

    cycle: RequestResponseCycle | None  # type: ignore[assignment]
    waiting_since: float = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self.waiting_since = self.loop.time()
        if len(self.connections) > CONNECTIONS_MOST:
            self.transport.abort()
        else:
            self._be_patient()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`: a part of a request does not begin the time anew."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._be_patient()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def on_response_complete(self) -> None:
        """See `H11Protocol`."""
        self.waiting_since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """See `H11Protocol`: what is malformed in the middle of a request ends it, whatever its handler still says."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
        super().send_400_response(msg)

    def _be_patient(self) -> None:
        self._unset_keepalive_if_required()
        if not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_at(self.waiting_since + IDLE_S, self.transport.abort)


class HttpListener:
    """Serves the API of one broker at one address."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self._config = uvicorn.Config(
            make_app(shell),
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # Else X-Forwarded-For would say who is on this machine, and guest may log in.
            timeout_keep_alive=IDLE_S,
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
        self._config.load()
        self._state = ServerState()
        self._state.default_headers = [(b"server", b"Penstock"), (b"cache-control", b"no-cache")]
        make: Callable[[], Any] = lambda: BoundedProtocol(self._config, self._state, {}, self.shell.loop)  # noqa: E731
        self._listener = Listener(shell.hub, shell.loop, make)

    async def start(self, host: str, port: int) -> list[tuple[str, int]]:
        """Take the port; returns the addresses. Raises StartError if it is in use."""
        return await self._listener.start(host, port, "serve HTTP")

    async def stop(self) -> None:
        """Take no more requests, let those under way end within `LEAVE_S`, and give up the others."""
        self._listener.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        await self._wait_for_answers()
        for connection in list(self._state.connections):
            connection.transport.abort()  # Whoever waits for something hears that the client has gone.
        await self._wait_for_answers()

    async def _wait_for_answers(self) -> None:
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=LEAVE_S)
