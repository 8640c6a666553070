"""Store writer: one thread that writes journal groups to the store, one transaction at a time.

Theory of operation. At the end of each turn the writer checks whether the journal has changes and no transaction is
running. If a client waits for the changes, they are written at once; acknowledgements alone are gathered for a moment.
Changes during a transaction form the next group, so a slower disk makes larger groups (group commit). When a
transaction is durable, its listeners are called in the next turn.

The same thread reads pages that queues request, between two transactions. The event loop decodes them.

A failed transaction is retried until it succeeds. None of its changes is confirmed or lost meanwhile. The gate of the
store is closed during the retries: no persistent messages are accepted, all other work continues. The backlog is
bounded: messages by the capacity of their queues, settlements by the messages in stored rows, and changes by
`CHANGES_MAX` (core/journal/journal.py; tests/bounds.md). A transaction that takes very long also closes the gate, until
it ends.
"""

from __future__ import annotations

import asyncio
import gc
import queue
import threading
import time
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.core.journal.journal import Journal
from penstock.core.large_bodies import PieceRead
from penstock.core.queue.pager import PageRead
from penstock.core.queue.storage import reset_lookahead
from penstock.errors import StoreError, StoreLost
from penstock.flow.gate_stats import Histogram
from penstock.flow.level import UNLIMITED
from penstock.flow.states import StateTable
from penstock.flow.work import SHARE, STORE_SHARE, UNLIMITED_WORK, Steps
from penstock.logs.ids import DAMAGED, INTERNAL_ERROR, RECOVERED, RECOVERING, STORE_LATE, STORE_ODD, STORE_UNREADABLE
from penstock.logs.logger import log
from penstock.persistence.page_loader import Loader, read_rows
from penstock.persistence.recovery import Recovery
from penstock.persistence.restore import WallTimes, restore_steps
from penstock.persistence.settlements import MessageAudit, encode_steps, summed_up
from penstock.server.loop_watch import LoopWatch
from penstock.server.store_open import DiskSampler
from penstock.store.records import MessageRow, StoreTransaction
from penstock.store.store import Leased, Store, Usage

if TYPE_CHECKING:
    from penstock.server.event_loop import EventLoop

LAZY_S: Final = 0.01
"""Seconds for which acknowledgements alone are gathered, because no client waits for their durability."""
RETRY_S: Final = 1.0
"""Seconds until a failed transaction is retried."""
SLOW_S: Final = 10.0
"""Seconds of one transaction after which the store counts as unwritable."""
LEAVE_S: Final = 10.0
"""Seconds for the last transactions when the broker stops."""
ROWS_A_STEP: Final = 20
"""Rows (of 1 MiB at most) read per step of a recovery."""
PIECES_A_STEP: Final = 1000
"""Pieces of large bodies, without their data, read per step of a recovery."""
TOLD_EVERY: Final = 100_000
"""Messages between two progress lines of a recovery."""


class WriterState(IntEnum):
    """States of the store writer."""

    RECOVERING = 0
    """The contents of the store are being restored."""
    IDLE = 1
    """There are no changes to write."""
    GATHERING = 2
    """Only acknowledgements are pending; more are gathered for a moment."""
    ENCODING = 3
    """A transaction is being encoded, a share of work each turn."""
    WRITING = 4
    """The thread writes a transaction."""
    RETRYING = 5
    """A transaction has failed, and is tried again after a pause."""
    LOST = 6
    """Writing has stopped for good."""


_LOST: Final = "store taken over, or internal error"
WRITER_STATES: Final = StateTable(
    "store writer",
    WriterState.RECOVERING,
    {
        WriterState.RECOVERING: {WriterState.IDLE: "store restored"},
        WriterState.IDLE: {
            WriterState.GATHERING: "acknowledgements alone",
            WriterState.ENCODING: "urgent changes",
            WriterState.LOST: _LOST,
        },
        WriterState.GATHERING: {WriterState.ENCODING: "time is up, or urgent changes", WriterState.LOST: _LOST},
        WriterState.ENCODING: {WriterState.WRITING: "transaction complete", WriterState.LOST: _LOST},
        WriterState.WRITING: {
            WriterState.IDLE: "transaction committed",
            WriterState.RETRYING: "transaction failed",
            WriterState.LOST: _LOST,
        },
        WriterState.RETRYING: {WriterState.WRITING: "pause is over", WriterState.LOST: _LOST},
    },
)


