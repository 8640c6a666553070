"""Broker in a thread with a loop of its own, so that blocking programs can be tested as well.

The broker can crash, and stop reading its sockets.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

from typing_extensions import override

from penstock.access.access_table import GUEST
from penstock.connections.engine import Protocol
from penstock.core.broker import Broker as Core
from penstock.driver.driver import BrokerDriver
from penstock.driver.entry_times import EntryClock
from penstock.errors import StartError
from penstock.operations.vhosts import declare_vhost, delete_vhost, permit_creator
from penstock.server.event_loop import EventLoop
from penstock.server.node import node_name, whole_machine
from penstock.server.server import Server as ServedBroker
from penstock.server.shard import Shard
from penstock.server.store_writer import WriterState
from penstock.server.transport import ReadState, Transport
from penstock.settings.config import Settings
from penstock.settings.start import NO_HTTP
from penstock.testing.expectations import WITHIN_S
from penstock.testing.virtual_loop import PATIENCE_S, VirtualClock, VirtualLoop, Watch

WORKING: Final = (WriterState.ENCODING, WriterState.WRITING)


class FaultyTransport(Transport):
    """Transport whose reading a test can stop."""

    stopped = False
    """True while reading is stopped, regardless of the broker."""

    def stop_reading(self) -> None:
        """Stop reading: the peer's output stays in the network, as with a host that hangs."""
        self.stopped = True
        self._cancel_pulse()
        if self._socket is not None:
            self._socket.pause_reading()

    def start_reading(self) -> None:
        """Resume reading."""
        self.stopped = False
        if self._socket is not None and self.reads.reads():
            self._socket.resume_reading()

    @override
    def _read(self, state: ReadState) -> None:
        if not self.stopped:
            super()._read(state)


class FaultyShard(Shard):
    """Shard of a broker that can crash, with transports whose reading a test can stop."""

    @override
    def _make_transport(self, event_loop: EventLoop) -> Transport:
        return FaultyTransport(event_loop)

    def begin_calls(self) -> None:
        """Set the time for the following calls of the core, and schedule a turn for their effects."""
        self.driver.begin(self.event_loop.loop.time())
        self.event_loop.schedule()

    def is_writing(self) -> bool:
        """Return whether the thread of the store works."""
        return self.store_writer is not None and self.store_writer.state in WORKING

    def is_on_disk(self) -> bool:
        """Return whether all changes are in the store; True without a store."""
        return self.store_writer is None or self.store_writer.journal.is_idle()

    async def crash(self) -> None:
        """Run no further turn, abort all sockets, and release all resources; unstored changes are lost.

        A transaction that is being written is finished first, because its thread cannot be killed.
        """
        self.event_loop.suspend()
        self.event_loop.stop()
        await asyncio.sleep(0)  # asyncio closes the aborted sockets in its next pass.
        if self.store_writer is not None:
            await self.store_writer.abandon()
        if self._store is not None:
            self._store.close()
        for records in (self._flow_log, self.audit_log):
            if records is not None:
                records.stop()
        if self._directory is not None:
            self._directory.unlock()


class FaultyBroker(ServedBroker):
    """Broker on a virtual clock that can crash."""

    shard: FaultyShard

    @override
    def _make_shard(
        self, settings: Settings, data: str | Path | None, standby: bool, protocols: list[Protocol] | None
    ) -> Shard:
        return FaultyShard(node_name(), settings, data, whole_machine(), standby, protocols)

    @override
    async def start(self) -> None:
        await super().start()
        self.driver.scheduler.entries.clock = EntryClock()  # A test under a debugger must not limit its client.

    def transports(self, vhost: str) -> list[FaultyTransport]:
        """Return the transports of the open connections of a virtual host."""
        return [
            each
            for each in self.shard.event_loop.transports.values()
            if isinstance(each, FaultyTransport)
            and each.connection is not None
            and each.connection.vhost is not None
            and each.connection.vhost.name == vhost
        ]

    def abort(self, vhost: str) -> None:
        """Abort the remaining connections of a deleted virtual host."""
        for transport in self.transports(vhost):
            transport.abort()

    def begin(self) -> None:
        """Set the time for the following calls of the core, and schedule a turn for their effects."""
        self.shard.begin_calls()

    def is_busy(self) -> bool:
        """Return whether a thread works for the broker: it writes the store, or verifies a password."""
        logins = self.node.logins.threads
        return self.shard.is_writing() or (
            logins is not None and (logins.passwords.is_working() or logins.remote.is_working())
        )

    def is_on_disk(self) -> bool:
        """Return whether all changes are in the store; True without a store."""
        return self.shard.is_on_disk()

    async def crash(self) -> None:
        """End as after a power cut: clients get no close, and changes that are not in the store are lost."""
        self.shard.event_loop.suspend()  # No turn runs any more.
        await self.node.stop_accepting()
        await self.shard.crash()
        self.node.release()
        self._ready = False


