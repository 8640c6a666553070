"""Adoption: the data directory of a broker becomes that of a node, with the broker's store as its first shard.

Users, permissions, limits, global parameters and virtual hosts are copied from the store to the catalogue. The store
stays as it is: as long as the node has one shard, a broker can be started with the directory again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from penstock.cluster.catalogue import ACCESS_KINDS, Catalogue, CatalogueReader, ShardRow
from penstock.persistence.metadata_records import PARAMETER, VHOST, pack, unpack
from penstock.store.directory import DataDirectory
from penstock.store.node_folder import CLUSTER, FIRST_SHARD, check_whole
from penstock.store.records import MetadataRecord, StoreTransaction
from penstock.store.sqlite import FILE as STORE_FILE
from penstock.store.sqlite import SqliteStore

FOLDER: Final[str] = CLUSTER
"""Folder of the catalogue in the data directory of a node."""


def prepare(data: Path, shards: int, vhosts: Iterable[str]) -> None:
    """Make the catalogue of a data directory if there is none, with so many shards and these virtual hosts.

    More shards than there are are added; there are never fewer. The folder is locked by the caller. Raises StoreError,
    StartError. A lost catalogue is not made anew: the virtual hosts of all shards but the first would be lost with it.
    """
    check_whole(data)
    catalogue = Catalogue(data / FOLDER, lambda version: None)
    catalogue.open()
    try:
        reader = CatalogueReader(data / FOLDER)
        present, placed = [row.name for row in reader.shards()], reader.vhosts()
        reader.close()
        if not present:
            adopted = _records_of(data)
            placed = dict.fromkeys(_vhosts_of(adopted), FIRST_SHARD)
            catalogue.add_shard(ShardRow(FIRST_SHARD, ""), adopted)
            present = [FIRST_SHARD]
        number = len(present)
        while len(present) < shards:
            number += 1
            if str(number) not in present:
                catalogue.add_shard(ShardRow(str(number), ""))
                present.append(str(number))
        _commit(catalogue, [_vhost(name) for name in vhosts if name not in placed])
    finally:
        catalogue.close()


def _records_of(data: Path) -> list[MetadataRecord]:
    """Return what a node owns of the records in the store of a broker; none without a store."""
    if not (data / STORE_FILE).exists():
        return []
    directory = DataDirectory(data)
    directory.hold()
    store = SqliteStore(data)
    try:
        store.open()
        return [record for record in store.metadata() if _is_of_node(record)]
    finally:
        store.close()
        directory.unlock()


def _is_of_node(record: MetadataRecord) -> bool:
    if record.kind == PARAMETER:
        return record.data is not None and unpack(record.data).text("component") == ""
    return record.kind in (*ACCESS_KINDS, VHOST)


def _vhosts_of(records: list[MetadataRecord]) -> list[str]:
    return [unpack(each.data).text("name") for each in records if each.kind == VHOST and each.data is not None]


def _vhost(name: str) -> MetadataRecord:
    return MetadataRecord(VHOST, name, pack({"name": name, "metadata": {}}))


def _commit(catalogue: Catalogue, records: list[MetadataRecord]) -> None:
    commit = StoreTransaction()
    commit.metadata = records
    catalogue.commit(commit)