class StoreWriter:
    """Writer of one broker's store. All methods except `_run` belong to the event loop's thread."""

    def __init__(self, store: Store, event_loop: EventLoop) -> None:
        broker = event_loop.driver.broker
        self.store = store
        self.journal = Journal(broker.durable_changes, broker.gates.disk, broker.large)
        self.lost: asyncio.Future[StoreError] = event_loop.loop.create_future()
        """Future that is done when writing has stopped for good: another broker has the store, or an internal error
        occurred.
        """
        self.state = WriterState.RECOVERING
        self._event_loop = event_loop
        self._driver = event_loop.driver
        self.gauge = DiskSampler(store)
        self._encoding: Steps[StoreTransaction] | None = None
        """Steps of the transaction that is being encoded."""
        self._wall_offset: float = 0.0
        """Offset to wall time used in the rows of the transaction."""
        self._transaction: StoreTransaction | None = None
        """Transaction that is being written, or retried."""
        self._since: float = 0.0
        """Time at which the transaction was handed to the thread, by the loop's clock."""
        self._gathering: asyncio.TimerHandle | None = None
        self._failing: str = ""
        """Error of the last transaction, or its long duration; empty after a success."""
        self._complained: str = ""
        """Lasting error of housekeeping that was logged."""
        self._held_memory: int = 0
        """Bytes counted in the node's memory: a transaction that is being written, and messages that have left their
        queues meanwhile.
        """
        self.transactions = Histogram()
        """Seconds of each durable transaction, in its thread: writing rows and waiting for the disk."""
        self.transaction_bytes: int = 0
        """Bytes of all durable transactions."""
        self._took_s: float = 0.0
        """Seconds of the last transaction; set by the thread before it reports the transaction as durable."""
        self._size: int = 0
        """Bytes of the last transaction, set likewise."""
        self.leaving: bool = False
        """True while `stop` waits until all changes are written: then each turn calls `run_once`."""
        self._idle = asyncio.Event()
        self._unreadable: bool = False
        """True if the last read of pages failed."""
        self._loader = Loader()
        self._times = WallTimes(0.0)
        self._jobs: queue.SimpleQueue[StoreTransaction | PageRead | PieceRead | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="penstock-store", daemon=True)

    # Start and stop

    async def recover(self) -> None:
        """Restore the store's contents into a broker that has only its configuration; then start the writes.

        A recovery may be cancelled between two steps: then nothing was written. Raises StoreError.
        """
        self._event_loop.suspend()
        gc.disable()  # Restored objects are permanent: garbage collections would cost more than the recovery.
        try:
            await self._recover()
        finally:
            gc.freeze()
            gc.unfreeze()  # Both move them to the oldest generation at once.
            gc.enable()
            self._event_loop.resume()
        self.state = WRITER_STATES.move(self.state, WriterState.IDLE)
        self._thread.start()

    async def _recover(self) -> None:
        self._begin()
        broker = self._driver.broker
        broker.journal = self.journal
        broker.large.stores = True
        told_of: list[str] = []
        for _ in self._restore(told_of):
            await asyncio.sleep(0)  # Signals are handled.
        for sentence in told_of:
            log(DAMAGED, "recovering: %s", sentence)
        self._times = WallTimes(broker.wall_offset)
        recovery = Recovery(broker, self.journal, broker.wall_offset, self.store.was_left)
        for position in self.store.positions():
            recovery.position(position)
        for record in self.store.settlements():
            recovery.settlement(record.number, record.data)
        await self._recover_bodies(recovery)
        reported = 0
        for index, row in enumerate(self.store.rows()):
            if index % ROWS_A_STEP == 0:
                await asyncio.sleep(0)
            recovery.row(row)
            if recovery.messages - reported >= TOLD_EVERY:
                reported = recovery.messages
                log(RECOVERING, "recovering: %s messages", f"{reported:,}")
        wanted = recovery.wanted()
        while wanted is not None:
            await asyncio.sleep(0)
            recovery.pages(wanted, self.store.pages(*wanted))
            wanted = recovery.wanted()
        recovery.finish()
        self._refuse_damage(recovery.account)
        self._measured(self.gauge.sample())
        if recovery.bodies_gone:
            log(
                RECOVERING,
                "recovering: large bodies without a message, which are deleted: %s",
                f"{recovery.bodies_gone:,}",
            )
        if recovery.messages:
            log(RECOVERED, "recovered: %s messages", f"{recovery.messages:,}")

    async def _recover_bodies(self, recovery: Recovery) -> None:
        for index, piece in enumerate(self.store.pieces()):
            if index % PIECES_A_STEP == 0:
                await asyncio.sleep(0)
            recovery.piece(piece)
        for bodies in self.store.row_bodies():
            recovery.row_bodies(bodies)

    def _restore(self, told_of: list[str]) -> Steps[None]:
        told_of += yield from restore_steps(self._driver.broker, self.store.metadata())

    def _refuse_damage(self, account: MessageAudit) -> None:
        """Reject a damaged store: each transaction would overwrite evidence of the losses."""
        damaged = self.store.damaged
        losses = account.losses(damaged)
        if damaged:
            first = damaged[0]
            places = "1 place" if len(damaged) == 1 else f"{len(damaged):,} places"
            raise StoreError(
                f"the store is damaged in {places}, first {first.what}: {first.why}; {summed_up(losses)}; "
                f"{self.store.when_damaged}"
            )
        for loss in losses:
            log(DAMAGED, "recovering: %s, though nothing in the store is damaged", loss)

    async def stop(self) -> None:
        """Write the rest, within `LEAVE_S`, and close the store."""
        if self._thread.is_alive() and self.state is not WriterState.LOST:
            self._driver.broker.ranges.finish()
            for vhost in self._driver.broker.vhosts.values():
                reset_lookahead(list(vhost.queues.values()))
            self._idle.clear()
            self.leaving = True
            self.run_once()
            try:
                async with asyncio.timeout(LEAVE_S):
                    while not self.journal.is_idle():
                        await self._idle.wait()
                        self._idle.clear()
            except TimeoutError:
                log(STORE_LATE, "the store could not be written in time: %s", self._failing or "the disk is too slow")
                self.store.interrupt()
        await self._end_thread()
        if self._thread.is_alive() and self.store.interrupt():
            await self._end_thread()
        self._stop_gathering()

    async def abandon(self) -> None:
        """End the thread after its present transaction, as at a power cut: no more is written."""
        self._stop_gathering()
        await self._end_thread()

    async def _end_thread(self) -> None:
        self._jobs.put(None)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, LEAVE_S)

    # Called by the event loop

    def run_once(self) -> None:
        """Start a transaction at the end of a turn if there are changes."""
        self._request_pages()
        state = self.state
        if state is WriterState.ENCODING:
            self._encode()
        elif state is WriterState.IDLE or state is WriterState.GATHERING:
            journal = self.journal
            if journal.has_urgent():
                self._write()
            elif journal.is_idle():
                self._idle.set()
            elif state is WriterState.IDLE and not journal.series.is_recorded():
                self.state = WRITER_STATES.move(state, WriterState.GATHERING)
                self._gathering = asyncio.get_running_loop().call_later(LAZY_S, self._write)

    def _begin(self) -> None:
        self._driver.begin(self._event_loop.loop.time())

    def _stop_gathering(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None

    def _request_pages(self) -> None:
        """Request the pages that queues need, and the pieces that readers need."""
        broker = self._driver.broker
        for read in broker.take_page_reads():
            self._jobs.put(read)
        for piece in broker.large.take_reads():
            self._jobs.put(piece)

    def tick(self) -> None:
        """Check about once a second whether a transaction takes very long."""
        took = self._event_loop.loop.time() - self._since
        if self.state is WriterState.WRITING and not self._failing and took > SLOW_S:
            self._fails(f"the store in {self.store} has not answered for {took:.0f} s")

    def _write(self) -> None:
        """Begin a transaction."""
        self._stop_gathering()
        self.state = WRITER_STATES.move(self.state, WriterState.ENCODING)
        broker = self._driver.broker
        self._wall_offset = broker.wall_offset
        try:
            group = self.journal.take()
        except Exception as error:
            self._fail_internally(error)
            return
        self._encoding = encode_steps(self.journal, group, self._wall_offset, broker.work)
        self._event_loop.schedule()  # Clients that waited for this may continue.
        self._encode()

    def _encode(self) -> None:
        """Encode a part of the next transaction; when it is complete, pass it to the thread."""
        assert self._encoding is not None
        work = self._driver.broker.work
        used = self._driver.scheduler.line.used()
        work.limit = work.done + min(max(used, STORE_SHARE), SHARE)
        try:
            next(self._encoding)
            self._event_loop.schedule()  # The rest follows in later turns.
        except StopIteration as end:
            self._encoding = None
            self._give(end.value)
        except Exception as error:
            self._fail_internally(error)
        finally:
            work.limit = UNLIMITED_WORK

    def _count_memory(self) -> None:
        """Count data on its way to the store in the node's memory, as far as no queue counts it."""
        held = self.journal.left_behind() + (0 if self._transaction is None else self._transaction.size())
        self._driver.broker.gates.count_other_memory(held - self._held_memory)
        self._held_memory = held

    def _fail_internally(self, error: Exception) -> None:
        """End the broker after an internal error: continuing might confirm messages that are not written."""
        log(INTERNAL_ERROR, "internal error while encoding a store transaction", error=True)
        self._fail_permanently(
            StoreError(
                f"internal error while encoding a store transaction ({type(error).__name__}: {error}). "
                "The broker stops so that nothing unwritten is confirmed. All confirmed messages are in the store: "
                "restart the broker, and please report this"
            )
        )

    def _give(self, commit: StoreTransaction) -> None:
        """Pass a transaction to the thread."""
        if commit.rows:
            self._times.write(min(row.number for row in commit.rows), self._wall_offset)
        self._transaction = commit
        self.state = WRITER_STATES.move(self.state, WriterState.WRITING)
        self._since = self._event_loop.loop.time()
        self._update_sampler()
        self._count_memory()
        self._jobs.put(commit)

    def _written(self, failure: StoreError | None, usage: Usage | None) -> None:
        if isinstance(failure, StoreLost):
            self._fail_permanently(failure)
            return
        if failure is not None:
            if self.state is WriterState.LOST:
                return
            self.state = WRITER_STATES.move(self.state, WriterState.RETRYING)
            self._fails(str(failure))
            asyncio.get_running_loop().call_later(RETRY_S, self._try_again)
            return
        self.transactions.count(self._took_s)
        self.transaction_bytes += self._size
        self.journal.shares.written(self._took_s)
        self._transaction = None
        if self.state is not WriterState.LOST:
            self.state = WRITER_STATES.move(self.state, WriterState.IDLE)
        self._begin()
        self.journal.written()
        self._count_memory()
        if self._failing:
            self._failing = ""
            self._driver.broker.gates.disk_works()
        if usage is not None:
            self._measured(usage)
        self._event_loop.schedule()

    def _fails(self, reason: str) -> None:
        self._failing = reason
        self._begin()
        self._driver.broker.gates.disk_fails(reason)
        for connection in self._driver.connections.values():
            if connection.output.deliveries is not None and connection.output.deliveries.waiting:
                connection.request_flush()
        self._event_loop.schedule()

    def is_stuck(self) -> bool:
        """Return whether, after `stop`, the thread still waits for its disk, and owns the store."""
        return self._thread.is_alive()

    def _fail_permanently(self, failure: StoreError) -> None:
        """Stop writing for good: the broker must stop."""
        if self.state is WriterState.LOST:
            return
        self.state = WRITER_STATES.move(self.state, WriterState.LOST)
        self._stop_gathering()
        if not self.lost.done():
            self.lost.set_result(failure)

    def _try_again(self) -> None:
        if self.state is WriterState.RETRYING and self._transaction is not None:
            self.state = WRITER_STATES.move(self.state, WriterState.WRITING)
            self._since = self._event_loop.loop.time()
            self._jobs.put(self._transaction)

    def _measured(self, usage: Usage) -> None:
        """Apply a disk sample: update the disk gates, and set the time of the next sample."""
        self._begin()
        disk = self._driver.broker.gates.disk
        free = UNLIMITED if usage.free is None else usage.free
        disk.measured(usage.used, free, usage.total or 0, self._driver.broker.now, usage.needed)
        self._update_sampler()
        self._event_loop.schedule()

    def _update_sampler(self) -> None:
        """Update the sampler's distance to the thresholds; they may have changed since the sample."""
        disk = self.journal.disk
        self.gauge.left = max(int(disk.left()), 0)
        self.gauge.short = disk.is_short()
        large = self._driver.broker.large
        if large.disk_short != self.gauge.short:
            large.disk_short = self.gauge.short
            if not large.disk_short:
                large.notify_room()

    def _loaded(self, read: PageRead, rows: list[MessageRow]) -> None:
        """Handle pages that were read for a queue."""
        self._unreadable = False
        self._begin()
        for sentence in self._loader.load(read, rows, self._times):
            log(DAMAGED, "reading back: %s", sentence)
        self._request_pages()  # At once: the next pages are read while these are delivered.
        self._event_loop.schedule()

    def _piece_read(self, read: PieceRead, octets: bytes | None) -> None:
        """Handle a piece that was read for a reader; None if the piece is missing or damaged."""
        self._unreadable = False
        self._begin()
        fault = ""
        if octets is None:
            fault = f"piece {read.index} of large body {read.number} is missing in the store, or damaged"
            log(DAMAGED, "reading back: %s", fault)
        read.on_read(octets, fault)
        self._request_pages()
        self._event_loop.schedule()

    def _not_loaded(self, read: PageRead | PieceRead, failure: StoreError) -> None:
        if isinstance(failure, StoreLost):
            self._fail_permanently(failure)
            return
        if not self._unreadable:
            log(
                STORE_UNREADABLE,
                "cannot read pages of queues, or large messages, from the store, and tries again until it can: %s",
                failure,
            )
        self._unreadable = True
        asyncio.get_running_loop().call_later(RETRY_S, self._jobs.put, read)

    # Thread

    def _run(self) -> None:
        store = self.store
        watch = LoopWatch(store, self._event_loop, self._post) if isinstance(store, Leased) else None
        while True:
            try:
                job = self._jobs.get(timeout=self.gauge.patience_s())
            except queue.Empty:
                usage = self._be_idle(watch)
                if usage is not None and not self._post(partial(self._measured, usage)):
                    return
                continue
            if job is None:
                return
            if not self._post(self._commit(job) if isinstance(job, StoreTransaction) else self._read(job)):
                return

    def _commit(self, commit: StoreTransaction) -> Callable[[], None]:
        """Write a transaction, and sample the disk if a sample is due."""
        begun = time.monotonic()
        try:
            self.store.commit(commit)
            self._took_s = time.monotonic() - begun
            self._size = commit.size()
        except StoreError as error:
            return partial(self._written, error, None)
        except Exception as error:  # Whatever the error: listeners must be called, and no change may be lost.
            log(INTERNAL_ERROR, "the store's writer met something that it does not know", error=True)
            return partial(self._written, StoreError(f"{type(error).__name__}: {error}"), None)
        try:
            return partial(self._written, None, self.gauge.wrote(self._size))
        except StoreLost as error:
            return partial(self._written, error, None)
        except StoreError as error:
            self._log_once(error)
            return partial(self._written, None, None)

    def _read(self, read: PageRead | PieceRead) -> Callable[[], None]:
        try:
            if isinstance(read, PieceRead):
                return partial(self._piece_read, read, self.store.piece(int(read.number), int(read.index)))
            return partial(self._loaded, read, read_rows(self.store, read))
        except StoreError as error:
            return partial(self._not_loaded, read, error)

    def _be_idle(self, watch: LoopWatch | None) -> Usage | None:
        """Reclaim space in steps while there are no writes, unless the event loop hangs."""
        try:
            if not self._reclaim_space(watch):
                return None
            usage = self.gauge.sample()
            if watch is not None:
                watch.resume()
            return usage
        except StoreLost as error:
            self._post(partial(self._fail_permanently, error))
        except StoreError as error:
            self._log_once(error)
        return None

    def _reclaim_space(self, watch: LoopWatch | None) -> bool:
        """Reclaim space until there are writes; return False if the event loop hangs. Raises StoreLost."""
        try:
            while (watch is None or watch.look()) and self._jobs.empty() and self.store.reclaim_space():
                pass
        except StoreLost:
            raise
        except StoreError as error:  # Most likely the disk is full: then a sample is needed.
            self._log_once(error)
        else:
            self._complained = ""
        return watch is None or watch.look()

    def _log_once(self, error: StoreError) -> None:
        """Log an error of housekeeping once, because it is retried every second."""
        if str(error) != self._complained:
            self._complained = str(error)
            log(STORE_ODD, "the store could not be tidied up: %s", error)

    def _post(self, what: Callable[[], None]) -> bool:
        """Call a function in the event loop; return False if the loop is closed, as after a stop without waiting."""
        try:
            self._event_loop.loop.call_soon_threadsafe(what)
        except RuntimeError:
            return False
        return True
