"""Complete broker in one process: listeners, connections, store and settings.

`penstock serve` runs it; tests and notebooks use it directly.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

from penstock.access.access_table import GUEST
from penstock.access.back_end import ServedUsers
from penstock.connections.audit_trail import Actor
from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.engine import Protocol
from penstock.connections.login_limits import SHARES
from penstock.connections.peer import is_loopback
from penstock.core.broker import Broker
from penstock.core.settings.changes import replace_file_steps
from penstock.core.settings.limits import Defaults
from penstock.driver.driver import BrokerDriver, DriverServices
from penstock.errors import BrokerError, ConfigError, StartError, StoreError
from penstock.flow.work import Steps, finish
from penstock.logs import auditlog, flowlog
from penstock.logs.ids import (
    CONSOLE_UNSERVED,
    LOG_LEVEL,
    NEEDS_RESTART,
    ONLY_GUEST,
    OPEN_FILE,
    READY,
    RELOAD_REFUSED,
    RELOADED,
    STOPPED,
    STOPPING,
)
from penstock.logs.logger import log
from penstock.logs.record_files import RecordFiles
from penstock.management.flow_log_records import Recorder
from penstock.management.hold_spans import HoldTracer
from penstock.operations.users import replace_file_users
from penstock.server.addresses import http_address, parse_address, url_of
from penstock.server.event_loop import EventLoop
from penstock.server.http.listener import HttpListener
from penstock.server.listener import Listener
from penstock.server.login_threads import LoginPools, default_threads
from penstock.server.logs import counted_connections, log_start, set_level, slow_turn_s
from penstock.server.process_limits import memory_bytes, open_files
from penstock.server.record_log import RecordLog
from penstock.server.store_open import store_of, take_hold
from penstock.server.store_writer import StoreWriter
from penstock.server.tls.contexts import Contexts, ServedCertificates, TlsServer, served_tls
from penstock.server.traces import check_endpoint, collector_at
from penstock.server.transport import Transport
from penstock.server.turn_loop import TurnLoop, loop_clock, wall_clock
from penstock.settings.config import (
    Settings,
    changed_at_start,
    load,
    start_rows,
    table_rows,
)
from penstock.settings.file_tables import BackEndSettings
from penstock.settings.file_users import is_open_to_others
from penstock.settings.start import NO_LOG, RELOADABLE
from penstock.settings.table import BROKER
from penstock.store.directory import DataDirectory
from penstock.version import VERSION

if TYPE_CHECKING:
    from penstock.server.remote_logins import FetchedKeys, HttpBackEnd


METRICS: Final = "http/prometheus"
"""Name of the listener for metrics, as in RabbitMQ."""
STRONGER = ("environment ", "command line")
"""Prefixes of the sources that override the settings file."""
NO_ADDRESS = "the broker has no address to listen at: set listen or listen-tls"
NOT_STARTED = "the broker has no URL before it is started: use `async with broker:`, or `await broker.start()`"
NO_HTTP_API = 'the broker has no HTTP API: give it http="127.0.0.1:0"'
LEAVE_S = 5.0
"""Seconds that clients have to answer connection.close when the broker stops."""


class Server:
    """Broker with its listeners: `async with Server(listen="127.0.0.1:0") as broker:`, then connect to `broker.url`.

    `listen` is HOST:PORT or several of them; port 0 picks a free port. `data` is a directory for durable data (None
    keeps all data in memory). `http` is HOST:PORT of the HTTP API ("off" disables it; None uses the settings). With
    `standby` the broker waits while another broker has the store. `protocols` are the protocols of the listeners (None:
    the standard ones). `settings` contains all other settings. Raises StartError if a port or the directory is in use,
    StoreError for an invalid store.
    """

    def __init__(
        self,
        listen: str | Sequence[str] | None = None,
        data: str | Path | None = None,
        settings: Settings | None = None,
        http: str | None = None,
        standby: bool = False,
        protocols: list[Protocol] | None = None,
    ) -> None:
        self.settings = settings or Settings()
        listeners = self.settings.listen if listen is None else ([listen] if isinstance(listen, str) else list(listen))
        self._listen = [parse_address(address) for address in listeners]
        self._http_at = http_address(http if http is not None else self.settings.http, self._listen, self.settings)
        self._http: dict[str, HttpListener] = {}
        """Listeners of HTTP: `api`, and `metrics` without a login."""
        self.http_addresses: list[tuple[str, int]] = []
        self.console_problem = ""
        """Reason why the console is not served although nobody has turned it off; empty if there is none."""
        """Addresses of the HTTP API without TLS: host and port."""
        self.https_addresses: list[tuple[str, int]] = []
        """Addresses of the HTTP API with TLS."""
        self._certificates: ServedCertificates | None = None
        folder = data if data is not None else self.settings.data
        self._directory = None if folder is None else DataDirectory(Path(folder))
        self._standby = standby
        self._store_writer: StoreWriter | None = None
        self._store = store_of(self.settings.store, self._directory)
        self.storage_location: str = "" if self._store is None else str(self._store)
        """Location of durable data; empty without a store."""
        self._flow_log = self._make_log(flowlog.FILES, "flow-log")
        self._audit_log = self._make_log(auditlog.FILES, "audit-log")
        self._servers: list[Listener] = []
        self._reloading: asyncio.Task[None] | None = None
        self._ready = False
        """True from the end of the start until the stop."""
        self._began = time.monotonic()
        self._reload_again: bool = False
        """True if the settings file must be read once more."""
        self._back_end: HttpBackEnd | None = None
        self._login_threads: LoginPools | None = None
        self._event_loop: EventLoop | None = None
        self.addresses: list[tuple[str, int]] = []
        """Addresses of the AMQP listeners without TLS: host and port."""
        self.tls_addresses: list[tuple[str, int]] = []
        """Addresses of the AMQP listeners with TLS."""
        self.driver = self._make_driver(protocols)
        self._tell_settings()

    @property
    def url(self) -> str:
        """URL of the first listener, for clients. Raises StartError before the start."""
        return url_of("amqp", self.addresses, self.tls_addresses, NOT_STARTED) + "/"

    @property
    def http_url(self) -> str:
        """URL of the HTTP API, without /api. Raises StartError before the start, and if the HTTP API is disabled."""
        problem = NO_HTTP_API if self._ready else NOT_STARTED
        return url_of("http", self.http_addresses, self.https_addresses, problem)

    @property
    def metrics_addresses(self) -> list[tuple[str, int]]:
        """Addresses of metrics and probes without a login: host and port."""
        listeners = [] if self._event_loop is None else self._event_loop.listeners
        return [(host, port) for kind, host, port in listeners if kind == METRICS]

    async def start(self) -> None:
        """Open the store and the ports, and restore durable data.

        Raises StartError and StoreError, after releasing everything.
        """
        if self._directory is not None:
            self._directory.lock()
        loop = asyncio.get_running_loop()
        self.driver.slow_turn_s = slow_turn_s(self.settings)
        self.driver.broker.wall_offset = wall_clock(loop)() - loop.time()
        try:
            if self._flow_log is not None:
                self._flow_log.start()
                self.driver.recorder = Recorder(self.driver.broker)
                self.driver.recorder.wall_offset = self.driver.broker.wall_offset
                self.driver.recorder.shares.resize(self._flow_log.files_most * self._flow_log.file_bytes)
            if self._audit_log is not None:
                self._audit_log.start()
                self.driver.audit.enable(self._audit_log.files_most * self._audit_log.file_bytes)
            if self.settings.traces_endpoint is not None:
                self.driver.tracer = HoldTracer(self.driver.broker, collector_at(self.settings.traces_endpoint))
            self.driver.scheduler.entries.clock = loop_clock()
            self._event_loop = EventLoop(self.driver, loop, self._flow_log, None, self._audit_log)
            _set_latency_target(self.settings)
            await self._open_store(self._event_loop)
            threads = self.settings.login_threads or default_threads()
            back_end = self.settings.back_end
            self._login_threads = LoginPools(self._event_loop, threads, 1 if back_end is None else back_end.threads)
            self.driver.services.authenticator = self._login_threads
            if self._store_writer is not None:
                await self._store_writer.recover()
            if self.driver.recorder is not None:
                self.driver.begin(loop.time())
                self.driver.recorder.begin()
            await self._listen_everywhere(loop, self._event_loop)
            if self._store is None:
                log_start(self.settings, "", self.driver)
            self._event_loop.readiness.obstacle = ""
            self._warn_of_guest()
            self._ready = True
            at = ", ".join(f"{kind} {host}:{port}" for kind, host, port in self._event_loop.listeners)
            log(READY, "Ready : %s", at)
        except BaseException:
            await self.stop()
            raise

    async def _open_store(self, event_loop: EventLoop) -> None:
        """Open the port for metrics, and then the store: a standby waits for it. No turn runs meanwhile."""
        event_loop.readiness.resting = True
        if self.settings.metrics_listen is not None:
            self._http["metrics"] = HttpListener(event_loop, self.settings, False)
            at = parse_address(self.settings.metrics_listen, "--metrics-listen")
            addresses = await self._http["metrics"].start(*at)
            event_loop.listeners += [(METRICS, *address) for address in addresses]
        if self._store is not None:
            event_loop.readiness.obstacle = "the store is being opened"
            await take_hold(self._store, self._standby, partial(setattr, event_loop.readiness, "obstacle"))
            event_loop.readiness.obstacle = "the store is being restored"
            log_start(self.settings, self.storage_location, self.driver)  # The recovery may take minutes.
            self._store_writer = StoreWriter(self._store, event_loop)
            event_loop.store_writer = self._store_writer
        event_loop.readiness.resting = False

    def _warn_of_guest(self) -> None:
        """Log that logins from other machines are impossible, if guest is the only user."""
        addresses = self.addresses + self.tls_addresses + self.http_addresses + self.https_addresses
        distant = [f"{host}:{port}" for host, port in addresses if not is_loopback(host)]
        served = self.settings.tokens is not None or self.settings.back_end is not None
        if distant and not served and self.driver.broker.access.names() == [GUEST]:
            log(
                ONLY_GUEST,
                "listening on %s, but the only user is guest, who can log in from this machine only; "
                "add one for others: penstock users add NAME",
                ", ".join(distant),
            )

    async def wait_lost(self) -> StoreError:
        """Wait until the store is lost: the broker must stop then.

        Another broker has taken the store over (StoreLost), or an internal error has occurred.
        """
        if self._store_writer is None:
            await asyncio.Event().wait()
        assert self._store_writer is not None
        # A cancelled waiter must not cancel the future for the store writer.
        return await asyncio.shield(self._store_writer.lost)

    async def stop(self) -> None:
        """Stop accepting, close all connections (320) and wait for them, a few seconds at most."""
        if self._ready:
            log(STOPPING, "Shutting down : %s", counted_connections(len(self.driver.connections)))
        for server in self._servers:
            server.close()
        if self._reloading is not None:
            self._reloading.cancel()
        for http in self._http.values():
            await http.stop()
        event_loop = self._event_loop
        if event_loop is not None:
            event_loop.close_connections()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(event_loop.emptied.wait(), LEAVE_S)
            await event_loop.finish_ends()
        if self._store_writer is not None:
            await self._store_writer.stop()
        stuck = self._store_writer is not None and self._store_writer.is_stuck()
        if self._store is not None and not stuck:  # Otherwise the end of the process closes the store.
            self._store.close()
        for part in (self._certificates, self._login_threads, event_loop):
            if part is not None:
                part.stop()
        if self._back_end is not None:
            self._back_end.close()
        if self.driver.tracer is not None:
            await asyncio.to_thread(self.driver.tracer.collector.stop)
        if self._flow_log is not None:
            self._flow_log.stop()
        if self._audit_log is not None:
            self.driver.audit.finish()
            self._audit_log.put(self.driver.audit.take())
            self._audit_log.stop()
        self._servers.clear()
        if self._directory is not None and not stuck:
            self._directory.unlock()
        if self._ready:
            self._ready = False
            log(STOPPED, "Stopped : after %.1f s", time.monotonic() - self._began)

    def reload(self) -> asyncio.Task[None] | None:
        """Read the settings file again (SIGHUP): all of its patterns apply, or none. Return the task of the reload.

        Settings set by command stay and take precedence. An error is logged with its line and changes nothing. Requests
        during a reload are merged into one more reload.
        """
        if self.settings.file is None:
            log(RELOAD_REFUSED, "reload: there is no settings file; start with --config FILE")
            return None
        self._reload_again = True
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.get_running_loop().create_task(self._reload(self.settings.file))
        return self._reloading

    async def _reload(self, file: Path) -> None:
        while self._reload_again:
            self._reload_again = False
            try:
                settings = await asyncio.to_thread(load, file)
            except ConfigError as error:
                log(RELOAD_REFUSED, "reload: the old settings stay: %s", error)
                continue
            event_loop = self._event_loop
            assert event_loop is not None
            done = event_loop.loop.create_future()
            self.driver.scheduler.start(self._replace(settings, done))
            event_loop.schedule()
            await done
            await self._reload_certificates(settings)

    async def _reload_certificates(self, settings: Settings) -> None:
        """Serve the certificates of a settings file. If any cannot be used, the present certificates stay."""
        if self._certificates is not None and settings.tls is not None:
            try:
                await self._certificates.replace(settings.tls)
                log(RELOADED, "reload: the certificates were read again; new connections use them")
            except ConfigError as error:
                log(RELOAD_REFUSED, "reload: the old certificates stay: %s", error)

    def _replace(self, settings: Settings, done: asyncio.Future[None]) -> Steps[None]:
        """Replace the settings of the previous file by those of the new one, and log the outcome."""
        file = settings.file
        try:
            plan = yield from replace_file_steps(self.driver.broker, settings.patterns)
            log(
                RELOADED, "reload: '%s' is in effect; settings of %d queues were computed again", file, len(plan.queues)
            )
            for sentence in plan.overflow.sentences():
                log(RELOADED, "reload: %s", sentence)
            self.driver.audit.change(Actor("", "file", "signal"), "settings.reload", str(file))
            if self.driver.recorder is not None:
                self.driver.recorder.setting("file", f"'{file}' was read again", "")
            if self.driver.broker.table.has_commands():
                log(
                    RELOADED,
                    "reload: settings set by command stay and take precedence over the file; "
                    "`penstock settings` lists them",
                )
            closed = replace_file_users(self.driver, settings.users)
            if closed:
                log(
                    RELOADED, "reload: %d connections are closed: their users may not use their vhosts any more", closed
                )
            self._warn_of_open_file(settings)
            self._apply_reloadable(settings)
            for name in changed_at_start(self.settings, settings):
                log(NEEDS_RESTART, "reload: %s takes effect only at the start; restart the broker", name)
        except BrokerError as error:
            log(RELOAD_REFUSED, "reload: the old settings stay; '%s': %s", file, error)
        finally:
            if not done.done():
                done.set_result(None)

    def _apply_reloadable(self, settings: Settings) -> None:
        """Apply the start-up settings that a reload of the file may change; options of the command line stay."""
        before = self.settings
        stronger = [name for name in RELOADABLE if before.sources.get(name, "").startswith(STRONGER)]
        changed = {name: getattr(settings, name) for name in RELOADABLE if name not in stronger}
        sources = {name: source for name, source in before.sources.items() if name not in changed}
        sources |= {name: settings.sources[name] for name in changed if name in settings.sources}
        self.settings = replace(before, sources=sources, **changed)
        self._tell_settings()
        settings = self.settings
        self.driver.slow_turn_s = slow_turn_s(settings)
        _set_latency_target(settings)
        if set_level(settings.log_level):
            log(LOG_LEVEL, "reload: the log has records from level %s on", settings.log_level)

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _tell_settings(self) -> None:
        """Make the start-up settings available to `penstock config`."""
        settings = self.driver.start_settings
        settings.rows = start_rows(self.settings) + table_rows(self.settings)
        settings.file = "" if self.settings.file is None else str(self.settings.file)

    def check(self) -> None:
        """Check the settings of a broker that is not started, as far as the constructor has not. Raises ConfigError.

        The store is not opened and no port is used. Certificates are read.
        """
        settings = self.settings
        for address in (*settings.listen_tls, *filter(None, [settings.http_tls])):
            parse_address(address, "listen-tls or http-tls")
        if settings.traces_endpoint is not None:
            check_endpoint(settings.traces_endpoint)
        if settings.metrics_listen is not None:
            parse_address(settings.metrics_listen, "--metrics-listen")
        if not self._listen and not settings.listen_tls:
            raise StartError(NO_ADDRESS)
        tls = served_tls(settings)
        if tls is not None:
            Contexts(tls)

    def _warn_of_open_file(self, settings: Settings) -> None:
        file = settings.file
        if file is not None and settings.clear_passwords and is_open_to_others(file):
            log(OPEN_FILE, "'%s' has passwords and can be read by others; chmod o-r it, or use password_hash", file)

    def _make_log(self, files: RecordFiles, name: str) -> RecordLog | None:
        """Return a log in the configured directory, or in the data directory under its name, or None."""
        setting = name.replace("-", "_")
        given, most, octets = (getattr(self.settings, f"{setting}{part}") for part in ("", "_files", "_file_bytes"))
        if given == NO_LOG or (given is None and self._directory is None):
            return None
        folder = self._directory.path / name if given is None and self._directory is not None else Path(given)
        return RecordLog(files, folder, most, octets)

    def _make_driver(self, protocols: list[Protocol] | None) -> BrokerDriver:
        settings = self.settings
        core = Broker(
            Defaults(settings.capacity_bytes, settings.stop_percent, settings.resume_percent, settings.hold_deadline_s)
        )
        core.table.machine_bytes = memory_bytes()
        core.gates.set_memory_limit(core.table.limits(BROKER, ""))
        core.gates.set_disk_limit(core.table.limits(BROKER, ""))
        core.gates.metadata.table_octets_max = settings.arguments_octets_max
        core.gates.metadata.bytes_max = settings.arguments_bytes_max
        for vhost in settings.vhosts:
            core.add_vhost(vhost)
        try:
            finish(replace_file_steps(core, settings.patterns))
        except BrokerError as error:
            raise ConfigError(f"'{settings.file}': {error}") from None
        policy = ConnectionLimits(settings)
        policy.handshakes_max = min(settings.handshakes_max, open_files() // 2)
        policy.handshakes_address_max = min(settings.handshakes_address_max, open_files() // 4)
        core.access.set_file_users(settings.users)
        self._warn_of_open_file(settings)
        build = importlib.import_module("penstock").build()
        driver = BrokerDriver(core, policy, secrets.token_urlsafe(12), VERSION, protocols, build)
        driver.has_users_elsewhere = settings.tokens is not None or settings.back_end is not None
        if settings.tokens is not None:
            assert isinstance(driver.services, DriverServices)
            driver.services.tokens = settings.tokens.policy(_token_keys(settings.tokens.keys))
        if settings.back_end is not None:
            self._serve_users(driver, settings.back_end)
        driver.name = f"penstock@{socket.gethostname()}"
        return driver

    def _serve_users(self, driver: BrokerDriver, settings: BackEndSettings) -> None:
        """Configure the HTTP back end for users that the broker does not know."""
        from penstock.server.remote_logins import HttpBackEnd  # The module loads slowly, and few brokers need it.

        self._back_end = HttpBackEnd(settings)
        secret = secrets.token_bytes(32)
        core = driver.broker
        served = ServedUsers(
            core.access, self._back_end, secret, settings.permission, settings.cache_s, lambda: core.now
        )
        assert isinstance(driver.services, DriverServices)
        driver.services.served = served
        driver.services.backoff.shares = SHARES

    async def _listen_everywhere(self, loop: asyncio.AbstractEventLoop, event_loop: EventLoop) -> None:
        """Open all ports. Raises StartError and ConfigError."""
        settings = self.settings
        tls = self._serve_certificates(loop)
        for host, port in self._listen:
            self.addresses += await self._bind(loop, host, port, event_loop, None)
        for address in settings.listen_tls:
            self.tls_addresses += await self._bind(loop, *parse_address(address, "--listen-tls"), event_loop, tls)
        if not self._servers:
            raise StartError(NO_ADDRESS)
        if self._http_at is not None:
            try:
                self.http_addresses = await self._serve_http(self._http_at.host, self._http_at.port, event_loop, None)
            except StartError as error:
                if not self._http_at.optional:
                    raise
                self.console_problem = str(error).partition(";")[0]
                log(CONSOLE_UNSERVED, "the console is not served: %s", error)
        if settings.http_tls is not None:
            at = parse_address(settings.http_tls, "--http-tls")
            self.https_addresses = await self._serve_http(*at, event_loop, tls)

    def _serve_certificates(self, loop: asyncio.AbstractEventLoop) -> TlsServer | None:
        """Read the certificates of the listeners with TLS; return the state that their connections share, None without
        any.
        """
        tls = served_tls(self.settings)
        if tls is None:
            return None
        self._certificates = ServedCertificates(self.driver, loop, tls)
        self.driver.certificates = self._certificates
        return self._certificates.server

    async def _serve_http(
        self, host: str, port: int, event_loop: EventLoop, tls: TlsServer | None
    ) -> list[tuple[str, int]]:
        """Start the HTTP API."""
        if "api" not in self._http:
            self._http["api"] = HttpListener(event_loop, self.settings, True)
        addresses = await self._http["api"].start(host, port, tls)
        event_loop.listeners += [("http" if tls is None else "https", *address) for address in addresses]
        return addresses

    def _make_transport(self, event_loop: EventLoop) -> Transport:
        """Return the transport of a new connection."""
        return Transport(event_loop)

    async def _bind(
        self, loop: asyncio.AbstractEventLoop, host: str, port: int, event_loop: EventLoop, tls: TlsServer | None
    ) -> list[tuple[str, int]]:
        listener = Listener(self.driver, loop, lambda: self._make_transport(event_loop), tls)
        addresses = await listener.start(host, port, "listen")
        self._servers.append(listener)
        event_loop.listeners += [("amqp" if tls is None else "amqp/ssl", *address) for address in addresses]
        return addresses


def _set_latency_target(settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    if isinstance(loop, TurnLoop):
        loop.turn_selector.set_latency_target(settings.latency_target_ms / 1000)


def _token_keys(where: str) -> FetchedKeys:
    """Return the keys of tokens.

    Imports the token library, which loads slowly; raises StartError if the library is not installed.
    """
    try:
        for name in ("jwt.algorithms", "cryptography"):
            importlib.import_module(name)
    except ImportError:
        raise StartError("[oauth] needs PyJWT and cryptography: pip install 'penstock[oauth]'") from None
    keys: FetchedKeys = importlib.import_module("penstock.server.remote_logins").FetchedKeys(where)
    return keys
