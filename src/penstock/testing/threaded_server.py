"""Test server: a broker in a thread, with a virtual host for each test."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

from penstock.config import Settings, load
from penstock.settings.start import NO_LOG
from penstock.testing.broker_thread import BrokerThread
from penstock.testing.broker_under_test import BrokerUnderTest
from penstock.testing.expectations import WITHIN_S


class Server(BrokerThread):
    """A broker for tests. `server()` starts one; the fixture `penstock_server` is one for the whole session."""

    def __init__(self, data: Path | None, settings: Settings, within_s: float = WITHIN_S) -> None:
        super().__init__(data, settings, within_s)
        self._numbers = itertools.count(1)

    @contextlib.contextmanager
    def virtual_host(self, name: str | None = None) -> Iterator[BrokerUnderTest]:
        """Provide a new virtual host for one test; afterwards it is deleted, and its connections are closed."""
        name = f"test-{next(self._numbers)}" if name is None else name
        self.add_vhost(name)
        broker = BrokerUnderTest(self, name)
        try:
            yield broker
        finally:
            broker.end()
            self.delete_vhost(name)


@contextlib.contextmanager
def server(
    data: str | Path | None = None, settings: Settings | str | Path | None = None, within_s: float = WITHIN_S
) -> Iterator[Server]:
    """Run a broker in a thread for as long as the context lasts.

    `data` is a directory for durable data (None: everything is in memory). `settings` are start-up settings, or the
    path of a settings file; where they are not given, clients are offered no heartbeats. `within_s`: see
    `BrokerThread.within_s`. Raises ConfigError and StartError.
    """
    if settings is None:
        settings = Settings(heartbeat_s=0, flow_log=NO_LOG, audit_log=NO_LOG)
    elif not isinstance(settings, Settings):
        settings = load(Path(settings))
    running = Server(None if data is None else Path(data), settings, within_s)
    try:
        yield running
    finally:
        running.stop()
