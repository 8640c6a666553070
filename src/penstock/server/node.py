"""Node of a server: what a process has beside its shard: listeners, certificates, logins, HTTP and settings.

Its listeners are the intake of the shard: they pass each accepted socket to `Shard.take`. A reload of the settings file
begins here, and the shard gets its part.
"""

from __future__ import annotations

import socket
from functools import partial
from pathlib import Path
from typing import Final

from penstock.access.access_table import GUEST
from penstock.connections.peer import is_loopback
from penstock.driver.driver import BrokerDriver
from penstock.errors import StartError
from penstock.logs.ids import (
    CONSOLE_UNSERVED,
    ONLY_GUEST,
)
from penstock.logs.logger import log
from penstock.server.addresses import http_address, is_unix, parse_address, shown, url_of
from penstock.server.applied_settings import AppliedSettings, warn_of_open_file
from penstock.server.event_loop import EventLoop
from penstock.server.http.listener import HttpListener
from penstock.server.listener import Listener
from penstock.server.logins import Logins
from penstock.server.process_facts import ServerFacts
from penstock.server.process_limits import memory_bytes, open_files
from penstock.server.settings_reload import SettingsReload
from penstock.server.shard import Allowance, Shard
from penstock.server.shard_bridges import ShardBridges
from penstock.server.tls.contexts import Contexts, ServedCertificates, TlsServer, served_tls
from penstock.server.tls.layer import TlsLayer
from penstock.server.traces import check_endpoint
from penstock.settings.config import Settings

METRICS: Final = "http/prometheus"
"""Name of the listener for metrics, as in RabbitMQ."""
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
        self.applied = AppliedSettings(settings, shard)
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
        self.bridges = ShardBridges(shard)
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
        warn_of_open_file(settings)

    @property
    def settings(self) -> Settings:
        """Settings in effect."""
        return self.applied.settings

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
        self.applied.begin()

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
        warn_of_guest(
            self.shard.driver, self.addresses + self.tls_addresses + self.http_addresses + self.https_addresses
        )

    def serve_bridges(self) -> None:
        """Look once a second whether a bridge is to run, and let the worker run it."""
        self.bridges.serve()

    # Stop

    async def stop_accepting(self) -> None:
        """End the bridges, close all ports and the connections of HTTP, and end a reload."""
        await self.bridges.stop()
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        self.reload.cancel()
        await self.applied.stop()
        for http in self.http.values():
            await http.stop()

    def release(self) -> None:
        """End the threads of certificates and logins, and the connections to the back end."""
        if self._certificates is not None:
            self._certificates.stop()
        self.logins.stop()

    # Settings

    async def _apply(self, settings: Settings) -> None:
        """Apply a settings file that was read again."""
        if await self.applied.replace(settings, self._certificates):
            warn_of_open_file(settings)


def warn_of_guest(driver: BrokerDriver, addresses: list[tuple[str, int]]) -> None:
    """Log that logins from other machines are impossible at these addresses, if guest is the only user."""
    distant = [shown(*each) for each in addresses if not (is_unix(each[0]) or is_loopback(each[0]))]
    if distant and not driver.has_users_elsewhere and driver.broker.access.names() == [GUEST]:
        log(
            ONLY_GUEST,
            "listening on %s, but the only user is guest, who can log in from this machine only; "
            "add one for others: penstock users add NAME",
            ", ".join(distant),
        )
