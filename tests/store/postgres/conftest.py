"""Places for stores of PostgreSQL."""

import pytest

from tests.support.postgres import Cluster
from tests.support.store_engines import PostgresEngine


@pytest.fixture
def engine(cluster: Cluster) -> PostgresEngine:
    """Return an empty place in the server of all tests."""
    return PostgresEngine(cluster)
