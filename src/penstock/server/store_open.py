"""Opening of a broker's store: at once, or as a standby when its holder releases it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.errors import ConfigError, StoreError
from penstock.log_ids import STANDBY
from penstock.logger import log
from penstock.store.directory import DataDirectory
from penstock.store.postgres import SCHEMES, postgres_store
from penstock.store.store import Store

if TYPE_CHECKING:
    from penstock.store.postgres.store import PostgresStore

ASKED_S: Final = 1.0
"""Seconds per attempt of a standby to get the store; it can be stopped in between."""

T = TypeVar("T")


def store_of(url: str | None, directory: DataDirectory | None) -> Store | None:
    """Return the store at a URL, else the one in a directory, not yet opened; None without either.

    Raises ConfigError.
    """
    if url is not None:
        return database_of(url)
    if directory is None:
        return None
    from penstock.store.sqlite import SqliteStore  # A broker without a store starts sooner.

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
    """Return the scheme of a URL, for errors; the rest may hold a password."""
    scheme, border, _ = url.partition("://")
    return f"{scheme}://..." if border and scheme.isalnum() else "a text without a scheme"


async def take_hold(store: Store, standby: bool, report: Callable[[str], None]) -> None:
    """Open a store; a standby waits while another broker has it. Raises StoreError, StoreBusy.

    Once a standby has reached the store, it also waits for a failed server to return. What it waits for is reported.
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
