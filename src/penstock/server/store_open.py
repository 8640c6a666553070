"""Which store a broker has, and how it takes hold of it: at once, or when who has it lets go."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from penstock.errors import ConfigError, StoreError
from penstock.store.directory import DataDirectory
from penstock.store.postgres import SCHEMES, postgres_store
from penstock.store.sqlite import SqliteStore
from penstock.store.store import Store

ASKED_S: Final = 1.0
"""Seconds for which a standby asks for the store at a time; it can be told to stop in between."""

log = logging.getLogger("penstock")
T = TypeVar("T")


def store_of(url: str | None, directory: DataDirectory | None) -> Store | None:
    """Return the store at a URL, else the one in a directory, not yet opened; None where nothing is kept.

    Raises ConfigError.
    """
    if url is None:
        return None if directory is None else SqliteStore(directory.path, directory)
    if not url.startswith(SCHEMES):
        raise ConfigError(
            f"a store is a database of PostgreSQL, as postgresql://HOST/DATABASE, not {_scheme(url)}; "
            "a folder is named with --data"
        )
    return postgres_store(url)


def _scheme(url: str) -> str:
    """Return what a URL begins with, for errors; what follows may be a password."""
    scheme, border, _ = url.partition("://")
    return f"{scheme}://..." if border and scheme.isalnum() else "a text without a scheme"


async def take_hold(store: Store, standby: bool) -> None:
    """Open a store; a standby waits for as long as another broker has it. Raises StoreError, StoreBusy.

    Once it has seen the store a standby also waits for a server that is gone: it is there for when things fail.
    """
    if not standby:
        await _beside(store, store.open)
        return
    told = ""
    while True:
        try:
            if await _beside(store, partial(store.try_open, ASKED_S)):
                break
            state = f"the store is held by {store.held_by()}"
        except StoreError as error:
            if not told:
                raise
            state = f"{error}; it is tried again every second"
            await asyncio.sleep(ASKED_S)
        if state != told:
            log.info("standing by: %s", state)
            told = state
    log.info("the store is ours")


async def _beside(store: Store, work: Callable[[], T]) -> T:
    """Have a thread do something with a store; who does not wait for it any more ends it, as soon as can be."""
    done = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        store.interrupt()
        with contextlib.suppress(StoreError):
            await done
        raise
