"""The store beside the event loop: one thread writes, one transaction at a time; the loop never waits for the disk.

Theory of operation. At the end of each turn the keeper looks whether the journal has anything to write and nothing is
being written. If somebody waits for it, it is written at once; acknowledgements alone are gathered for a moment. What
happens meanwhile gathers in the next group, so the slower the disk the larger the groups. When a transaction is on the
disk, those who wait for it hear so in the turn that follows.

A transaction that fails is tried again until it succeeds: nothing of it is confirmed, nothing of it is lost.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import queue
import threading
from typing import TYPE_CHECKING, Final

from penstock.adapter.keeping.commits import encode
from penstock.adapter.keeping.recovery import Recovery
from penstock.adapter.keeping.restore import restore
from penstock.core.broker import Broker
from penstock.core.journal import Journal
from penstock.core.storing import announce_exactly
from penstock.errors import StoreError, StoreLost
from penstock.store.commit import Commit
from penstock.store.store import Store

if TYPE_CHECKING:
    from penstock.server.shell import Shell

LAZY_S: Final = 0.01
"""Seconds for which acknowledgements alone are gathered: nobody is told anything when they are on the disk."""
RETRY_S: Final = 1.0
"""Seconds until a transaction that failed is tried again."""
IDLE_S: Final = 1.0
"""Seconds without anything to write after which the store tidies up."""
LEAVE_S: Final = 10.0
"""Seconds that the last transactions get when the broker stops."""
TOLD_EVERY: Final = 100_000
"""Messages between two lines that tell how far a recovery has come."""

log = logging.getLogger("penstock")


class Keeper:
    """The store of one broker. Everything but `_run` is the event loop's."""

    def __init__(self, store: Store, broker: Broker) -> None:
        self.store = store
        self.journal = Journal(broker.promises)
        self.lost: asyncio.Future[StoreLost]
        """Done when another broker has taken the store over; made by `recover`."""
        self._shell: Shell | None = None
        self._writing: Commit | None = None
        self._gathering: asyncio.TimerHandle | None = None
        self._failing: str = ""
        """Why the last transaction failed; empty while they succeed."""
        self._idle = asyncio.Event()
        self._jobs: queue.SimpleQueue[Commit | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="penstock-store", daemon=True)

    # Begin and end

    def recover(self, shell: Shell) -> None:
        """Bring back what the store has, into a broker that has only what its configuration says; then begin to write.

        Raises StoreError.
        """
        hub = shell.hub
        broker = hub.broker
        self._shell = shell
        self.lost = shell.loop.create_future()
        hub.begin(shell.loop.time())
        broker.journal = self.journal
        gc.disable()  # All that comes back stays: to look through it again and again takes longer than all the rest.
        try:
            told_of = restore(hub, self.store.things())
        finally:
            gc.enable()
        for sentence in told_of:
            log.warning("recovering: %s", sentence)
        recovery = Recovery(broker, self.journal, hub.control.wall_offset)
        for position in self.store.positions():
            recovery.position(position.queue, position.tail, position.delivered)
        for note in self.store.notes():
            recovery.note(note.number, note.data)
        told = 0
        for row in self.store.rows():
            recovery.row(row.number, row.data)
            if recovery.messages - told >= TOLD_EVERY:
                told = recovery.messages
                log.info("recovering: %s messages", f"{told:,}")
        recovery.finish()
        self._refuse_damage()
        if recovery.messages:
            log.info("recovered: %s messages", f"{recovery.messages:,}")
        self._thread.start()

    def _refuse_damage(self) -> None:
        """A broker that serves what is left would forget what is lost, with every message that it writes."""
        damaged = self.store.damaged
        if damaged:
            first = damaged[0]
            places = "1 place" if len(damaged) == 1 else f"{len(damaged):,} places"
            raise StoreError(
                f"the store is damaged in {places}, first {first.what}: {first.why}; "
                "`penstock check` tells all of it, `penstock repair NEW` saves the rest in a folder NEW to start from"
            )

    async def stop(self) -> None:
        """Write what is left, within `LEAVE_S`, and let go of the store."""
        if self._thread.is_alive() and not self.lost.done():
            assert self._shell is not None
            for vhost in self._shell.hub.broker.vhosts.values():
                announce_exactly(list(vhost.queues.values()))
            self._idle.clear()
            self.turn()
            try:
                async with asyncio.timeout(LEAVE_S):
                    while not self.journal.is_idle():
                        await self._idle.wait()
                        self._idle.clear()
            except TimeoutError:
                log.error("the store could not be written in time: %s", self._failing or "the disk is too slow")
        self._jobs.put(None)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, LEAVE_S)
        if self._gathering is not None:
            self._gathering.cancel()

    # The event loop's side

    def turn(self) -> None:
        """Have written what there is to write, at the end of a turn of the loop."""
        journal = self.journal
        if self._writing is not None:
            return
        if journal.has_urgent():
            self._write()
        elif not journal.is_idle():
            if self._gathering is None:
                self._gathering = asyncio.get_running_loop().call_later(LAZY_S, self._gathered)
        else:
            self._idle.set()

    def _gathered(self) -> None:
        self._gathering = None
        if self._writing is None:
            self._write()

    def _write(self) -> None:
        assert self._shell is not None
        commit = encode(self.journal, self.journal.take(), self._shell.hub.control.wall_offset)
        self._writing = commit
        self._jobs.put(commit)

    def _written(self, failure: StoreError | None) -> None:
        assert self._shell is not None
        if isinstance(failure, StoreLost):
            self._lose(failure)
            return
        if failure is not None:
            if not self._failing:
                log.error("the store cannot be written, and is tried again until it can: %s", failure)
            self._failing = str(failure)
            asyncio.get_running_loop().call_later(RETRY_S, self._try_again)
            return
        if self._failing:
            log.info("the store can be written again")
            self._failing = ""
        self._writing = None
        self._shell.hub.begin(self._shell.loop.time())
        self.journal.written()
        self._shell.schedule()

    def _lose(self, failure: StoreLost) -> None:
        """Another broker has the store: nothing that happens here from now on counts."""
        if not self.lost.done():
            self.lost.set_result(failure)

    def _try_again(self) -> None:
        if self._writing is not None:
            self._jobs.put(self._writing)

    # The writer

    def _run(self) -> None:
        assert self._shell is not None
        loop = self._shell.loop
        while True:
            try:
                commit = self._jobs.get(timeout=IDLE_S)
            except queue.Empty:
                self._tidy()
                continue
            if commit is None:
                return
            failure: StoreError | None = None
            try:
                self.store.commit(commit)
            except StoreError as error:
                failure = error
            try:
                loop.call_soon_threadsafe(self._written, failure)
            except RuntimeError:
                return  # The loop is closed: the broker was stopped without waiting for us.

    def _tidy(self) -> None:
        """Nothing is to be written: let the store give back what it does not need, a little at a time."""
        assert self._shell is not None
        try:
            while self._jobs.empty() and self.store.tidy():
                pass
        except StoreLost as error:
            self._shell.loop.call_soon_threadsafe(self._lose, error)
        except StoreError as error:
            log.warning("the store could not be tidied up: %s", error)
