"""HTTP connections: uvicorn's protocol on the broker's own loop, with bounds on sockets and times.

uvicorn's server is not used: it would install signal handlers and poll ten times a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from penstock.config import Settings
from penstock.protocols.common.log_line import HTTP
from penstock.server.event_loop import EventLoop
from penstock.server.http.admission import Admission
from penstock.server.http.app import make_app
from penstock.server.http.login import BrowserGuard
from penstock.server.http.metrics import MetricsService
from penstock.server.http.probes import probe_app
from penstock.server.http.request import Service

logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # Requests of strangers are not worth a line each.

HEAD_BYTES: Final = 64 * 1024
"""Most octets of request line and headers; more is answered with 400."""
IDLE_S: Final = 15
"""Seconds until the next request of a user must have arrived, headers included."""
STRANGER_S: Final = 5
"""Seconds from the first octet until a login."""
LEAVE_S: Final = 0.5
"""Seconds that requests in progress get when the broker stops."""


class BoundedProtocol(H11Protocol, asyncio.BufferedProtocol):
    """HTTP connection; it is closed if no whole request arrives in time, or `Admission` needs its place.

    It reads into the buffer of the event loop, as AMQP does: asyncio's transports for other protocols refer to
    themselves.
    """

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
            line = f"[http {self.host}] too many sockets without a login: the oldest was closed"
            self.event_loop.driver.log_queue.add_refusal(HTTP, line)

    def get_buffer(self, sizehint: int) -> memoryview:
        """See `asyncio.BufferedProtocol`."""
        return self.event_loop.buffers.whole

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`."""
        self.data_received(bytes(self.event_loop.buffers.whole[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`. A part of a request does not restart the time-out."""
        super().data_received(data)
        if not self.is_busy():
            self._be_patient(STRANGER_S if self.admission.is_stranger(self) else IDLE_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.admission.leave(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.app_state = {}  # They refer to this object; a request in progress has them as well.
        self.scope = None  # type: ignore[assignment]
        self.cycle = None

    def on_response_complete(self) -> None:
        """See `H11Protocol`. A stranger's time-out continues, however many requests it sends."""
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
        """See `H11Protocol`. Malformed octets end the request in progress, whatever its handler still sends."""
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


def api_connections(event_loop: EventLoop, settings: Settings) -> HttpConnections:
    """Return the connections of the HTTP API, of metrics for users, and of the console."""
    service = Service(event_loop)
    app = make_app(service, MetricsService(event_loop, settings.metrics_objects_max))
    return HttpConnections(event_loop, app, settings.http_hosts, settings.http_origins, service.hub.close)


def metrics_connections(event_loop: EventLoop, settings: Settings) -> HttpConnections:
    """Return the connections of metrics and probes without a login."""
    app = probe_app(event_loop, MetricsService(event_loop, settings.metrics_objects_max))
    return HttpConnections(event_loop, app, settings.http_hosts)


class HttpConnections:
    """Connections of one application."""

    def __init__(
        self,
        event_loop: EventLoop,
        app: ASGIApp,
        hosts: Sequence[str] = (),
        origins: Sequence[str] = (),
        on_stop: Callable[[], None] | None = None,
    ) -> None:
        """`hosts` and `origins` are those of `BrowserGuard`; `on_stop` ends the running work of the application."""
        self._event_loop = event_loop
        self._on_stop = on_stop
        self._config = uvicorn.Config(
            BrowserGuard(app, hosts, origins),
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # X-Forwarded-For must not make a peer local for guest.
            timeout_keep_alive=IDLE_S,
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
        self._config.load()
        self._state = ServerState()
        self._state.default_headers = [(b"server", b"Penstock"), (b"cache-control", b"no-cache")]
        self._admission = Admission()

    def make(self) -> BoundedProtocol:
        """Return the protocol of a new connection."""
        return BoundedProtocol(self._config, self._state, self._event_loop, self._admission)

    async def stop(self) -> None:
        """Wait for requests in progress up to `LEAVE_S`, and abort the rest."""
        if self._on_stop is not None:
            self._on_stop()
        for connection in list(self._state.connections):
            connection.shutdown()
        await self._wait_for_answers()
        for connection in list(self._state.connections):
            connection.transport.abort()  # Handlers that wait see the client as disconnected.
        await self._wait_for_answers()

    async def _wait_for_answers(self) -> None:
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=LEAVE_S)
