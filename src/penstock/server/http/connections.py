"""HTTP connections: uvicorn's protocol on the broker's own loop, with bounds on sockets and times.

uvicorn's server is not used: it would install signal handlers and poll ten times a second.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from penstock.connections.log_line import HTTP
from penstock.connections.peer import TlsSession
from penstock.flow.pool import PoolHolder, Pools
from penstock.server.event_loop import EventLoop
from penstock.server.http.admission import INSIDE_MOST, STRANGERS_MOST, Admission, HttpDebts, stranger_at
from penstock.server.http.app import Endpoint, make_app
from penstock.server.http.asks import Inside
from penstock.server.http.browser_guard import BrowserGuard
from penstock.server.http.metrics import MetricsService
from penstock.server.http.probes import probe_app
from penstock.server.http.request import Service
from penstock.server.inside import ASK_PATH
from penstock.server.secured_protocol import SecuredProtocol
from penstock.server.socket_ends import ends_of
from penstock.settings.config import Settings

logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # No log line for each request of a stranger.

HEAD_BYTES: Final = 64 * 1024
"""Most bytes of request line and headers; more is answered with 400."""
HEAD_LINES: Final = 128
"""Lines of a head, or of trailers, from which on one that is not complete is refused (431)."""
PIECE: Final = 2048
"""Octets that are parsed at once: a few hundred short headers or chunks at worst, which take a millisecond."""
SLICE_S: Final = 0.001
"""Seconds of parsing in one slice; it ends with the piece that reaches them."""
INPUT_MOST: Final = 64 * 1024
"""Octets of input that wait for a slice, from which on the socket is not read."""
STRANGERS_REST_S: Final = 1.0
"""Longest rest of an address for what its strangers owe: others may log in from there."""
IDLE_S: Final = 15
"""Seconds until the next request of a user must have arrived, headers included."""
STRANGER_S: Final = 5
"""Seconds from the first byte until a login."""
LEAVE_S: Final = 0.5
"""Seconds that requests in progress get when the broker stops."""


class BoundedProtocol(H11Protocol, SecuredProtocol):
    """HTTP connection; closed if no whole request arrives in time, or if `Admission` needs the socket's room.

    Input is read into the buffer of the event loop, as for AMQP: asyncio's transports for other protocols refer to
    themselves. Input waits for a slice, as requests do, and is parsed in pieces, so a stranger's input delays other
    clients by no more than a slice. Long work is charged to its user, or to the address of a stranger.
    """

    cycle: RequestResponseCycle | None  # type: ignore[assignment]

    def __init__(
        self, config: uvicorn.Config, state: ServerState, event_loop: EventLoop, admission: Admission, debts: HttpDebts
    ) -> None:
        super().__init__(config, state, {}, event_loop.loop)
        self.event_loop = event_loop
        self.admission = admission
        self.debts = debts
        self.host = "unknown"
        self.waiting_since: float = 0.0
        self._payer = ""
        """Payer for its input: its user, or its address before a login."""
        self._input = bytearray()
        """Octets that are not parsed yet."""
        self._next: asyncio.Future[None] | asyncio.TimerHandle | None = None
        """Its next slice, or the end of its rest; None if it waits for neither."""
        self._parses = False
        """True within its slice."""
        self._ended = False
        """True if its peer has ended its side before all was parsed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self.flow = FlowControl(self)  # type: ignore[arg-type]
        if self.client is None:  # uvicorn knows no peer at a Unix socket.
            self.client = ends_of(transport).peer
        self.host = self.client[0]
        self._payer = stranger_at(self.host)
        self.app_state = {"socket": self, "stranger": self._payer}  # Requests read these from their state.
        self.waiting_since = self.loop.time()
        self._be_patient(STRANGER_S)
        if self.admission.arrive(self):
            self.event_loop.driver.begin(self.loop.time())
            line = f"[http {self.host}] too many sockets without a login: the oldest was closed"
            self.event_loop.driver.log_queue.add_refusal(HTTP, line)

    def secured(self, session: TlsSession) -> None:
        """See `SecuredProtocol`: requests do not use the TLS of a connection."""

    def charge_bare(self, units: int) -> None:
        """See `SecuredProtocol`: the socket is read again after a slice; a stranger rests before the slice."""
        self.transport.pause_reading()
        self.debts.charge(self._payer, units)
        self._wait()

    def get_buffer(self, sizehint: int) -> memoryview:
        """See `asyncio.BufferedProtocol`."""
        return self.event_loop.buffers.whole

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`."""
        self.data_received(bytes(self.event_loop.buffers.whole[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`. A part of a request does not restart the time-out."""
        self._input += data
        if len(self._input) >= INPUT_MOST:
            self.transport.pause_reading()
        self._wait()

    def eof_received(self) -> bool:  # type: ignore[override]
        """See `asyncio.Protocol`. Input that has arrived is parsed first."""
        self._ended = self._next is not None
        return self._ended

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self.admission.leave(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self.app_state = {}  # These refer to this object; a request in progress refers to them as well.
        self.flow = FlowControl(self.transport)
        self.scope = None  # type: ignore[assignment]
        self.cycle = None

    # Input in slices

    def pause_reading(self) -> None:
        """See `FlowControl`: a request is in progress, or enough of its body is buffered."""
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        """See `FlowControl`: input that has arrived is parsed before more is read."""
        if self._input:
            self._wait()
        else:
            self.transport.resume_reading()

    def handle_events(self) -> None:
        """See `H11Protocol`. Of several requests that arrived together, each waits for a slice of its own."""
        if self._parses:
            super().handle_events()
        elif self._input or self.conn.trailing_data[0]:
            self._wait()

    def _wait(self) -> None:
        """Wait for the next slice; a stranger first rests for the debt of its address."""
        if self._next is not None or self.transport.is_closing():
            return
        rest_s = self.debts.rest_s(self._payer) if self.admission.is_stranger(self) else 0.0
        if rest_s > 0.0:
            self._next = self.loop.call_later(min(rest_s, STRANGERS_REST_S), self._ask)
        else:
            self._ask()

    def _ask(self) -> None:
        """Request a slice."""
        self._next = turn = self.event_loop.slices.next()
        turn.add_done_callback(self._parse)

    def _parse(self, turn: asyncio.Future[None]) -> None:
        """Parse input for a slice."""
        if turn.cancelled() or self.transport.is_closing():
            return
        self._next = None
        self._parses = True
        self.debts.begin()
        try:
            self._parse_pieces(self.loop.time() + SLICE_S)
        except Exception as unexpected:
            self.event_loop.driver.failures.report(f"input of [http {self.host}]", unexpected)
            self.transport.abort()
        finally:
            self._parses = False
            self.debts.end(self._payer, f"http input of {self.host}")
        if self.transport.is_closing():
            return
        if self._ended and (self.flow.read_paused or not self._input):
            self.loop.call_soon(self.transport.close)  # By then a request has run its first step.
        elif not self.flow.read_paused:
            self.resume_reading()
        if not self.is_busy():
            self._be_patient(STRANGER_S if self.admission.is_stranger(self) else IDLE_S)

    def _parse_pieces(self, until: float) -> None:
        super().handle_events()
        while self._input and not self.flow.read_paused and not self.transport.is_closing():
            piece = bytes(self._input[:PIECE])
            del self._input[:PIECE]
            super().data_received(piece)
            if self._is_head_too_long():
                self._refuse(431, f"a request has more than {HEAD_LINES} headers")
            if self.loop.time() >= until:
                return

    def _is_head_too_long(self) -> bool:
        """Return whether input that h11 has not parsed yet, part of a head or of trailers, has too many lines.

        While a request is in progress, this is the head of the next request.
        """
        return not self.flow.read_paused and self.conn.trailing_data[0].count(b"\n") > HEAD_LINES

    # Answers and ends

    def on_response_complete(self) -> None:
        """See `H11Protocol`. A stranger's time-out is not restarted by further requests."""
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
        """See `Socket.hang_up`. Further output of a request in progress is dropped."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        self.transport.abort()

    def log_in(self, holder: PoolHolder) -> bool:
        """See `Admission.log_in`; a socket without a user is a scraper's."""
        self._payer = holder.user or self._payer
        return self.admission.log_in(self, holder)

    def send_400_response(self, msg: str) -> None:
        """See `H11Protocol`. Malformed input ends the request in progress; further output of its handler is dropped."""
        error = sys.exception()
        if error is not None:
            error.__traceback__ = None  # A frame of h11 refers to the error, and other frames to this connection.
        self._refuse(400, msg)

    def shutdown(self) -> None:
        """See `H11Protocol`."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    def _refuse(self, status: int, text: str) -> None:
        """Answer input that is not HTTP, and close the socket; if an answer has begun, only close the socket.

        The answer is not written by h11, which refuses to write a body after a HEAD.
        """
        cycle = self.cycle
        body = text.encode()
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self.transport.abort()
                return
            if cycle.scope["method"] == "HEAD":
                body = b""
        elif self.conn.our_state is not h11.IDLE:
            self.transport.close()
            return
        head = b"".join(b"%b: %b\r\n" % header for header in self.server_state.default_headers)
        self.transport.write(
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
            f"content-length: {len(text.encode())}\r\nconnection: close\r\n".encode()
            + head
            + b"\r\n"
            + body
        )
        self.transport.close()

    def _be_patient(self, seconds: float) -> None:
        self._unset_keepalive_if_required()
        if not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_at(self.waiting_since + seconds, self.transport.abort)


def api_connections(event_loop: EventLoop, settings: Settings, inside: Inside | None = None) -> HttpConnections:
    """Return the connections of the HTTP API, of metrics for users, and of the console.

    With `inside` they are those of other processes of a node, which ask for operations as well.
    """
    service, pools = Service(event_loop), event_loop.driver.broker.pools
    more: dict[str, Endpoint] = {}
    if inside is not None:
        service.identify = inside.login
        more[ASK_PATH] = inside.endpoint(service)
    scraped = MetricsService(event_loop, settings.metrics_objects_max, pools)
    return served_connections(service, settings, make_app(service, scraped, more), inside is not None)


def served_connections(service: Service, settings: Settings, app: ASGIApp, is_inside: bool = False) -> HttpConnections:
    """Return the connections of an application with a login; `is_inside` for those of other processes of a node."""
    event_loop, hosts, origins = service.event_loop, settings.http_hosts, settings.http_origins
    pools = None if is_inside else event_loop.driver.broker.pools  # Users have no share of the sockets inside a node.
    return HttpConnections(event_loop, app, service.debts, hosts, origins, service.hub.close, pools, is_inside)


def metrics_connections(event_loop: EventLoop, settings: Settings) -> HttpConnections:
    """Return the connections of metrics and probes without a login."""
    scraped = MetricsService(event_loop, settings.metrics_objects_max, Pools())
    return probe_connections(event_loop, settings, probe_app(event_loop, scraped))


def probe_connections(event_loop: EventLoop, settings: Settings, app: ASGIApp) -> HttpConnections:
    """Return the connections of an application without a login."""
    return HttpConnections(event_loop, app, HttpDebts(event_loop.driver.scheduler.entries), settings.http_hosts)


class _Charged:
    """Middleware that measures the steps of each request. An incomplete answer closes its connection."""

    def __init__(self, app: ASGIApp, event_loop: EventLoop, debts: HttpDebts) -> None:
        self._app = app
        self._failures = event_loop.driver.failures
        self._debts = debts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        try:
            await self._debts.timed(scope, self._app(scope, receive, send))
        except asyncio.CancelledError:
            scope["state"]["socket"].hang_up()  # The broker stops; uvicorn would log a traceback.
        except Exception as unexpected:
            self._failures.report(f"{scope.get('method')} {scope.get('path')}", unexpected)


class HttpConnections:
    """Connections of one application."""

    def __init__(
        self,
        event_loop: EventLoop,
        app: ASGIApp,
        debts: HttpDebts,
        hosts: Sequence[str] = (),
        origins: Sequence[str] = (),
        on_stop: Callable[[], None] | None = None,
        pools: Pools | None = None,
        is_inside: bool = False,
    ) -> None:
        """`hosts` and `origins` are passed to `BrowserGuard`; `on_stop` ends the running work of the application.

        `pools`: the broker's pools; with None the application has its own pools. `is_inside`: the peers are processes
        of the node, which bounds its own clients.
        """
        self._event_loop = event_loop
        self._debts = debts
        self._on_stop = on_stop
        self._config = uvicorn.Config(
            _Charged(BrowserGuard(app, hosts, origins), event_loop, debts),
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
        self._admission = Admission(Pools() if pools is None else pools, INSIDE_MOST if is_inside else STRANGERS_MOST)

    def make(self) -> BoundedProtocol:
        """Return the protocol of a new connection."""
        return BoundedProtocol(self._config, self._state, self._event_loop, self._admission, self._debts)

    async def stop(self) -> None:
        """Wait for requests in progress up to `LEAVE_S`, abort their connections, and cancel the remaining requests."""
        if self._on_stop is not None:
            self._on_stop()
        for connection in list(self._state.connections):
            connection.shutdown()
        await self._wait_for_answers()
        for connection in list(self._state.connections):
            connection.transport.abort()  # Waiting handlers learn that the client has disconnected.
        await self._wait_for_answers()
        for task in list(self._state.tasks):
            task.cancel()  # The request waits for a thread.
        await self._wait_for_answers()

    async def _wait_for_answers(self) -> None:
        if self._state.tasks:
            await asyncio.wait(list(self._state.tasks), timeout=LEAVE_S)
