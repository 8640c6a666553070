"""PostgreSQL servers for tests; see bench/postgres.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from bench import postgres
from bench.postgres import NOT_INSTALLED, PROGRAMS, Cluster
from penstock.errors import StoreError
from penstock.store.postgres import postgres_store
from tests.support import faults

__all__ = ["PROGRAMS", "Cluster", "cluster", "needs_postgres", "small_disk"]

needs_postgres = pytest.mark.skipif(PROGRAMS is None, reason=NOT_INSTALLED)


def cluster() -> AbstractContextManager[Cluster]:
    """Run a server, in memory if there is room: what is killed and never loses power needs no real disk."""
    return postgres.cluster(postgres.memory())


@contextmanager
def small_disk(server: Cluster) -> Iterator[Path]:
    """Mount a file system of 8 MiB in memory that the server may write; skips the test where this process may not."""
    owner = server.folder.stat()
    with faults.small_disk(server.folder / "small", f"8m,uid={owner.st_uid},gid={owner.st_gid},mode=700") as folder:
        yield folder


def refusal(url: str) -> str:
    with pytest.raises(StoreError) as raised:
        postgres_store(url).open()
    assert "secret" not in str(raised.value)
    return str(raised.value)
