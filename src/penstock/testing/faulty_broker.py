"""Broker whose connections and whose end can be made to fail: it crashes, and its sockets are no longer read."""

from __future__ import annotations

import asyncio
from typing import Final

from typing_extensions import override

from penstock.driver.entry_times import EntryClock
from penstock.server.event_loop import EventLoop
from penstock.server.server import Server as ServedBroker
from penstock.server.store_writer import WriterState
from penstock.server.transport import ReadState, Transport

WORKING: Final = (WriterState.ENCODING, WriterState.WRITING)


class FaultyTransport(Transport):
    """Transport that can be told to read no more."""

    stopped = False
    """True while nothing is read, whatever the broker wants."""

    def stop_reading(self) -> None:
        """Read nothing more: the peer's output stays in the network, as before a host that hangs."""
        self.stopped = True
        self._cancel_pulse()
        if self._socket is not None:
            self._socket.pause_reading()

    def start_reading(self) -> None:
        """Read again."""
        self.stopped = False
        if self._socket is not None and self.reads.reads():
            self._socket.resume_reading()

    @override
    def _read(self, state: ReadState) -> None:
        if not self.stopped:
            super()._read(state)


class FaultyBroker(ServedBroker):
    """Broker on a virtual clock that can crash."""

    @override
    async def start(self) -> None:
        await super().start()
        self.driver.scheduler.entries.clock = EntryClock()  # A test that is debugged must not make its client rest.

    @override
    def _make_transport(self, event_loop: EventLoop) -> Transport:
        return FaultyTransport(event_loop)

    def transports(self, vhost: str) -> list[FaultyTransport]:
        """Return the transports of the open connections of a virtual host."""
        event_loop = self._event_loop
        found = [] if event_loop is None else event_loop.transports.values()
        return [
            each
            for each in found
            if isinstance(each, FaultyTransport)
            and each.connection is not None
            and each.connection.vhost is not None
            and each.connection.vhost.name == vhost
        ]

    def abort(self, vhost: str) -> None:
        """Abort what is left of the connections of a virtual host that is gone."""
        for transport in self.transports(vhost):
            transport.abort()

    def begin(self) -> None:
        """Set the time for calls of the core that follow, and schedule a turn for what they leave."""
        assert self._event_loop is not None
        self.driver.begin(self._event_loop.loop.time())
        self._event_loop.schedule()

    def is_busy(self) -> bool:
        """Return whether a thread works for the broker: it writes the store, or verifies a password."""
        writer, logins = self._store_writer, self._login_threads
        if writer is not None and writer.state in WORKING:
            return True
        return logins is not None and (logins.passwords.is_working() or logins.remote.is_working())

    def is_on_disk(self) -> bool:
        """Return whether everything is in the store; true without one."""
        return self._store_writer is None or self._store_writer.journal.is_idle()

    async def crash(self) -> None:
        """End as after a power cut: no client hears a word, and what the store has not taken is lost.

        A transaction that is being written is finished first: its thread cannot be killed.
        """
        event_loop, writer = self._event_loop, self._store_writer
        assert event_loop is not None
        event_loop.readiness.resting = True  # No turn runs any more.
        for listener in self._servers:
            listener.close()
        for http in self._http.values():
            await http.stop()
        event_loop.stop()
        await asyncio.sleep(0)  # asyncio closes the aborted sockets in its next pass.
        if writer is not None:
            await writer.abandon()
        if self._store is not None:
            self._store.close()
        if self._login_threads is not None:
            self._login_threads.stop()
        for records in (self._flow_log, self._audit_log):
            if records is not None:
                records.stop()
        if self._directory is not None:
            self._directory.unlock()
        self._servers.clear()
        self._ready = False
