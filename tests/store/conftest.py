"""Folders and servers for stores."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.store import sqlite
from tests.support import postgres
from tests.support.postgres import Cluster


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return an empty folder that every user can reach: pytest's own are below one that is closed to others."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def server() -> Iterator[Cluster]:
    """Return the PostgreSQL server of all tests; a test may have stopped it."""
    with postgres.cluster() as server:
        yield server


@pytest.fixture
def cluster(server: Cluster) -> Cluster:
    """Return the same server; it runs, whatever the test before did."""
    if not server.is_running():
        server.start()
    return server


@pytest.fixture
def in_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the database have all data, however large: what is tested is its pages."""
    monkeypatch.setattr(sqlite, "PLACED_BYTES", 1 << 40)
