"""Folders and servers for stores."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

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
def cluster() -> Iterator[Cluster]:
    """Return a PostgreSQL server that all tests share: it runs all the time."""
    with postgres.cluster() as server:
        yield server


@pytest.fixture(scope="session")
def mortal() -> Iterator[Cluster]:
    """Return a server that tests may stop and break; whoever needs it running starts it."""
    with postgres.cluster() as server:
        yield server
