"""Opening, repair and disk usage of a broker's store."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from penstock.errors import ConfigError, StoreError
from penstock.logs.ids import STANDBY
from penstock.logs.logger import log
from penstock.persistence.settlements import Loss
from penstock.persistence.store_scan import StoreScanner
from penstock.store.directory import DataDirectory
from penstock.store.postgres import SCHEMES, postgres_store
from penstock.store.records import Damage, StoreTransaction
from penstock.store.repair import Saved, repair
from penstock.store.sqlite import SqliteStore
from penstock.store.store import Store, Usage

if TYPE_CHECKING:
    from penstock.store.postgres.store import PostgresStore

ASKED_S: Final = 1.0
"""Seconds per attempt of a standby to get the store; it can be stopped in between."""

T = TypeVar("T")


def store_of(url: str | None, directory: DataDirectory | None) -> Store | None:
    """Return the unopened store at a URL, otherwise in a directory; None without either.

    Raises ConfigError.
    """
    if url is not None:
        return database_of(url)
    if directory is None:
        return None
    return SqliteStore(directory.path, directory)


def database_of(url: str, makes: bool = True) -> PostgresStore:
    """Return the store at a URL, not yet opened; `makes` as of `postgres_store`. Raises ConfigError."""
    if not url.startswith(SCHEMES):
        raise ConfigError(
            f"--store needs the URL of a PostgreSQL database, postgresql://HOST/DATABASE, not {_scheme(url)}; "
            "for a folder use --data"
        )
    return postgres_store(url, makes)


def _scheme(url: str) -> str:
    """Return the scheme of a URL, for errors; the rest may contain a password."""
    scheme, border, _ = url.partition("://")
    return f"{scheme}://..." if border and scheme.isalnum() else "a text without a scheme"


async def take_hold(store: Store, standby: bool, report: Callable[[str], None]) -> None:
    """Open a store; a standby waits while another broker has the store. Raises StoreError, StoreBusy.

    Once a standby has reached the store, it also waits for a failed server to return. The obstacle is reported.
    """
    if not standby:
        await _beside(store, store.open)
        return
    reported = ""
    while True:
        try:
            if await _beside(store, partial(store.try_open, ASKED_S)):
                break
            state = f"the store is held by {store.held_by()}"
        except StoreError as error:
            if not reported:
                raise
            state = f"{error}; it is tried again every second"
            await asyncio.sleep(ASKED_S)
        if state != reported:
            log(STANDBY, "standing by: %s", state)
            report(f"standing by: {state}")
            reported = state
    log(STANDBY, "the store is ours")


async def _beside(store: Store, work: Callable[[], T]) -> T:
    """Run a store operation in a thread; cancelling the wait interrupts the operation as soon as possible."""
    done = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        store.interrupt()
        with contextlib.suppress(StoreError):
            await done
        raise


class CheckReport(NamedTuple):
    """Result of a check."""

    damaged: list[Damage]
    losses: list[Loss]


class RepairReport(NamedTuple):
    """Result of a repair."""

    saved: Saved
    messages: int
    """Messages in the new data directory."""
    losses: list[Loss]
    declared: list[str]
    """Queues without a declaration that were declared again, by name."""


def check_store(store: Store) -> CheckReport:
    """Read all records of an unused store. Raises StoreError, StartError."""
    counting = StoreScanner()
    try:
        store.open()
        damaged = store.check(counting.take) + counting.damaged
    finally:
        store.close()
    return CheckReport(damaged, counting.account.losses(damaged))


def check_directory(path: Path) -> CheckReport:
    """Read all records of an unused data directory. Raises as `check_store`."""
    directory = DataDirectory(path)
    directory.hold()
    try:
        return check_store(SqliteStore(path))
    finally:
        directory.unlock()


def repair_directory(source: Path, target: Path) -> RepairReport:
    """Copy all readable records from a data directory into another, and record its totals. Raises as `repair`."""
    saved = repair(source, target)
    directory = DataDirectory(target)
    directory.hold()
    try:
        counting, declared = _settle(SqliteStore(target))
    finally:
        directory.unlock()
    losses = counting.account.losses(saved.lost + counting.damaged)
    return RepairReport(saved, counting.account.total(), losses, declared)


def _settle(store: Store) -> tuple[StoreScanner, list[str]]:
    """Count the saved messages, write the counts, and declare queues without a declaration; return their names."""
    counting = StoreScanner()
    try:
        store.open()
        counting.damaged += store.check(counting.take)
        names = counting.account.names
        before = set(names)
        commit = StoreTransaction()
        commit.metadata = counting.declarations()
        commit.positions = counting.account.corrected(counting.positions)
        store.commit(commit)
    finally:
        store.close()
    return counting, [names[number] for number in names if number not in before]


LOOK_S: Final = 0.25
"""Seconds between two samples during writes, far from a threshold."""
IDLE_S: Final = 1.0
"""Idle seconds after which the store reclaims space and is sampled."""
SHORT_S: Final = 0.1
"""Idle seconds as above, while a disk gate is closed."""
STEP_S: Final = 0.1
"""Seconds between two steps in which a busy store returns space: each takes some milliseconds."""
PART: Final = 4
"""Part of the bytes left to the nearest threshold that may be written between two samples, as a divisor."""


class DiskSampler:
    """Sampler of one store. The event loop sets `left` and `short`; the writer owns the other attributes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.left: int = 0
        """Bytes that may be written before a gate closes."""
        self.short: bool = False
        """True if a disk gate is closed."""
        self._written: int = 0
        self._looked: float = 0.0
        self._tidy_at: float = 0.0
        """Time from which a busy store is requested to return space."""

    def patience_s(self) -> float:
        """Return the idle seconds until the next sample."""
        return SHORT_S if self.short else IDLE_S

    def wrote(self, size: int) -> Usage | None:
        """Count written bytes; return the disk usage if a sample is due. Raises StoreError.

        Between two transactions of a busy store, the store also returns some of its free space.
        """
        self._written += size
        now = time.monotonic()
        if now >= self._tidy_at:
            self._tidy_at = now + (STEP_S if self.store.reclaim_space(idle=False) else IDLE_S)
        if self._written * PART < self.left and now - self._looked < LOOK_S:
            return None
        if self.short:
            self.store.reclaim_space()
        return self.sample()

    def sample(self) -> Usage:
        """Return the present disk usage. Raises StoreError."""
        self._written = 0
        self._looked = time.monotonic()
        return self.store.usage()
