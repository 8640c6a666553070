"""Dissolution: a node with one shard becomes a broker again, with all that its catalogue has.

The store of a shard has users, permissions, limits and virtual hosts already, but perhaps not the last change before a
node was killed, and no global parameters. So the store gets what it misses, as its shard would. Then the catalogue is
deleted: users that the broker changes from now on must not come back with a catalogue of before.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from penstock.cluster.access_pages import page_after, read_place
from penstock.cluster.access_pull import AccessPull
from penstock.cluster.adoption import FOLDER
from penstock.cluster.catalogue import BEGIN, FILE, CatalogueReader
from penstock.cluster.packet_channel import Row
from penstock.cluster.shard_orders import PULL
from penstock.logs.ids import CHANGED
from penstock.logs.logger import log
from penstock.persistence.metadata_records import PARAMETER
from penstock.server.node import node_name, whole_machine
from penstock.server.shard import Shard
from penstock.settings.config import Settings
from penstock.settings.start import NO_LOG
from penstock.store.directory import DataDirectory
from penstock.store.node_folder import FIRST_SHARD
from penstock.store.records import MetadataRecord, StoreTransaction
from penstock.store.sqlite import SqliteStore

READ_AT_ONCE: Final = 1_000
"""Rows of the catalogue that are read at once."""


async def dissolve(data: Path) -> None:
    """Make the data directory of a node with one shard that of a broker; nothing happens without a catalogue.

    A failure, or a kill, leaves the catalogue, so that the next attempt begins anew. Raises StoreError, StartError.
    """
    folder = data / FOLDER
    if not (folder / FILE).exists():
        return
    directory = DataDirectory(folder)
    directory.lock()
    try:
        catalogue = CatalogueReader(folder)
        try:
            await _complete(data, catalogue)
            await asyncio.to_thread(_add_parameters, data, catalogue)
        finally:
            catalogue.close()
        for suffix in ("", "-wal", "-shm"):
            (folder / f"{FILE}{suffix}").unlink(missing_ok=True)
    finally:
        directory.unlock()
    log(CHANGED, "data directory '%s' is that of one broker again: it had one shard", data)


async def _complete(data: Path, catalogue: CatalogueReader) -> None:
    """Let the shard have all users, permissions, limits and virtual hosts of the catalogue."""
    settings = Settings(vhosts=[], flow_log=NO_LOG, audit_log=NO_LOG)
    shard = Shard(node_name(), settings, data, whole_machine())
    shard.lock()
    try:
        shard.begin()
        await shard.hold_store()
        await shard.restore()
        loop = shard.event_loop.loop

        def answer(request: Row) -> None:
            if PULL in request:
                page = page_after(catalogue, read_place(request[PULL]), FIRST_SHARD)
                loop.call_soon(pull.apply, page)

        pull = AccessPull(shard, answer)
        pull.ask()
        await pull.whole.wait()
    finally:
        try:
            await shard.close()
        finally:
            await shard.release()


def _add_parameters(data: Path, catalogue: CatalogueReader) -> None:
    """Write the global parameters of the catalogue to the store, which shards do not copy."""
    commit = StoreTransaction()
    place = BEGIN
    while rows := catalogue.rows_after(place, READ_AT_ONCE):
        commit.metadata += [MetadataRecord(row.kind, row.key, row.value) for row in rows if row.kind == PARAMETER]
        place = rows[-1][:3]
    directory = DataDirectory(data)
    directory.lock()
    store = SqliteStore(data)
    try:
        store.open()
        if commit.metadata:
            store.commit(commit)
    finally:
        store.close()
        directory.unlock()
