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

from penstock.protocols.common.refusal_log import HTTP
from penstock.server.event_loop import EventLoop
from penstock.server.http.admission import Admission
from penstock.server.http.app import make_app
from penstock.server.listener import Listener

logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # What strangers send is no news, line by line.

HEAD_BYTES: Final = 64 * 1024
"""Request line and headers together; more is answered with 400."""
IDLE_S: Final = 15
"""Seconds until the next request of a user must have come, headers and all."""
STRANGER_S: Final = 5
"""Seconds from the first octet until somebody has logged in."""
LEAVE_S: Final = 0.5
"""Seconds that answers under way get when the broker stops."""


class BoundedProtocol(H11Protocol):
    """One socket; it is closed where no whole request comes in time, or others need its place (`Admission`)."""

    cycle: RequestResponseCycle | None  # type: ignore[assignment]

    def __init__(self, config: uvicorn.Config, state: ServerState, event_loop: EventLoop, admission: Admission) -> None:
        super().__init__(config, state, {}, event_loop.loop)
        self.app_state = {"socket": self}  # Requests find it in their state.
        self.event_loop = event_loop
        self.admission = admission
        self.host = "unknown"
        self.waiting_since: float = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self.host = self.client[0] if self.client else "unknown"
        self.waiting_since = self.loop.time()
        self._be_patient(STRANGER_S)
        if self.admission.arrive(self):
            self.event_loop.driver.begin(self.loop.time())
            line = f"[http {self.host}] too many sockets on which nobody has logged in: the oldest was closed"
            self.event_loop.driver.log_refusal(HTTP, line)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`: a part of a request does not begin the time anew."""
        super().data_received(data)
        if not self.is_busy():
            self._be_patient(STRANGER_S if self.admission.is_stranger(self) else IDLE_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.admission.leave(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def on_response_complete(self) -> None:
        """See `H11Protocol`. A stranger's time goes on, however many requests it sends."""
        super().on_response_complete()
        stranger = self.admission.is_stranger(self)
        if not stranger:
            self.waiting_since = self.loop.time()
        if not self.is_busy():
            self._be_patient(STRANGER_S if stranger else IDLE_S)

    def is_busy(self) -> bool:
        """See `Socket.is_busy`."""
        return self.cycle is not None and not self.cycle.response_complete

    def hang_up(self) -> None:
        """See `Socket.hang_up`."""
        self.transport.abort()

    def log_in(self) -> bool:
        """See `Admission.log_in`."""
        return self.admission.log_in(self)

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

    def _be_patient(self, seconds: float) -> None:
        self._unset_keepalive_if_required()
        if not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_at(self.waiting_since + seconds, self.transport.abort)


class HttpListener:
    """Serves the API of one broker at one address."""

    def __init__(self, event_loop: EventLoop) -> None:
        self.event_loop = event_loop
        self._config = uvicorn.Config(
            make_app(event_loop),
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
        admission = Admission()
        make: Callable[[], Any] = lambda: BoundedProtocol(self._config, self._state, event_loop, admission)  # noqa: E731
        self._listener = Listener(event_loop.driver, event_loop.loop, make)

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
