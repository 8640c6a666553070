"""The store beside the event loop: one thread writes, one transaction at a time; the loop never waits for the disk.

Theory of operation. At the end of each turn the store writer looks whether the journal has anything to write and
nothing is being written. If somebody waits for it, it is written at once; acknowledgements alone are gathered for a
moment. What happens meanwhile gathers in the next group, so the slower the disk the larger the groups. When a
transaction is on the disk, those who wait for it hear so in the turn that follows.

Pages that queues want back are read by the same thread, between two transactions; the loop takes what is in them.

A transaction that fails is tried again until it succeeds: nothing of it is confirmed, nothing of it is lost. Meanwhile
the gate before the store is closed: no more persistent messages come in, everything else goes on. What piles up is
bounded: messages by their queues' capacities, what is noted of them by the places in rows that are not empty, changes
by `CHANGES_MAX` (core/journal/journal.py; docs/memory.md). A transaction that takes very long closes the gate as well,
until it is done.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.core.broker import Broker
from penstock.core.journal.journal import Journal
from penstock.core.journal.redelivery_mark import reset_lookahead
from penstock.core.queue.page_io import PageRead
from penstock.errors import StoreError, StoreLost
from penstock.flow.level import UNLIMITED
from penstock.flow.work import SHARE, UNLIMITED_WORK, Steps
from penstock.persistence.message_audit import MessageAudit, summed_up
from penstock.persistence.page_loader import Loader
from penstock.persistence.recovery import Recovery
from penstock.persistence.restore_metadata import restore_steps
from penstock.persistence.transaction_encoder import encode_steps
from penstock.persistence.wall_clock import WallTimes
from penstock.server.disk_sampler import DiskSampler
from penstock.store.records import MessageRow, StoreTransaction
from penstock.store.store import Store, Usage

if TYPE_CHECKING:
    from penstock.server.event_loop import EventLoop

LAZY_S: Final = 0.01
"""Seconds for which acknowledgements alone are gathered: nobody is told anything when they are on the disk."""
RETRY_S: Final = 1.0
"""Seconds until a transaction that failed is tried again."""
SLOW_S: Final = 10.0
"""Seconds that a transaction may take before the store counts as one that cannot be written."""
LEAVE_S: Final = 10.0
"""Seconds that the last transactions get when the broker stops."""
ROWS_A_STEP: Final = 20
"""Rows (of 1 MiB at most) that are read in one step of a recovery."""
TOLD_EVERY: Final = 100_000
"""Messages between two lines that tell how far a recovery has come."""

log = logging.getLogger("penstock")


class StoreWriter:
    """The store of one broker. Everything but `_run` is the event loop's."""

    def __init__(self, store: Store, broker: Broker) -> None:
        self.store = store
        self.journal = Journal(broker.durable_changes, broker.gates.disk)
        self.lost: asyncio.Future[StoreError]
        """Done when nothing is written any more: another broker has taken the store over, or there is a fault of ours;
        made by `recover`."""
        self._event_loop: EventLoop | None = None
        self.gauge = DiskSampler(store)
        self._encoding: Steps[StoreTransaction] | None = None
        """What is being put together for the writer: a share of work each turn."""
        self._wall_offset: float = 0.0
        """With which its rows are put together."""
        self._writing: StoreTransaction | None = None
        self._since: float = 0.0
        """When it was given to the writer: seconds of the loop's clock."""
        self._gathering: asyncio.TimerHandle | None = None
        self._failing: str = ""
        """Why the last transaction failed, or that it takes long; empty while they succeed."""
        self._complained: str = ""
        """What the writer has complained of, and that lasts."""
        self._idle = asyncio.Event()
        self._unreadable: bool = False
        """Whether pages could not be read the last time."""
        self._loader = Loader()
        self._times = WallTimes(0.0)
        self._jobs: queue.SimpleQueue[StoreTransaction | PageRead | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="penstock-store", daemon=True)

    # Begin and end

    async def recover(self, event_loop: EventLoop) -> None:
        """Bring back what the store has, into a broker that has only what its configuration says; then begin to write.

        It may be cancelled between two steps: nothing has been written then. Raises StoreError.
        """
        event_loop.resting = True
        gc.disable()  # All that comes back stays: to look through it again and again takes longer than all the rest.
        try:
            await self._recover(event_loop)
        finally:
            gc.enable()
            event_loop.resting = False
        self._thread.start()

    async def _recover(self, event_loop: EventLoop) -> None:
        driver = event_loop.driver
        broker = driver.broker
        self._event_loop = event_loop
        self.lost = event_loop.loop.create_future()
        driver.begin(event_loop.loop.time())
        broker.journal = self.journal
        told_of: list[str] = []
        steps = self._restore(told_of)
        for _ in steps:
            await asyncio.sleep(0)  # Signals are acted on.
        for sentence in told_of:
            log.warning("recovering: %s", sentence)
        self._times = WallTimes(driver.control.wall_offset)
        recovery = Recovery(broker, self.journal, driver.control.wall_offset)
        for position in self.store.positions():
            recovery.position(position)
        for note in self.store.settlements():
            recovery.settlement(note.number, note.data)
        told = 0
        for index, row in enumerate(self.store.rows()):
            if index % ROWS_A_STEP == 0:
                await asyncio.sleep(0)
            recovery.row(row)
            if recovery.messages - told >= TOLD_EVERY:
                told = recovery.messages
                log.info("recovering: %s messages", f"{told:,}")
        wanted = recovery.wanted()
        while wanted is not None:
            await asyncio.sleep(0)
            recovery.pages(wanted, self.store.pages(*wanted))
            wanted = recovery.wanted()
        recovery.finish()
        self._refuse_damage(recovery.account)
        self._measured(self.gauge.sample())
        if recovery.messages:
            log.info("recovered: %s messages", f"{recovery.messages:,}")

    def _restore(self, told_of: list[str]) -> Steps[None]:
        assert self._event_loop is not None
        told_of += yield from restore_steps(self._event_loop.driver, self.store.metadata())

    def _refuse_damage(self, account: MessageAudit) -> None:
        """A broker that serves what is left would forget what is lost, with every message that it writes."""
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
            log.error("recovering: %s, though nothing in the store is damaged", loss)

    async def stop(self) -> None:
        """Write what is left, within `LEAVE_S`, and let go of the store."""
        if self._thread.is_alive() and not self.lost.done():
            assert self._event_loop is not None
            for vhost in self._event_loop.driver.broker.vhosts.values():
                reset_lookahead(list(vhost.queues.values()))
            self._idle.clear()
            self.run_once()
            try:
                async with asyncio.timeout(LEAVE_S):
                    while not self.journal.is_idle():
                        await self._idle.wait()
                        self._idle.clear()
            except TimeoutError:
                log.error("the store could not be written in time: %s", self._failing or "the disk is too slow")
                self.store.interrupt()
        self._jobs.put(None)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, LEAVE_S)
        if self._thread.is_alive() and self.store.interrupt():
            await asyncio.to_thread(self._thread.join, LEAVE_S)
        if self._gathering is not None:
            self._gathering.cancel()

    # The event loop's side

    def run_once(self) -> None:
        """Have written what there is to write, at the end of a turn of the loop."""
        self._request_pages()
        journal = self.journal
        if self._writing is not None or self.lost.done():
            return
        if self._encoding is not None:
            self._encode()
        elif journal.has_urgent():
            self._write()
        elif not journal.is_idle():
            if self._gathering is None:
                self._gathering = asyncio.get_running_loop().call_later(LAZY_S, self._gathered)
        else:
            self._idle.set()

    def _request_pages(self) -> None:
        """Have the pages read that are wanted."""
        for read in self.journal.take_reads():
            self._jobs.put(read)

    def tick(self) -> None:
        """Look, about once a second, whether a transaction takes very long."""
        assert self._event_loop is not None
        took = self._event_loop.loop.time() - self._since
        if self._writing is not None and not self._failing and took > SLOW_S:
            self._fails(f"the store in {self.store} has not answered for {took:.0f} s")

    def _gathered(self) -> None:
        self._gathering = None
        if self._writing is None and self._encoding is None and not self.lost.done():
            self._write()

    def _write(self) -> None:
        assert self._event_loop is not None
        driver = self._event_loop.driver
        self._wall_offset = driver.control.wall_offset
        self._encoding = encode_steps(self.journal, self.journal.take(), self._wall_offset, driver.broker.work)
        self._encode()

    def _encode(self) -> None:
        """Put together a part of what is written next; when that is all of it, have it written."""
        assert self._event_loop is not None
        assert self._encoding is not None
        work = self._event_loop.driver.broker.work
        work.limit = work.done + SHARE
        try:
            next(self._encoding)
            self._event_loop.schedule()  # The rest is for the next turns.
        except StopIteration as end:
            self._encoding = None
            self._give(end.value)
        except Exception as error:  # A fault of ours. To go on could be to confirm what is not written.
            log.exception("what is to be kept could not be put together")
            self._fail_permanently(
                StoreError(
                    f"what is to be kept could not be put together ({type(error).__name__}: {error}), so nothing is "
                    "confirmed any more and the broker ends; what was confirmed is in the store: start it again"
                )
            )
        finally:
            work.limit = UNLIMITED_WORK

    def _give(self, commit: StoreTransaction) -> None:
        """Have a transaction written."""
        assert self._event_loop is not None
        if commit.rows:
            self._times.write(min(row.number for row in commit.rows), self._wall_offset)
        self._writing = commit
        self._since = self._event_loop.loop.time()
        self._update_sampler()
        self._jobs.put(commit)

    def _written(self, failure: StoreError | None, usage: Usage | None) -> None:
        assert self._event_loop is not None
        driver = self._event_loop.driver
        if isinstance(failure, StoreLost):
            self._fail_permanently(failure)
            return
        if failure is not None:
            self._fails(str(failure))
            asyncio.get_running_loop().call_later(RETRY_S, self._try_again)
            return
        self._writing = None
        driver.begin(self._event_loop.loop.time())
        self.journal.written()
        if self._failing:
            self._failing = ""
            driver.broker.gates.disk_works()
        if usage is not None:
            self._measured(usage)
        self._event_loop.schedule()

    def _fails(self, reason: str) -> None:
        assert self._event_loop is not None
        self._failing = reason
        driver = self._event_loop.driver
        driver.begin(self._event_loop.loop.time())
        driver.broker.gates.disk_fails(reason)
        for connection in driver.connections.values():
            if connection.durable_deliveries is not None and connection.durable_deliveries.waiting:
                connection.request_flush()
        self._event_loop.schedule()

    def is_stuck(self) -> bool:
        """Tell whether, after `stop`, the writer still waits for its disk, and has the store to itself."""
        return self._thread.is_alive()

    def _fail_permanently(self, failure: StoreError) -> None:
        """Nothing that happens here from now on is written: the broker must stop."""
        if not self.lost.done():
            self.lost.set_result(failure)

    def _try_again(self) -> None:
        assert self._event_loop is not None
        if self._writing is not None:
            self._since = self._event_loop.loop.time()
            self._jobs.put(self._writing)

    def _measured(self, usage: Usage) -> None:
        """The store has been looked at: judge the gates before it, and say how soon to look again."""
        assert self._event_loop is not None
        driver = self._event_loop.driver
        driver.begin(self._event_loop.loop.time())
        disk = driver.broker.gates.disk
        free = UNLIMITED if usage.free is None else usage.free
        disk.measured(usage.used, free, usage.total or 0, driver.broker.now, usage.needed)
        self._update_sampler()
        self._event_loop.schedule()

    def _update_sampler(self) -> None:
        """Let the writer know how near the marks are; they may have been set since it looked."""
        disk = self.journal.disk
        self.gauge.left = max(int(disk.left()), 0)
        self.gauge.short = disk.is_short()

    def _loaded(self, read: PageRead, rows: list[MessageRow]) -> None:
        """Pages that a queue wants back have been read."""
        assert self._event_loop is not None
        self._unreadable = False
        self._event_loop.driver.begin(self._event_loop.loop.time())
        for sentence in self._loader.load(read, rows, self._times):
            log.error("reading back: %s", sentence)
        self._request_pages()  # At once: the next ones are read while these are on their way to consumers.
        self._event_loop.schedule()

    def _not_loaded(self, read: PageRead, failure: StoreError) -> None:
        if isinstance(failure, StoreLost):
            self._fail_permanently(failure)
            return
        if not self._unreadable:
            log.error("what is paged cannot be read, and is tried again until it can: %s", failure)
        self._unreadable = True
        asyncio.get_running_loop().call_later(RETRY_S, self._jobs.put, read)

    # The writer

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self.gauge.patience_s())
            except queue.Empty:
                usage = self._be_idle()
                if usage is not None and not self._post(partial(self._measured, usage)):
                    return
                continue
            if job is None:
                return
            if not self._post(self._read(job) if isinstance(job, PageRead) else self._commit(job)):
                return

    def _commit(self, commit: StoreTransaction) -> Callable[[], None]:
        """Write a transaction, and look what room the store takes if it is time to."""
        try:
            self.store.commit(commit)
        except StoreError as error:
            return partial(self._written, error, None)
        except Exception as error:  # Whatever it is: what waits for it must be told, and nothing of it is lost.
            log.exception("the store's writer met something that it does not know")
            return partial(self._written, StoreError(f"{type(error).__name__}: {error}"), None)
        try:
            return partial(self._written, None, self.gauge.wrote(commit.size()))
        except StoreLost as error:
            return partial(self._written, error, None)
        except StoreError as error:
            self._log_once(error)
            return partial(self._written, None, None)

    def _read(self, read: PageRead) -> Callable[[], None]:
        try:
            return partial(self._loaded, read, self.store.pages(read.number, read.first, read.most))
        except StoreError as error:
            return partial(self._not_loaded, read, error)

    def _be_idle(self) -> Usage | None:
        """Nothing is to be written: let the store give back what it does not need, a little at a time."""
        assert self._event_loop is not None
        try:
            self._reclaim_space()
            return self.gauge.sample()
        except StoreLost as error:
            self._post(partial(self._fail_permanently, error))
        except StoreError as error:
            self._log_once(error)
        return None

    def _reclaim_space(self) -> None:
        """Tidy up until somebody has something to write. Raises StoreLost."""
        try:
            while self._jobs.empty() and self.store.reclaim_space():
                pass
        except StoreLost:
            raise
        except StoreError as error:  # Most likely the disk is full: just then it matters what room there is.
            self._log_once(error)
        else:
            self._complained = ""

    def _log_once(self, error: StoreError) -> None:
        """Log that the store could not be looked after: once, for it is tried every second."""
        if str(error) != self._complained:
            self._complained = str(error)
            log.warning("the store could not be tidied up: %s", error)

    def _post(self, what: Callable[[], None]) -> bool:
        """Have the event loop do something; tells whether there is one: the broker may be gone without waiting."""
        assert self._event_loop is not None
        try:
            self._event_loop.loop.call_soon_threadsafe(what)
        except RuntimeError:
            return False
        return True
