"""Shard: a store and the broker on it, with the broker's event loop, flow log, audit log and traces.

A shard has no listener, certificate or HTTP. An intake passes connected sockets to the shard (`Shard.take`): today the
listeners of the node in its process. A shard has the patterns and users of the settings file; `replace_file` changes
both.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import secrets
import socket
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.connections.audit_trail import Actor
from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.engine import Protocol
from penstock.core.broker import Broker
from penstock.core.settings.changes import replace_file_steps
from penstock.core.settings.limits import Defaults
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError, ConfigError, StartError, StoreError
from penstock.flow.work import Steps, finish
from penstock.logs import auditlog, flowlog
from penstock.logs.ids import RELOAD_REFUSED, RELOADED
from penstock.logs.logger import log
from penstock.logs.record_files import RecordFiles
from penstock.management.flow_log_records import Recorder
from penstock.management.hold_spans import HoldTracer
from penstock.operations.users import replace_file_users
from penstock.server.event_loop import EventLoop
from penstock.server.handed_transport import HandedTransport, StrangerTransport
from penstock.server.login_record import LoginRecord, RecordError
from penstock.server.record_log import RecordLog
from penstock.server.socket_transport import attach
from penstock.server.store_open import store_of, take_hold
from penstock.server.store_writer import StoreWriter
from penstock.server.traces import collector_at
from penstock.server.transport import InternalTransport, Transport
from penstock.server.turn_loop import TurnLoop, loop_clock, wall_clock
from penstock.settings.config import Settings
from penstock.settings.start import NO_LOG
from penstock.settings.table import BROKER
from penstock.store.directory import DataDirectory
from penstock.store.store import Store
from penstock.version import VERSION

if TYPE_CHECKING:
    from penstock.operations.definitions_start import DefinitionsFile

NOT_BEGUN: Final = "the broker has no event loop yet: start it with `async with broker:`, or `await broker.start()`"
AUDIT_LOG: Final = "audit-log"
"""Folder of the audit log in a data directory, and the name of its setting."""
LEAVE_S: Final = 5.0
"""Seconds that clients have to answer connection.close when the broker stops."""


class Allowance(NamedTuple):
    """Share of the machine that a node assigns to a shard."""

    memory_bytes: int
    """Memory of which the broker's limits are shares; 0 if unknown."""
    open_files: int
    """Descriptors of which connections without a login may take a part."""
    shards: int = 1
    """Shards that divide limits in bytes, which settings give for the node."""


