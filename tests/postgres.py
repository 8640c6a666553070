"""A PostgreSQL server for tests; see bench/postgres.py."""

from __future__ import annotations

import pytest

from bench.postgres import NOT_INSTALLED, PROGRAMS, Cluster, cluster

__all__ = ["PROGRAMS", "Cluster", "cluster", "needs_postgres"]

needs_postgres = pytest.mark.skipif(PROGRAMS is None, reason=NOT_INSTALLED)
