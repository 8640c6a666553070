"""Which store a broker has, and how it takes hold of it: at once, or when who has it lets go."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from penstock.errors import ConfigError
from penstock.store.directory import DataDirectory
from penstock.store.postgres import SCHEMES, postgres_store
from penstock.store.sqlite import SqliteStore
from penstock.store.store import Store

ASKED_S: Final = 1.0
"""Seconds for which a standby asks for the store at a time; it can be told to stop in between."""

log = logging.getLogger("penstock")


def store_of(url: str | None, directory: DataDirectory | None) -> Store | None:
    """Return the store at a URL, else the one in a directory, not yet opened; None where nothing is kept.

    Raises ConfigError.
    """
    if url is None:
        return None if directory is None else SqliteStore(directory.path)
    if not url.startswith(SCHEMES):
        raise ConfigError(
            f"a store is a database of PostgreSQL, as postgresql://HOST/DATABASE, not '{url.partition('://')[0]}'; "
            "a folder is named with --data"
        )
    return postgres_store(url)


async def take_hold(store: Store, standby: bool) -> None:
    """Open a store; a standby waits for as long as another broker has it. Raises StoreError, StoreBusy."""
    if not standby:
        store.open()
        return
    told = ""
    while not await asyncio.to_thread(store.try_open, ASKED_S):
        held = store.held_by()
        if held != told:
            log.info("standing by: the store is held by %s", held)
            told = held
    log.info("the store is ours")
