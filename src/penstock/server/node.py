"""Node of a server: what a process has beside its shard: listeners, certificates, logins, HTTP and settings.

Its listeners are the intake of the shard: they pass each accepted socket to `Shard.take`. A reload of the settings file
begins here, and the shard gets its part.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.access.access_table import GUEST
from penstock.connections.peer import is_loopback
from penstock.errors import ConfigError, StartError
from penstock.logs.ids import (
    CONSOLE_UNSERVED,
    LOG_LEVEL,
    NEEDS_RESTART,
    ONLY_GUEST,
    OPEN_FILE,
    RELOAD_REFUSED,
    RELOADED,
)
from penstock.logs.logger import log
from penstock.management.alarms import AlarmListener
from penstock.server.addresses import http_address, is_unix, parse_address, shown, url_of
from penstock.server.event_loop import EventLoop
from penstock.server.http.listener import HttpListener
from penstock.server.listener import Listener
from penstock.server.logins import Logins
from penstock.server.logs import set_level
from penstock.server.process_facts import ServerFacts
from penstock.server.process_limits import memory_bytes, open_files
from penstock.server.settings_reload import SettingsReload
from penstock.server.shard import Allowance, Shard
from penstock.server.tls.contexts import Contexts, ServedCertificates, TlsServer, served_tls
from penstock.server.tls.layer import TlsLayer
from penstock.server.traces import check_endpoint
from penstock.settings.config import Settings, changed_at_start, start_rows, table_rows
from penstock.settings.file_users import is_open_to_others
from penstock.settings.start import RELOADABLE

if TYPE_CHECKING:
    from penstock.server.alarm_hook import AlarmHook
    from penstock.server.bridge_worker import BridgeWorker
    from penstock.settings.file_tables import HookSettings

METRICS: Final = "http/prometheus"
"""Name of the listener for metrics, as in RabbitMQ."""
STRONGER: Final = ("environment ", "command line")
"""Prefixes of the sources that override the settings file."""
NO_ADDRESS: Final = "the broker has no address to listen at: set listen or listen-tls"
NOT_STARTED: Final = "the broker has no URL before it is started: use `async with broker:`, or `await broker.start()`"
NO_HTTP_API: Final = 'the broker has no HTTP API: give it http="127.0.0.1:0"'


def node_name() -> str:
    """Return the name of the node in this process."""
    return f"penstock@{socket.gethostname()}"


def whole_machine() -> Allowance:
    """Return the allowance of the only shard of a process."""
    return Allowance(memory_bytes(), open_files())


class ServerNode:
    """Node of a server, with one shard in its process. Operations read and change a `Node` (management/node.py).

    The steps of a start: `begin`, `open_metrics` and `start_logins` once the shard has an event loop, `listen` once the
    shard is restored. The steps of a stop, after any of them: `stop_accepting` before the shard closes, `release` after
    it.
    """

    def __init__(self, settings: Settings, listen: list[tuple[str, int]], http: str | None, shard: Shard) -> None:
        """`listen` are the addresses without TLS, `http` is the address of the HTTP API. Raises StartError."""
        self.settings = settings
        self.shard = shard
        self.logins = Logins(settings, shard.driver)
        self.reload = SettingsReload(settings.file, self._apply)
        self._listen = listen
        self._http_at = http_address(http, listen, settings)
        self._listeners: list[Listener] = []
        self.listeners: list[tuple[str, str, int]] = []
        """Open listeners of all kinds: protocol (amqp, http), host and port."""
        self.http: dict[str, HttpListener] = {}
        """Listeners of HTTP: `api`, and `metrics` without a login."""
        self._certificates: ServedCertificates | None = None
        self._hook: AlarmHook | None = None
        """Web hook of alarms; None without one."""
        self._bridges: BridgeWorker | None = None
        """Worker of bridges; None before the first bridge."""
        self.addresses: list[tuple[str, int]] = []
        """Addresses of the AMQP listeners without TLS: host and port."""
        self.tls_addresses: list[tuple[str, int]] = []
        """Addresses of the AMQP listeners with TLS."""
        self.http_addresses: list[tuple[str, int]] = []
        """Addresses of the HTTP API without TLS."""
        self.https_addresses: list[tuple[str, int]] = []
        """Addresses of the HTTP API with TLS."""
        self.metrics_addresses: list[tuple[str, int]] = []
        """Addresses of metrics and probes without a login."""
        self.console_problem = ""
        """Reason why the console is not served although nobody has turned it off; empty if there is none."""
        _warn_of_open_file(settings)
        self._publish_settings()

    @property
    def url(self) -> str:
        """URL of the first listener, for clients. Raises StartError before the start."""
        return url_of("amqp", self.addresses, self.tls_addresses, NOT_STARTED) + "/"

    @property
    def http_url(self) -> str:
        """URL of the HTTP API, without /api. Raises StartError before the start, and if the HTTP API is disabled."""
        problem = NO_HTTP_API if self.addresses or self.tls_addresses else NOT_STARTED
        return url_of("http", self.http_addresses, self.https_addresses, problem)

    def check(self) -> None:
        """Check the settings of a node that is not started, as far as the constructor has not. Raises ConfigError.

        No port is used. Certificates are read.
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
        if settings.definitions is not None:
            from penstock.server.definitions_files import check_definitions

            check_definitions(Path(settings.definitions))
        if settings.hook is not None:
            from penstock.server.alarm_hook import context_of

            context_of(settings.hook)
        tls = served_tls(settings)
        if tls is not None:
            Contexts(tls)

    # Start

    def begin(self) -> None:
        """Provide the facts about the process, and its listeners, to operations."""
        self.shard.driver.process = ServerFacts(self.shard.event_loop, self.listeners)
        self._set_hook(self.settings.hook)

    async def open_metrics(self) -> None:
        """Open the port for metrics and probes, which also answers while a standby waits. Raises StartError."""
        if self.settings.metrics_listen is not None:
            event_loop = self.shard.event_loop
            at = parse_address(self.settings.metrics_listen, "--metrics-listen")
            self.http["metrics"] = HttpListener(event_loop, self.settings, False)
            self.metrics_addresses = await self.http["metrics"].start(*at)
            self.listeners += [(METRICS, *address) for address in self.metrics_addresses]

    def start_logins(self) -> None:
        """Verify credentials in threads."""
        self.logins.start(self.shard.event_loop)

    async def listen(self) -> None:
        """Open all other ports. Raises StartError and ConfigError."""
        settings, event_loop = self.settings, self.shard.event_loop
        tls = self._serve_certificates(event_loop)
        for host, port in self._listen:
            self.addresses += await self._bind(host, port, event_loop, None)
        for address in settings.listen_tls:
            self.tls_addresses += await self._bind(*parse_address(address, "--listen-tls"), event_loop, tls)
        if not self._listeners:
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

    def _serve_certificates(self, event_loop: EventLoop) -> TlsServer | None:
        """Read the certificates of listeners with TLS; return the state that connections share, None without TLS."""
        tls = served_tls(self.settings)
        if tls is None:
            return None
        self._certificates = ServedCertificates(self.shard.driver, event_loop.loop, tls)
        self.shard.driver.certificates = self._certificates
        return self._certificates.server

    async def _bind(self, host: str, port: int, event_loop: EventLoop, tls: TlsServer | None) -> list[tuple[str, int]]:
        take = self.shard.take if tls is None else partial(self.shard.take, secure=partial(TlsLayer, tls))
        listener = Listener(self.shard.driver, event_loop.loop, take)
        addresses = await listener.start(host, port, "listen")
        self._listeners.append(listener)
        self.listeners += [("amqp" if tls is None else "amqp/ssl", *address) for address in addresses]
        return addresses

    async def _serve_http(
        self, host: str, port: int, event_loop: EventLoop, tls: TlsServer | None
    ) -> list[tuple[str, int]]:
        """Start the HTTP API."""
        if "api" not in self.http:
            self.http["api"] = HttpListener(event_loop, self.settings, True)
        addresses = await self.http["api"].start(host, port, tls)
        self.listeners += [("http" if tls is None else "https", *address) for address in addresses]
        return addresses

    def warn_of_guest(self) -> None:
        """Log that logins from other machines are impossible, if guest is the only user."""
        addresses = self.addresses + self.tls_addresses + self.http_addresses + self.https_addresses
        distant = [shown(*each) for each in addresses if not (is_unix(each[0]) or is_loopback(each[0]))]
        driver = self.shard.driver
        if distant and not driver.has_users_elsewhere and driver.broker.access.names() == [GUEST]:
            log(
                ONLY_GUEST,
                "listening on %s, but the only user is guest, who can log in from this machine only; "
                "add one for others: penstock users add NAME",
                ", ".join(distant),
            )

    def serve_bridges(self) -> None:
        """Look once a second whether a bridge is to run, and let the worker run it."""
        self.shard.event_loop.on_tick = self._look_at_bridges

    def _look_at_bridges(self) -> None:
        if self._bridges is None:
            if not self.shard.driver.bridges.wanted():
                return
            from penstock.server.bridge_worker import BridgeWorker

            self._bridges = BridgeWorker(self.shard)
        self._bridges.tick()

    # Stop

    async def stop_accepting(self) -> None:
        """End the bridges, close all ports and the connections of HTTP, and end a reload."""
        if self._bridges is not None:
            await self._bridges.stop()
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        self.reload.cancel()
        if self._hook is not None:
            await asyncio.to_thread(self._hook.stop)
        for http in self.http.values():
            await http.stop()

    def release(self) -> None:
        """End the threads of certificates and logins, and the connections to the back end."""
        if self._certificates is not None:
            self._certificates.stop()
        self.logins.stop()

    # Settings

    async def _apply(self, settings: Settings) -> None:
        """Apply a settings file that was read again: patterns and users, start-up settings that may change, TLS."""
        if await self.shard.replace_file(settings):
            _warn_of_open_file(settings)
            self._apply_reloadable(settings)
            if self.settings.definitions is not None:
                log(
                    RELOADED,
                    "reload: definitions are read at the start only; `penstock definitions import` imports '%s' now",
                    self.settings.definitions,
                )
            for name in changed_at_start(self.settings, settings):
                log(NEEDS_RESTART, "reload: %s takes effect only at the start; restart the broker", name)
        await self._reload_certificates(settings)
        self._reload_hook(settings)

    def _apply_reloadable(self, settings: Settings) -> None:
        """Apply the start-up settings that a reload of the file may change; options of the command line persist."""
        before = self.settings
        stronger = [name for name in RELOADABLE if before.sources.get(name, "").startswith(STRONGER)]
        changed = {name: getattr(settings, name) for name in RELOADABLE if name not in stronger}
        sources = {name: source for name, source in before.sources.items() if name not in changed}
        sources |= {name: settings.sources[name] for name in changed if name in settings.sources}
        self.settings = replace(before, sources=sources, **changed)
        self._publish_settings()
        self.shard.apply(self.settings)
        if set_level(self.settings.log_level):
            log(LOG_LEVEL, "reload: the log has records from level %s on", self.settings.log_level)

    async def _reload_certificates(self, settings: Settings) -> None:
        """Serve the certificates of a settings file. If any cannot be used, the present certificates stay."""
        if self._certificates is not None and settings.tls is not None:
            try:
                await self._certificates.replace(settings.tls)
                log(RELOADED, "reload: the certificates were read again; new connections use them")
            except ConfigError as error:
                log(RELOAD_REFUSED, "reload: the old certificates stay: %s", error)

    def _reload_hook(self, settings: Settings) -> None:
        """Use the web hook of a settings file from the next request on; if it cannot be used, the present one stays."""
        if settings.hook == self.settings.hook:
            return
        try:
            self._set_hook(settings.hook)
        except ConfigError as error:
            log(RELOAD_REFUSED, "reload: the old web hook of alarms stays: %s", error)
            return
        self.settings = replace(self.settings, hook=settings.hook)
        self._publish_settings()
        server = "none" if settings.hook is None else settings.hook.server
        log(RELOADED, "reload: the web hook of alarms is %s", server)

    def _set_hook(self, settings: HookSettings | None) -> None:
        """Send changes of alarms to a web hook, or to none. Raises ConfigError."""
        driver = self.shard.driver
        if settings is None:
            if self._hook is not None:
                self._hook.end()
            self._hook = None
            driver.alarms.listener = AlarmListener()
        elif self._hook is not None:
            self._hook.configure(settings)
        else:
            from penstock.server.alarm_hook import AlarmHook

            self._hook = AlarmHook(settings, driver.name, self._in_loop)
            driver.alarms.listener = self._hook

    def _in_loop(self, action: Callable[[], None]) -> None:
        """Carry out an action of another thread in the event loop, unless the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self.shard.event_loop.loop.call_soon_threadsafe(self._act, action)

    def _act(self, action: Callable[[], None]) -> None:
        event_loop = self.shard.event_loop
        self.shard.driver.begin(event_loop.loop.time())
        action()
        event_loop.schedule()

    def _publish_settings(self) -> None:
        """Make the start-up settings available to `penstock config`."""
        published = self.shard.driver.start_settings
        published.rows = start_rows(self.settings) + table_rows(self.settings)
        published.file = "" if self.settings.file is None else str(self.settings.file)


def _warn_of_open_file(settings: Settings) -> None:
    file = settings.file
    if file is not None and settings.clear_passwords and is_open_to_others(file):
        log(OPEN_FILE, "'%s' has passwords and can be read by others; chmod o-r it, or use password_hash", file)
