"""Stores of a node: backup, check and repair of the catalogue and of the data directory of each shard.

A backup is a data directory of a node. Each shard's copy is a consistent snapshot of its own moment, and the catalogue
is copied last: it names every virtual host that a copy of a shard has, unless it was deleted meanwhile. A copy of
several shards that was cut off has no catalogue, and no broker starts with it.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from penstock.cluster.catalogue import LOST, CatalogueReader, translated
from penstock.errors import StoreError
from penstock.server.store_open import CheckReport, RepairReport, check_directory, repair_directory
from penstock.store import backup
from penstock.store.commit_counter import COUNTER_FILE
from penstock.store.data_file import DATA_FILE
from penstock.store.directory import DataDirectory, synchronise
from penstock.store.faults import refused
from penstock.store.node_folder import CATALOGUE, CLUSTER, SHARDS, ShardFolder, folder_of, shard_folders
from penstock.store.records import Damage
from penstock.store.sqlite import FILE

Progress = Callable[[str, int, int], None]
"""Function that gets the name of a shard, the pages left and their total."""
NO_STORE: Final = "its data directory '{}' has no store"
STAGED: Final = "first.part"
"""Folder of the first shard's copy until the others are complete: then its files are those of the node."""


class ShardCheck(NamedTuple):
    """Result of the check of one shard."""

    folder: ShardFolder
    found: CheckReport


class ShardRepair(NamedTuple):
    """Result of the repair of one shard; None without a store to read."""

    folder: ShardFolder
    done: RepairReport | None


def backup_node(data: Path, target: Path, progress: Progress) -> dict[str, int]:
    """Copy the stores of a node, which may run, into a folder that is new or empty; return the bytes of each shard.

    Raises StoreError, after removing the partial copy.
    """
    folders = shard_folders(data)
    for name, path in folders:
        if not (path / FILE).exists():
            raise StoreError(f"cannot back up shard '{name}': {NO_STORE.format(path)}")
    _check_empty(target, "back up to")
    copied: dict[str, int] = {}
    try:
        for name, path in folders:
            copied[name] = backup.copy(path / FILE, _part_of(target, name), partial(progress, name))
        _complete(data, target)
    except BaseException:
        _remove(target)
        raise
    return copied


def check_node(data: Path) -> tuple[list[ShardCheck], list[Damage]]:
    """Read all stores of a node that is stopped; return the report of each shard, and damage of the catalogue.

    Raises StoreError, also for a catalogue that cannot be read, and StartError if the node runs.
    """
    with _held(data):
        damaged = _unplaced(data)
        checks = []
        for folder in shard_folders(data):
            if (folder.path / FILE).exists():
                found = check_directory(folder.path)
            else:
                found = CheckReport([Damage(f"shard '{folder.name}'", NO_STORE.format(folder.path))], [])
            checks.append(ShardCheck(folder, found))
    return checks, damaged


def repair_node(source: Path, target: Path) -> list[ShardRepair]:
    """Copy the catalogue and all readable records of each shard into a folder that is new or empty.

    Raises StoreError, also for a catalogue that cannot be read, and StartError if the node runs.
    """
    with _held(source):
        _unplaced(source)
        _check_empty(target, f"save '{source}' to")
        repairs = []
        try:
            for folder in shard_folders(source):
                there = (folder.path / FILE).exists()
                done = repair_directory(folder.path, _part_of(target, folder.name)) if there else None
                repairs.append(ShardRepair(folder, done))
            _complete(source, target)
        except BaseException:
            _remove(target)
            raise
    return repairs


@contextlib.contextmanager
def _held(data: Path) -> Iterator[None]:
    """Lock the catalogue of a node. Raises StartError if the node runs."""
    directory = DataDirectory(data / CLUSTER)
    directory.hold()
    try:
        yield
    finally:
        directory.unlock()


def _unplaced(data: Path) -> list[Damage]:
    """Return the virtual hosts whose shard is none of the node's. Raises StoreError for a damaged catalogue."""
    reader = CatalogueReader(data / CLUSTER)
    try:
        shards = {row.name for row in reader.shards()}
        return [
            Damage(f"vhost '{vhost}' of the catalogue", f"it is in shard '{shard}', and there is none; {LOST}")
            for vhost, shard in sorted(reader.vhosts().items())
            if shard not in shards
        ]
    finally:
        reader.close()


def _part_of(target: Path, name: str) -> Path:
    """Return the folder for a shard's copy, whose parent exists. Raises StoreError."""
    folder = folder_of(target, name)
    part = target / STAGED if folder == target else folder
    with _writing(target):
        part.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return part


def _complete(data: Path, target: Path) -> None:
    """Move the first shard's files to their place, then copy the catalogue. Raises StoreError."""
    staged = target / STAGED
    with _writing(target):
        if staged.exists():
            for path in staged.iterdir():
                path.rename(target / path.name)
            staged.rmdir()
    _copy_catalogue(data, target)


@contextlib.contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Raise errors of the operating system as StoreError."""
    try:
        yield
    except OSError as error:
        raise refused(error, target, "write", "the copy") from None


def _check_empty(target: Path, doing: str) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StoreError(f"cannot {doing} '{target}': that folder is not empty")


def _copy_catalogue(data: Path, target: Path) -> None:
    """Copy the catalogue as it is at this moment. Raises StoreError."""
    source, folder = data / CLUSTER / CATALOGUE, target / CLUSTER
    part = folder / f"{CATALOGUE}.part"
    with translated(folder / CATALOGUE, "write"):
        folder.mkdir(mode=0o700)
        part.touch(mode=0o600)
        with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as writer:
            reader = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)
            with contextlib.closing(reader):
                reader.backup(writer)
        synchronise(part)
        part.rename(folder / CATALOGUE)
        synchronise(folder)
        synchronise(target)


def _remove(target: Path) -> None:
    """Remove a partial copy from a folder that was empty before it."""
    for name in (SHARDS, CLUSTER, STAGED):
        shutil.rmtree(target / name, ignore_errors=True)
    for name in (FILE, DATA_FILE, COUNTER_FILE):
        with contextlib.suppress(OSError):
            (target / name).unlink(missing_ok=True)