class Shard:
    """One store, and everything that works on it.

    The steps of a start, in order: `lock`, `begin`, `hold_store`, `restore`, `import_definitions`, `admit`. The steps
    of a stop, after any of them: `close`, `release`.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        data: str | Path | None,
        allowance: Allowance,
        standby: bool = False,
        protocols: list[Protocol] | None = None,
        store: Store | None = None,
        audit_log: RecordLog | None = None,
    ) -> None:
        """`name` is the node's name, `data` the directory of durable data. Raises ConfigError.

        `store` is used instead of the one that settings and directory name, and `audit_log` is one that another shard
        starts and stops.
        """
        self.settings = settings
        self._directory = None if data is None else DataDirectory(Path(data))
        self._standby = standby
        self._store = store_of(settings.store, self._directory) if store is None else store
        self.storage_location: str = "" if self._store is None else str(self._store)
        """Location of durable data; empty without a store."""
        self._flow_log = self._make_log(flowlog.FILES, "flow-log")
        self.audit_log = self._make_log(auditlog.FILES, AUDIT_LOG) if audit_log is None else audit_log
        """Audit log; None without one."""
        self._owns_audit_log = audit_log is None
        self.store_writer: StoreWriter | None = None
        """Writer of the store; None before `hold_store`, and without a store."""
        self._event_loop: EventLoop | None = None
        self.driver = self._make_driver(name, allowance, protocols)

    @property
    def event_loop(self) -> EventLoop:
        """Event loop of the broker. Raises StartError before `begin`."""
        if self._event_loop is None:
            raise StartError(NOT_BEGUN)
        return self._event_loop

    # Start

    def lock(self) -> None:
        """Lock the data directory. Raises StartError, after which nothing needs a release."""
        if self._directory is not None:
            self._directory.lock()

    def begin(self) -> None:
        """Open flow log, audit log and traces, and make the event loop of the broker. Raises StartError."""
        loop = asyncio.get_running_loop()
        driver = self.driver
        driver.slow_turn_s = slow_turn_s(self.settings)
        driver.broker.wall_offset = wall_clock(loop)() - loop.time()
        if self._flow_log is not None:
            self._flow_log.start()
            driver.recorder = Recorder(driver.broker)
            driver.recorder.wall_offset = driver.broker.wall_offset
            driver.recorder.shares.resize(self._flow_log.files_most * self._flow_log.file_bytes)
        if self.audit_log is not None:
            if self._owns_audit_log:
                self.audit_log.start()
            driver.audit.enable(self.audit_log.files_most * self.audit_log.file_bytes)
        if self.settings.traces_endpoint is not None:
            driver.tracer = HoldTracer(driver.broker, collector_at(self.settings.traces_endpoint))
        driver.scheduler.entries.clock = loop_clock()
        self._event_loop = EventLoop(driver, loop, self._flow_log, self.audit_log)
        self._event_loop.suspend()  # No turn runs before `restore`.
        _set_latency_target(self.settings)

    async def hold_store(self) -> None:
        """Open the store; a standby waits for it. Raises StoreError."""
        if self._store is not None:
            event_loop = self.event_loop
            event_loop.readiness.obstacle = "the store is being opened"
            await take_hold(self._store, self._standby, partial(setattr, event_loop.readiness, "obstacle"))
            event_loop.readiness.obstacle = "the store is being restored"
            self.store_writer = StoreWriter(self._store, event_loop)
            event_loop.store_writer = self.store_writer

    async def restore(self) -> None:
        """Restore durable data, and begin to record. Raises StoreError."""
        self.event_loop.resume()
        if self.store_writer is not None:
            await self.store_writer.recover()
        if self.driver.recorder is not None:
            self.driver.begin(self.event_loop.loop.time())
            self.driver.recorder.begin()

    async def import_definitions(self) -> None:
        """Import the definitions of the settings, as far as they differ from what is there: all or none.

        They are in the store when this returns. Raises StartError that names file, line and key.
        """
        path = self.settings.definitions
        if path is None:
            return
        from penstock.server.definitions_files import read_definitions

        event_loop = self.event_loop
        event_loop.readiness.obstacle = "the definitions are being imported"
        files = await asyncio.to_thread(read_definitions, Path(path))
        changes = self.driver.broker.durable_changes
        before = int(changes.durable_declarations)
        done: asyncio.Future[str] = event_loop.loop.create_future()
        self.driver.scheduler.start(_imported(self.driver, files, done))
        event_loop.schedule()
        problem = await done
        if problem:
            raise StartError(problem)
        try:
            if changes.durable_declarations != before:
                await event_loop.on_disk(before)
        except TimeoutError:
            raise StartError(f"the definitions in '{path}' cannot be written to the store") from None

    def admit(self) -> None:
        """Report that clients are served."""
        self.event_loop.readiness.obstacle = ""

    async def take(
        self, sock: socket.socket, secure: Callable[[Transport], asyncio.BufferedProtocol] | None = None
    ) -> None:
        """Serve a connected socket that does not block; this is how an intake passes on its connections.

        `secure` returns a layer between the socket and its connection. Raises OSError if the peer has disconnected.
        """
        transport = self._make_transport(self.event_loop)
        await attach(self.event_loop.loop, sock, transport if secure is None else secure(transport))

    async def take_internal(self, sock: socket.socket, user: str, name: str) -> None:
        """Serve one end of a socket pair, which does not block: its peer is a process of the broker, and logs in as
        `user` by EXTERNAL. `name` stands for its address, as HOST:PORT.
        """
        await attach(self.event_loop.loop, sock, InternalTransport(self.event_loop, user, name))

    async def take_handed(
        self, sock: socket.socket, record: LoginRecord, ended: Callable[[], None] | None = None
    ) -> None:
        """Serve a connected socket, which does not block, whose client another process has logged in.

        `ended` is called at the end of the connection, unless this raises. Raises RecordError for a protocol that this
        shard does not have and for the number of a connection that is here, OSError if the peer has disconnected.
        """
        self._check_number(record.number)
        if record.protocol not in [protocol.name for protocol in self.driver.protocols]:
            raise RecordError("record of a login names a protocol that this shard does not have")
        transport = HandedTransport(self.event_loop, record, ended)
        await attach(self.event_loop.loop, sock, transport)
        transport.begin()

    async def take_stranger(
        self, secure: Callable[[Transport], asyncio.BufferedProtocol], sock: socket.socket, number: int
    ) -> None:
        """Serve a connected socket, which does not block, that another process has accepted and numbered.

        `secure` returns the layer of TLS. Raises RecordError for the number of a connection that is here, OSError if
        the peer has disconnected.
        """
        self._check_number(number)
        await attach(self.event_loop.loop, sock, secure(StrangerTransport(self.event_loop, number)))

    def _check_number(self, number: int) -> None:
        if number in self.driver.connections:
            raise RecordError(f"connection {number} is here already")

    def _make_transport(self, event_loop: EventLoop) -> Transport:
        """Return the transport of a new connection."""
        return Transport(event_loop)

    async def wait_lost(self) -> StoreError:
        """Wait until the store is lost: the broker must stop then.

        Another broker has taken the store over (StoreLost), or an internal error has occurred.
        """
        if self.store_writer is None:
            await asyncio.Event().wait()
        assert self.store_writer is not None
        # A cancelled waiter must not cancel the future for the store writer.
        return await asyncio.shield(self.store_writer.lost)

    # Settings

    async def replace_file(self, settings: Settings) -> bool:
        """Replace patterns and users of the settings file, all or none; return whether they were replaced.

        Settings set by command stay and take precedence. The outcome is logged.
        """
        event_loop = self.event_loop
        done: asyncio.Future[bool] = event_loop.loop.create_future()
        self.driver.scheduler.start(self._replace(settings, done))
        event_loop.schedule()
        return await done

    def _replace(self, settings: Settings, done: asyncio.Future[bool]) -> Steps[None]:
        file = settings.file
        replaced = False
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
            replaced = True
        except BrokerError as error:
            log(RELOAD_REFUSED, "reload: the old settings stay; '%s': %s", file, error)
        finally:
            if not done.done():
                done.set_result(replaced)

    def apply(self, settings: Settings) -> None:
        """Apply the start-up settings that may change while the broker runs."""
        self.settings = settings
        self.driver.slow_turn_s = slow_turn_s(settings)
        _set_latency_target(settings)

    def allow(self, allowance: Allowance) -> None:
        """Apply another share of the memory. A shard that has more than its new share drains first: its gate closes."""
        event_loop = self.event_loop
        self.driver.begin(event_loop.loop.time())
        _allow_memory(self.driver.broker, allowance)
        event_loop.schedule()

    # Stop

    async def close(self, reason: str = "") -> None:
        """Close all connections (320), wait for them a few seconds at most, write the store and close it.

        `reason` is the sentence for clients; empty for the usual one.
        """
        event_loop = self._event_loop
        if event_loop is not None:
            event_loop.close_connections(reason)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(event_loop.emptied.wait(), LEAVE_S)
            await event_loop.finish_ends()
        if self.store_writer is not None:
            await self.store_writer.stop()
        if self._store is not None and not self._is_stuck():  # Otherwise the end of the process closes the store.
            self._store.close()

    async def release(self) -> None:
        """End the event loop, traces, flow log and audit log, and unlock the data directory."""
        if self._event_loop is not None:
            self._event_loop.stop()
        if self.driver.tracer is not None:
            await asyncio.to_thread(self.driver.tracer.collector.stop)
        if self._flow_log is not None:
            self._flow_log.stop()
        if self.audit_log is not None:
            self.driver.audit.finish()
            self.audit_log.put(self.driver.audit.take())
            if self._owns_audit_log:
                self.audit_log.stop()
        if self._directory is not None and not self._is_stuck():
            self._directory.unlock()

    def _is_stuck(self) -> bool:
        return self.store_writer is not None and self.store_writer.is_stuck()

    # Construction

    def _make_log(self, files: RecordFiles, name: str) -> RecordLog | None:
        """Return a log in the configured directory, or in the data directory under its name, or None."""
        setting = name.replace("-", "_")
        given, most, octets = (getattr(self.settings, f"{setting}{part}") for part in ("", "_files", "_file_bytes"))
        if given == NO_LOG or (given is None and self._directory is None):
            return None
        folder = self._directory.path / name if given is None and self._directory is not None else Path(given)
        return RecordLog(files, folder, most, octets)

    def _make_driver(self, name: str, allowance: Allowance, protocols: list[Protocol] | None) -> BrokerDriver:
        settings = self.settings
        core = Broker(
            Defaults(settings.capacity_bytes, settings.stop_percent, settings.resume_percent, settings.hold_deadline_s)
        )
        _allow_memory(core, allowance)
        core.gates.set_disk_limit(core.table.limits(BROKER, ""))
        core.gates.metadata.table_octets_max = settings.arguments_octets_max
        core.gates.metadata.bytes_max = settings.arguments_bytes_max
        for vhost in settings.vhosts:
            core.add_vhost(vhost)
        try:
            finish(replace_file_steps(core, settings.patterns))
        except BrokerError as error:
            raise ConfigError(f"'{settings.file}': {error}") from None
        limits = ConnectionLimits(settings)
        limits.change(
            handshakes_max=min(settings.handshakes_max, allowance.open_files // 2),
            handshakes_address_max=min(settings.handshakes_address_max, allowance.open_files // 4),
        )
        core.access.set_file_users(settings.users)
        build = importlib.import_module("penstock").build()
        driver = BrokerDriver(core, limits, secrets.token_urlsafe(12), VERSION, protocols, build)
        driver.name = name
        return driver


def _imported(driver: BrokerDriver, files: list[DefinitionsFile], done: asyncio.Future[str]) -> Steps[None]:
    """Import files of definitions; the result is the reason of a refusal, or empty."""
    from penstock.operations.definitions_start import import_files_steps

    problem = "the import of the definitions broke off; the log has more"
    try:
        yield from import_files_steps(driver, files)
        problem = ""
    except BrokerError as error:
        problem = str(error)
    finally:
        if not done.done():
            done.set_result(problem)


def _allow_memory(core: Broker, allowance: Allowance) -> None:
    core.table.machine_bytes = allowance.memory_bytes
    core.table.shards = allowance.shards
    core.gates.set_memory_limit(core.table.limits(BROKER, ""))


def slow_turn_s(settings: Settings) -> float:
    """Return the seconds from which a turn is slow; infinity for never."""
    return settings.slow_turn_ms / 1000 or inf


def _set_latency_target(settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    if isinstance(loop, TurnLoop):
        loop.turn_selector.set_latency_target(settings.latency_target_ms / 1000)
