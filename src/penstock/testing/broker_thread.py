"""Broker in a thread with a loop of its own, so that programs that block can be tested as well."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

from penstock.access.access_table import GUEST
from penstock.config import Settings
from penstock.core.broker import Broker as Core
from penstock.driver.driver import BrokerDriver
from penstock.errors import StartError
from penstock.operations.vhosts import declare_vhost, delete_vhost, permit_creator
from penstock.settings.start import NO_HTTP
from penstock.testing.expectations import WITHIN_S
from penstock.testing.faulty_broker import FaultyBroker
from penstock.testing.virtual_loop import PATIENCE_S, VirtualClock, VirtualLoop, Watch

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
        """Real seconds that assertions about this broker wait, unless they say otherwise."""
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

    # Its thread

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
        self.loop.selector.is_busy = self._is_busy
        await self.broker.start()
        self._started.set_result(None)
        await self._stop.wait()
        await self.broker.stop()

    def _is_busy(self) -> bool:
        return self.broker.is_busy()

    # What tests and the other parts of the kit use

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
        """Driver of the broker; it belongs to the broker's thread, see `call`."""
        return self.broker.driver

    @property
    def core(self) -> Core:
        """Core of the broker; it belongs to the broker's thread, see `call`."""
        return self.broker.driver.broker

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the broker's thread, where it may read and change the broker; return its result."""

        def at_its_time() -> T:
            self.broker.begin()
            return function()

        return self.loop.call(at_its_time)

    def wait_for(self, look: Callable[[], object], within_s: float | None = None) -> bool:
        """Wait until a function, called in the broker's thread after each pass of its loop, returns something true.

        Return false after `within_s` real seconds (None: those of this server) without it.
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
            watch.done.result()  # It has come to an end just now.
        return True

    def crash(self) -> None:
        """Crash, and start again on the same port: what is not in a store is lost, and no client hears a word.

        The virtual hosts of the running tests are there again, empty without a store.
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
        """Create a virtual host that user guest may use; a new broker has it again after a crash."""
        self._vhosts.add(name)
        self.call(lambda: self._declare(name))

    def _declare(self, name: str) -> None:
        if declare_vhost(self.driver, name):
            permit_creator(self.driver, GUEST, name)

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host: its clients are told, and their connections have ended when it returns."""
        self._vhosts.discard(name)
        self.call(lambda: delete_vhost(self.driver, name))
        self.clock.run_until_idle()
        self.call(lambda: self.broker.abort(name))
        self.clock.run_until_idle()

    def stop(self) -> None:
        """Stop the broker, and end its thread; does nothing if that has been done. Raises what went wrong in it."""
        if not self._ended.done():
            self.loop.call_soon_threadsafe(self._stop.set)
        try:
            self._ended.result(PATIENCE_S)
        finally:
            self._thread.join(PATIENCE_S)
