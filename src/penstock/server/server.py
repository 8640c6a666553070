"""Server: a whole broker in one process, which is a server node with one shard, started and stopped in order.

`penstock serve` runs it; tests and notebooks use it directly, as `penstock.Broker`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from penstock.connections.engine import Protocol
from penstock.driver.driver import BrokerDriver
from penstock.errors import StartError, StoreError
from penstock.logs.ids import READY, STOPPED, STOPPING
from penstock.logs.logger import log
from penstock.server.addresses import parse_address, shown
from penstock.server.node import ServerNode, node_name, whole_machine
from penstock.server.shard import Shard
from penstock.server.start_report import counted_connections, log_start
from penstock.settings.config import Settings
from penstock.store.node_folder import check_alone, is_node


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
        settings = settings or Settings()
        listeners = settings.listen if listen is None else ([listen] if isinstance(listen, str) else list(listen))
        addresses = [parse_address(address) for address in listeners]
        folder = data if data is not None else settings.data
        self._folder = None if folder is None else Path(folder)
        self.shard = self._make_shard(settings, folder, standby, protocols)
        """Store, broker and event loop."""
        self.node = ServerNode(settings, addresses, http if http is not None else settings.http, self.shard)
        """Listeners, certificates, logins, HTTP and settings."""
        self._ready = False
        """True from the end of the start until the stop."""
        self._began = time.monotonic()

    def _make_shard(
        self, settings: Settings, data: str | Path | None, standby: bool, protocols: list[Protocol] | None
    ) -> Shard:
        return Shard(node_name(), settings, data, whole_machine(), standby, protocols)

    @property
    def driver(self) -> BrokerDriver:
        """Driver of the broker, with all its state."""
        return self.shard.driver

    @property
    def settings(self) -> Settings:
        """Settings in effect: a reload of the file changes some."""
        return self.node.settings

    @property
    def storage_location(self) -> str:
        """Location of durable data; empty without a store."""
        return self.shard.storage_location

    @property
    def url(self) -> str:
        """URL of the first listener, for clients. Raises StartError before the start."""
        return self.node.url

    @property
    def http_url(self) -> str:
        """URL of the HTTP API, without /api. Raises StartError before the start, and if the HTTP API is disabled."""
        return self.node.http_url

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Addresses of the AMQP listeners without TLS: host and port."""
        return self.node.addresses

    @property
    def tls_addresses(self) -> list[tuple[str, int]]:
        """Addresses of the AMQP listeners with TLS."""
        return self.node.tls_addresses

    @property
    def http_addresses(self) -> list[tuple[str, int]]:
        """Addresses of the HTTP API without TLS."""
        return self.node.http_addresses

    @property
    def https_addresses(self) -> list[tuple[str, int]]:
        """Addresses of the HTTP API with TLS."""
        return self.node.https_addresses

    @property
    def metrics_addresses(self) -> list[tuple[str, int]]:
        """Addresses of metrics and probes without a login."""
        return self.node.metrics_addresses

    @property
    def console_problem(self) -> str:
        """Reason why the console is not served although nobody has turned it off; empty if there is none."""
        return self.node.console_problem

    def check(self) -> None:
        """Check the settings of a broker that is not started, as far as the constructor has not. Raises ConfigError.

        The store is not opened and no port is used. Certificates are read.
        """
        self.node.check()

    async def start(self) -> None:
        """Open the store and the ports, and restore durable data.

        Definitions of the settings are imported before the ports open. Raises StartError and StoreError, after
        releasing everything. The data directory of a node with shards is refused.
        """
        node, shard = self.node, self.shard
        if self._folder is not None:
            check_alone(self._folder)
            if is_node(self._folder):
                raise StartError(f"data directory '{self._folder}' is a node's with shards: use `penstock serve`")
        shard.lock()
        try:
            shard.begin()
            node.begin()
            await node.open_metrics()
            await shard.hold_store()
            if shard.storage_location:
                log_start(self.settings, shard.storage_location, shard.driver)  # The recovery may take minutes.
            node.start_logins()
            await shard.restore()
            await shard.import_definitions()
            await node.listen()
            if not shard.storage_location:
                log_start(self.settings, "", shard.driver)
            shard.admit()
            node.serve_bridges()
            node.warn_of_guest()
            self._ready = True
            at = ", ".join(f"{kind} {shown(host, port)}" for kind, host, port in node.listeners)
            log(READY, "Ready : %s", at)
        except BaseException:
            await self.stop()
            raise

    async def wait_lost(self) -> StoreError:
        """Wait until the store is lost: the broker must stop then.

        Another broker has taken the store over (StoreLost), or an internal error has occurred.
        """
        return await self.shard.wait_lost()

    async def stop(self) -> None:
        """Stop accepting, close all connections (320) and wait for them, a few seconds at most.

        Everything is released, also after an error in between, which is raised in the end.
        """
        if self._ready:
            log(STOPPING, "Shutting down : %s", counted_connections(len(self.driver.connections)))
        async with contextlib.AsyncExitStack() as parts:  # They run in reverse.
            parts.push_async_callback(self.shard.release)
            parts.callback(self.node.release)
            parts.push_async_callback(self.shard.close)
            await self.node.stop_accepting()
        if self._ready:
            self._ready = False
            log(STOPPED, "Stopped : after %.1f s", time.monotonic() - self._began)

    def reload(self) -> asyncio.Task[None] | None:
        """Read the settings file again (SIGHUP): all of its patterns apply, or none. Return the task of the reload.

        Settings set by command stay and take precedence. An error is logged with its line and changes nothing. Requests
        during a reload are merged into one more reload.
        """
        return self.node.reload.request()

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
