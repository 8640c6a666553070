"""The table of pools: each pool has its row, and each row names its shares or the reason for none."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from penstock.flow.pool import Pools
from penstock.settings import pools
from penstock.settings.pools import BOUNDS, POOLS, SHARED, PoolRow

SRC = Path(__file__).resolve().parents[2] / "src" / "penstock"


def calls_of(name: str) -> set[str]:
    """Return the modules that call something by this name."""
    return {
        str(path.relative_to(SRC))
        for path in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    }


def test_pools_are_made_of_rows_of_the_table_alone() -> None:
    assert calls_of("Pool") == {"flow/pool.py"}
    assert calls_of("PoolRow") == {"settings/pools.py"}
    rows = [value for value in vars(pools).values() if isinstance(value, PoolRow)]
    assert sorted(row.key for row in rows) == sorted(row.key for row in POOLS)
    assert [pool.row for pool in Pools().every()] == list(POOLS)


@pytest.mark.parametrize("row", POOLS, ids=lambda row: row.key)
def test_pool_is_used_by_the_code(row: PoolRow) -> None:
    constant = next(name for name, value in vars(pools).items() if value is row)
    users = [path for path in SRC.rglob("*.py") if path.name != "pools.py" and f"of({constant})" in path.read_text()]
    assert users, constant


def test_rows_name_their_shares_or_the_reason_for_none() -> None:
    assert [row.name for row in POOLS if not row.is_shared() or not row.key or not row.unit] == []
    assert [row.name for row in BOUNDS if row.is_shared() or row.key or len(row.shared) < 4] == []
    assert len({row.key for row in POOLS}) == len(POOLS)
    assert len({row.name for row in (*POOLS, *BOUNDS)}) == len(POOLS) + len(BOUNDS)
    assert set(SHARED) >= {row.shared for row in POOLS}


BROKER = ("access", "content", "core", "describe", "driver", "flow", "management", "operations", "persistence")
BROKER_TOO = ("cluster", "connections", "protocols", "ranges", "server", "settings", "store", "wire")
NAMES = ("_MAX", "_MOST")
"""Ends of the names of constants that are bounds."""


def constants() -> list[str]:
    """Return the constants of the broker that are bounds, as MODULE.NAME."""
    return [
        ".".join((*path.relative_to(SRC).with_suffix("").parts, node.target.id))
        for package in (*BROKER, *BROKER_TOO)
        for path in (SRC / package).rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id.endswith(NAMES)
        and not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str))
    ]


def test_bound_constants_are_in_a_row_or_listed_as_local() -> None:
    """A bound of the node that users fill is a row of `penstock.settings.pools`; tests/bounds.toml lists all others."""
    listed = tomllib.loads((Path(__file__).parents[1] / "bounds.toml").read_text())
    others = [name for group in listed.values() for name in group["bounds"]]
    rows = [name for row in (*POOLS, *BOUNDS) for name in row.constants]
    known = Counter([*others, *rows])
    assert [name for name, count in known.items() if count > 1] == []
    assert sorted(set(constants()) - set(known)) == []
    assert sorted(set(known) - set(constants())) == []
