"""Event loop of the broker: reads sockets, runs turns, writes output, and keeps one timer.

Each pass reads from every readable socket and then runs one turn for all of them. Deliveries and confirms of many reads
leave in one write per connection.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.connections.callbacks import DurableCallback
from penstock.connections.connection import GIVEN_UP, SHUTTING_DOWN, Connection
from penstock.connections.finished_login import FinishedLogin
from penstock.connections.log_line import HANDSHAKE, LogLine
from penstock.connections.peer import Peer
from penstock.core.publish.held import ENDED
from penstock.driver.driver import BrokerDriver
from penstock.driver.entry_times import END, TICK
from penstock.flow.work import UNITS_A_TURN
from penstock.logs.ids import LATE_LOOP
from penstock.server.collector import FREEZER
from penstock.server.log_feed import LogFeed
from penstock.server.record_log import RecordLog
from penstock.server.slices import Slices
from penstock.server.store_writer import StoreWriter
from penstock.server.transport import ReadBuffers, ReadState, Transport
from penstock.server.turn_loop import TurnLoop, wall_clock
from penstock.server.turn_selector import TurnSelector

WRITTEN_AT_ONCE: Final = 250
"""Connections written to per turn; the others follow in the next."""
TICKED_AT_ONCE: Final = 1000
"""Connections ticked per pass of the loop."""
STEP_S: Final = 0.1
"""Seconds of difference above which the wall clock counts as set; as in the rows of the store (`JUMP_S` of
persistence/restore.py).
"""
TICK_S: Final = 1.0
"""Seconds between two ticks for heartbeats and time-outs."""

READING: Final = ReadState.READING


class Readiness:
    """Readiness of the broker for clients."""

    def __init__(self) -> None:
        self.obstacle: str = "it is starting"
        """Reason why no clients are served; empty while clients are served."""


class EventLoop:
    """All sockets of one broker, on one event loop."""

    def __init__(
        self,
        driver: BrokerDriver,
        loop: asyncio.AbstractEventLoop,
        flow_log: RecordLog | None = None,
        audit_log: RecordLog | None = None,
    ) -> None:
        self.driver = driver
        self.loop = loop
        self._log_feed = LogFeed(driver, loop, flow_log, audit_log)
        self.store_writer: StoreWriter | None = None
        """Store writer; None without a store."""
        self.buffers = ReadBuffers(driver.connection_limits.pulse_bytes)
        self.transports: dict[int, Transport] = {}
        self.leaving: set[Transport] = set()
        """Closing sockets whose peer has not closed its side yet."""
        self.emptied = asyncio.Event()
        """Event set when the last socket is closed after `close_connections`."""
        self._time: Callable[[], float] = time.monotonic if isinstance(loop, TurnLoop) else loop.time
        """Clock of the loop."""
        self._turn_selector: TurnSelector | None = loop.turn_selector if isinstance(loop, TurnLoop) else None
        """Runner of the turns; None on a loop of another kind."""
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._ticking = loop.call_later(TICK_S, self._tick)
        self._to_write: deque[Connection] = deque()
        """Connections with output, in the order of their first output."""
        self.readiness = Readiness()
        self._suspended: bool = False
        """True if no turn runs: the store is awaited or restored, and no client is connected yet; or the loop has hung
        and released its lease of the store (loop_watch.py).
        """
        self.slices = Slices(loop, self._look)
        """Queue of monitoring requests."""
        self._began: float = 0.0
        """Time of the first input since the last turn; 0.0 without one."""
        self.on_tick: Callable[[], None] | None = None
        """Function that is called at each tick; None for none."""
        self.started: float = loop.time()
        driver.stats.times.start(self.started)

    # Callbacks of transports

    def connected(self, transport: Transport, peer: Peer) -> Connection:
        """Add a new socket."""
        self.driver.begin(self.loop.time())
        connection = self.driver.connect(peer)
        self.transports[connection.number] = transport
        for stranger in self.driver.services.logins.take_turned_away():
            self.transports[stranger.number].abort()
        return connection

    def connected_logged_in(self, transport: Transport, peer: Peer, protocol: str, login: FinishedLogin) -> Connection:
        """Add a socket whose client another process has logged in."""
        self.driver.begin(self.loop.time())
        connection = self.driver.connect_logged_in(peer, protocol, login)
        self.transports[connection.number] = transport
        return connection

    def received(self, transport: Transport, data: bytes) -> None:
        """Handle bytes that were read."""
        connection = transport.connection
        assert connection is not None
        now = self._time()
        if not self._scheduled:
            self.schedule()
            self._began = now
        if self.driver.receive(connection, data, now) or transport.reads is not READING:
            transport.after_reading()
            if connection.is_closed():
                self._write(connection)
            if not self.driver.scheduler.has_room():
                self.buffers.present = self.buffers.small

    def charge(self, transport: Transport, units: int) -> None:
        """Charge a connection for work outside its shares; its input waits for the next turn."""
        connection = transport.connection
        assert connection is not None
        self.driver.scheduler.charge(connection, units)
        self.received(transport, b"")

    def drained(self, transport: Transport) -> None:
        """Resume a socket that accepts output again."""
        if transport.connection is not None:
            self._write(transport.connection)
            self.schedule()

    def ended(self, transport: Transport) -> None:
        """Handle the end of a peer's input."""
        assert transport.connection is not None
        self.driver.begin(self.loop.time())
        transport.connection.hung_up()
        self.schedule()

    def flush(self, transport: Transport) -> None:
        """Write delayed output; its connection was read ahead until now."""
        if transport.connection is not None:
            self.driver.begin(self.loop.time())
            self._write(transport.connection)
            transport.after_reading()

    def lost(self, transport: Transport, cause: str = ENDED) -> None:
        """Remove a closed socket; `cause` is the reported reason of its losses."""
        connection = transport.connection
        if connection is not None and self.transports.pop(connection.number, None) is not None:
            now = self.loop.time()
            self.driver.begin(now)
            self.driver.scheduler.entries.begin(now)
            self.driver.disconnect(connection, cause)
            self.driver.scheduler.entries.end(END, connection.name())
            self.schedule()
        if not self.transports:
            self.emptied.set()

    # Turns

    def suspend(self) -> None:
        """Run no turn until `resume`; the present turn ends. Any thread may call this."""
        self._suspended = True

    def resume(self) -> None:
        """Run turns again."""
        self._suspended = False

    def schedule(self) -> None:
        """Schedule a turn in this pass of the loop, once."""
        if not self._scheduled:
            self._scheduled = True
            if self._turn_selector is not None:
                self._turn_selector.schedule(self._run_once)
            else:
                self.loop.call_soon(self._run_once)

    def _run_once(self) -> None:
        """Run one turn: release waiters, write output, handle waiting input, encode for the store, run jobs.

        Waiting input belongs to clients that use much. Its answers are written in the next turn, so that clients that
        use little wait for only one share of such input, and not for another behind their own input. Likewise with the
        effects of jobs.
        """
        self._scheduled = False
        if self._suspended:
            return
        driver = self.driver
        start = self._time()
        driver.begin(start)
        more = driver.run_turn(whole=False)
        to_write = self._to_write
        to_write.extend(driver.take_pending_output())
        if to_write:
            self._write_some(to_write)
        for connection in driver.serve(self._time()):
            more = True
            transport = self.transports.get(connection.number)
            if transport is not None:
                transport.after_reading()
        if driver.has_notices():
            self._take_notices()
        writer = self.store_writer
        if writer is not None and (writer.leaving or driver.has_store_work()):
            writer.run_once()
        if driver.run_jobs():
            more = True
        when = driver.next_deadline()
        if when != self._timer_at:
            self._arm_timer(when)
        end = self._time()
        if driver.end_turn(end - (self._began or start), end) or more or to_write:
            self.schedule()
        if driver.scheduler.has_onlookers():
            self.slices.add_jobs()
        if driver.broker.work.done >= FREEZER.due:
            FREEZER.freeze(driver.broker.work.done)
        self._began = 0.0
        self.buffers.present = self.buffers.whole

    def _look(self) -> bool:
        """Run a slice of the monitoring jobs; return whether there is more."""
        driver = self.driver
        driver.begin(self._time())
        if driver.scheduler.look():
            self.schedule()
        return driver.scheduler.has_onlookers()

    def _take_notices(self) -> None:
        """Act on the effects of a turn other than output."""
        driver = self.driver
        for connection in driver.take_silent():
            self._give_up(connection)
        for connection in driver.notifier.take_unblocked():
            transport = self.transports.get(connection.number)
            if transport is not None and not connection.input_paused and not connection.may_pause():
                transport.resume()
        self._log_feed.flush()

    async def on_disk(self, before: int) -> None:
        """Wait until the changes after the first `before` ones are durable; without a store, return at once.

        Raises TimeoutError after the broker's hold deadline.
        """
        journal = self.driver.broker.journal
        if journal is not None:
            known = self.loop.create_future()
            awaiting = DurableCallback(partial(_wake, known))
            journal.wait_for_change(awaiting, before)
            self.schedule()
            try:
                hold_deadline_s = self.driver.broker.defaults.hold_deadline_s or None
                while not (await asyncio.wait({known}, timeout=hold_deadline_s))[0]:
                    if not journal.removals.is_awaited_by(awaiting):
                        raise TimeoutError
            finally:
                if not known.done():
                    journal.cancel_wait(awaiting)

    def _write_some(self, to_write: deque[Connection]) -> None:
        """Write output of connections. Large messages, within the work of a turn, are written after other replies."""
        work = self.driver.broker.work
        end = work.done + UNITS_A_TURN
        written = 0
        for _ in range(len(to_write)):
            connection = to_write.popleft()
            if connection.output.sources and work.done >= end:
                to_write.append(connection)
                continue
            self._write(connection)
            written += 1
            if written == WRITTEN_AT_ONCE:
                return

    def _write(self, connection: Connection) -> None:
        transport = self.transports.get(connection.number)
        if transport is None:
            connection.take_output()
            return
        if transport.full:
            return  # The connection stays registered; `drained` continues with it.
        seconds = connection.engine.output_delay(self.driver.broker.now)
        if seconds > 0:
            transport.write_later(seconds)
            connection.output.touched = False
            return
        full = transport.write(connection.take_output())
        if full and not connection.is_closed():
            return
        if self.driver.after_write(connection):
            if connection.is_closed():
                transport.close()
            else:
                self.schedule()

    def _arm_timer(self, when: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = when
        self._timer = None if when is None else self.loop.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_at = None
        self.schedule()  # Not at once: a turn that is already scheduled would schedule another.

    def _tick(self) -> None:
        due = self._ticking.when()
        self._ticking = self.loop.call_later(TICK_S, self._tick)
        if self._suspended:
            return
        now = self.loop.time()
        self.driver.begin(now)
        self.driver.scheduler.entries.begin(now)
        self._log_lateness(now - due)
        self.driver.alarms.late(now - due)
        wall_time = wall_clock(self.loop)
        self._log_feed.wall_offset = wall_time() - now
        if self.driver.recorder is not None:
            self.driver.recorder.wall_offset = self._log_feed.wall_offset
        broker = self.driver.broker
        broker.wall_offset = stepped(broker.wall_offset, self.loop.time(), wall_time(), self.loop.time())
        self.driver.tick()
        if self.store_writer is not None:
            self.store_writer.tick()
        self.driver.scheduler.entries.end(TICK)
        if self.on_tick is not None:
            self.on_tick()
        self._tick_some(list(self.transports.values()))
        self.schedule()

    def _log_lateness(self, seconds: float) -> None:
        """Log that something other than a turn has delayed the loop; slow turns have a line of their own."""
        if seconds >= self.driver.slow_turn_s > self.driver.scheduler.turn_times.recent().seconds:
            text = f"the event loop ran {seconds * 1000:.0f} ms late, and not because of a turn"
            self.driver.log_queue.add(LogLine(text, {"id": LATE_LOOP, "ms": round(seconds * 1000, 3)}))

    def _tick_some(self, transports: list[Transport]) -> None:
        """Tick some connections, and the others in the next passes."""
        now = self.loop.time()
        self.driver.begin(now)
        self.driver.scheduler.entries.begin(now)
        for transport in transports[-TICKED_AT_ONCE:]:
            connection = transport.connection
            if connection is not None and connection.number in self.transports and not connection.tick():
                self._give_up(connection)
        self.driver.scheduler.entries.end(TICK)
        del transports[-TICKED_AT_ONCE:]
        if transports:
            self.loop.call_soon(self._tick_some, transports)
        self.schedule()

    def _give_up(self, connection: Connection) -> None:
        transport = self.transports.get(connection.number)
        if transport is None:
            return
        transport.abort()
        if connection.vhost is None:
            self.driver.log_queue.add_refusal(HANDSHAKE, f"[{connection.name()}] given up: {GIVEN_UP}")
        elif not connection.times.ending:
            connection.times.ending = GIVEN_UP

    # Shutdown

    def close_connections(self, reason: str = "") -> None:
        """Close all connections because the broker stops (320); `reason` is the sentence if it is not the usual one."""
        self.readiness.obstacle = "it is stopping"
        self.driver.begin(self.loop.time())
        self.driver.broker.stopping = True
        self.resume()  # The ends of connections need turns.
        self.driver.end_lingering()
        for connection in list(self.driver.connections.values()):
            connection.shut_down(reason or SHUTTING_DOWN)
            self._write(connection)
        self.schedule()
        if self.transports:
            self.emptied.clear()
        else:
            self.emptied.set()

    async def finish_ends(self) -> None:
        """Run turns until all teardowns and purges are complete, so that the store has their changes."""
        broker = self.driver.broker
        while broker.endings.pending() or (broker.journal is not None and broker.journal.removals.pending()):
            self.schedule()
            await asyncio.sleep(0)

    def stop(self) -> None:
        """Abort the remaining sockets and cancel all timers."""
        for transport in [*self.transports.values(), *self.leaving]:
            transport.abort()
        self.driver.tick()
        self._log_feed.stop()
        self._ticking.cancel()
        if self._timer is not None:
            self._timer.cancel()


def _wake(known: asyncio.Future[None]) -> None:
    """Wake a waiter in the next pass of the loop."""
    if not known.done():
        known.set_result(None)


def stepped(offset: float, before: float, wall: float, after: float) -> float:
    """Return the offset from the loop's clock to the wall clock: a new offset only if the wall clock was set.

    `wall` was read between `before` and `after`. Each reading of two clocks differs by some microseconds, and the
    arrival time of a message must be the same in all answers.
    """
    measured = wall - before
    return measured if abs(measured - offset) >= STEP_S and after - before < STEP_S / 2 else offset