T = TypeVar("T")
LISTEN: Final = "127.0.0.1:0"
START_S: Final = 60.0
"""Seconds of real time until a start is given up."""


class BrokerThread:
    """A broker in memory or with a store, in a thread of this process."""

    def __init__(self, data: Path | None, settings: Settings, within_s: float = WITHIN_S) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)
        self.within_s = within_s
        """Real seconds that assertions about this broker wait by default."""
        self.broker = FaultyBroker(LISTEN, data, settings, NO_HTTP)
        self._data = data
        self._settings = settings
        self._stop = asyncio.Event()
        self._vhosts: set[str] = set()
        """Virtual hosts of tests."""
        self._started: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="penstock-testing", daemon=True)
        self._thread.start()
        try:
            self._started.result(START_S)
        except TimeoutError:
            raise StartError(f"the test broker has not started within {START_S:g} s") from None

    # The broker's thread

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            for waiting in (self._started, self._ended):
                if not waiting.done():
                    waiting.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _serve(self) -> None:
        self.loop.selector.is_busy = lambda: self.broker.is_busy()
        await self.broker.start()
        self._started.set_result(None)
        await self._stop.wait()
        await self.broker.stop()

    # Interface for tests and the other parts of the kit

    @property
    def url(self) -> str:
        """URL of the virtual host `/`, for user guest and without heartbeats."""
        return self.url_of("/")

    def url_of(self, vhost: str) -> str:
        """Return the URL of a virtual host, for user guest and without heartbeats."""
        host, port = self.broker.addresses[0]
        return f"amqp://guest:guest@{host}:{port}/{'%2F' if vhost == '/' else vhost}?heartbeat=0"

    @property
    def driver(self) -> BrokerDriver:
        """Driver of the broker, for use in the broker's thread; see `call`."""
        return self.broker.driver

    @property
    def core(self) -> Core:
        """Core of the broker, for use in the broker's thread; see `call`."""
        return self.broker.driver.broker

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the broker's thread, in which it may read and change the broker; return its result."""

        def at_its_time() -> T:
            self.broker.begin()
            return function()

        return self.loop.call(at_its_time)

    def wait_for(self, look: Callable[[], object], within_s: float | None = None) -> bool:
        """Wait until a function, called in the broker's thread after each pass of the loop, returns a true value.

        Return False after `within_s` real seconds (None: this server's default).
        """

        def look_now() -> object:
            self.driver.begin(self.loop.time())
            return look()

        self.loop.check_thread()
        watch = Watch(look_now)
        self.loop.call_soon_threadsafe(self.loop.selector.watch, watch)
        try:
            watch.done.result(self.within_s if within_s is None else within_s)
        except TimeoutError:
            if watch.done.cancel():
                return False
            watch.done.result()  # The loop has just ended.
        return True

    def crash(self) -> None:
        """Crash, and start again on the same port: changes that are not in a store are lost, and clients get no close.

        The virtual hosts of running tests exist again, empty without a store.
        """
        self._await(self._crash())

    async def _crash(self) -> None:
        host, port = self.broker.addresses[0]
        await self.broker.crash()
        self.broker = FaultyBroker(f"{host}:{port}", self._data, self._settings, NO_HTTP)
        await self.broker.start()
        self.broker.begin()
        for name in self._vhosts:
            self._declare(name)

    def _await(self, doing: Coroutine[Any, Any, T]) -> T:
        self.loop.check_thread()
        return asyncio.run_coroutine_threadsafe(doing, self.loop).result(PATIENCE_S)

    # Virtual hosts

    def add_vhost(self, name: str) -> None:
        """Create a virtual host that user guest may use; it is created again after a crash."""
        self._vhosts.add(name)
        self.call(lambda: self._declare(name))

    def _declare(self, name: str) -> None:
        if declare_vhost(self.driver, name):
            permit_creator(self.driver, GUEST, name)

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host: its clients are notified, and their connections have ended on return."""
        self._vhosts.discard(name)
        self.call(lambda: delete_vhost(self.driver, name))
        self.clock.run_until_idle()
        self.call(lambda: self.broker.abort(name))
        self.clock.run_until_idle()

    def stop(self) -> None:
        """Stop the broker, and end its thread; no-op if it has stopped.

        Raises the error that ended the thread, if any.
        """
        if not self._ended.done():
            self.loop.call_soon_threadsafe(self._stop.set)
        try:
            self._ended.result(PATIENCE_S)
        finally:
            self._thread.join(PATIENCE_S)
