"""PostgreSQL servers for tests; see bench/postgres.py."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from bench import postgres
from bench.postgres import NOT_INSTALLED, PROGRAMS, Cluster

__all__ = ["PROGRAMS", "Cluster", "cluster", "mount", "needs_postgres", "small_disk"]

needs_postgres = pytest.mark.skipif(PROGRAMS is None, reason=NOT_INSTALLED)


def cluster() -> AbstractContextManager[Cluster]:
    """Run a server, in memory if there is room: what is killed and never loses power needs no real disk."""
    return postgres.cluster(postgres.memory())


@contextmanager
def small_disk(server: Cluster) -> Iterator[Path]:
    """Mount a file system of 8 MiB in memory that the server may write; skip the test if this user may not."""
    folder = server.folder / "small"
    folder.mkdir(exist_ok=True)
    owner = folder.parent.stat()
    if not mount(folder, f"size=8m,uid={owner.st_uid},gid={owner.st_gid},mode=700"):
        pytest.skip("this user may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def mount(folder: Path, options: str) -> bool:
    """Mount a file system in memory; tells whether this user may."""
    words = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0
