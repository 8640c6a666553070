"""Data directory of a node: the folders of its shards, and the file that names them."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Final, NamedTuple

from penstock.errors import StoreError

CLUSTER: Final = "cluster"
"""Folder of the catalogue in the data directory of a node."""
CATALOGUE: Final = "catalogue.sqlite"
FIRST_SHARD: Final = "1"
"""Name of the shard whose data directory is that of the node."""
SHARDS: Final = "shards"
"""Folder with the data directories of the other shards."""


class ShardFolder(NamedTuple):
    """Data directory of a shard."""

    name: str
    path: Path


def folder_of(data: Path, name: str) -> Path:
    """Return the data directory of a shard: that of the node for the first shard, so that a broker becomes a node."""
    return data if name == FIRST_SHARD else data / SHARDS / name


def shard_folders(data: Path) -> list[ShardFolder]:
    """Return the data directories of a node's shards, in the order in which they were added.

    Empty for the data directory of one broker, which has no catalogue. Raises StoreError for shards without a
    catalogue, and for a catalogue that cannot be read.
    """
    path = data / CLUSTER / CATALOGUE
    if not path.exists():
        check_whole(data)
        return []
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            names = [name for (name,) in connection.execute("SELECT name FROM shards ORDER BY version")]
    except sqlite3.Error as error:
        raise StoreError(f"cannot read the catalogue '{path}': {error}") from None
    return [ShardFolder(name, folder_of(data, name)) for name in names]


def is_node(data: Path) -> bool:
    """Return whether a data directory has a catalogue. Raises StoreError for shards without one."""
    return bool(shard_folders(data))


def check_whole(data: Path) -> None:
    """Check that shards beside the first have a catalogue, which names their virtual hosts. Raises StoreError."""
    others = data / SHARDS
    if not (data / CLUSTER / CATALOGUE).exists() and others.is_dir():
        names = sorted(path.name for path in others.iterdir() if path.is_dir())
        if names:
            raise StoreError(
                f"data directory '{data}' has shards ({', '.join(names)}) and no catalogue "
                f"'{CLUSTER}/{CATALOGUE}': restore it from a backup of the directory"
            )


def check_alone(data: Path) -> None:
    """Check that a data directory is that of one broker: it has at most one shard. Raises StoreError."""
    names = [name for name, _ in shard_folders(data)]
    if len(names) > 1:
        raise StoreError(
            f"data directory '{data}' has {len(names)} shards ({', '.join(names)}), and one broker would serve the "
            f"virtual hosts of the first alone: start it with --shards {len(names)}"
        )
