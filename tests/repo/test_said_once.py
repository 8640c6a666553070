"""Said once: the name of a setting or of an operation stands in at most two source files, its table's included.

So a change of one is a change of its row and of what it does. Names that are ordinary words as well are not looked at,
nor are the conversions of other brokers' configurations, which translate into our names. What is in more files today is
listed in `tests/repo/said_once.toml`, and the list only shrinks.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

from penstock.operations.table import CONTROL
from penstock.settings.start import NAMES
from penstock.settings.table import SETTINGS
from tests.support.source_trees import nodes_of

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "penstock"
LISTED = ROOT / "tests" / "repo" / "said_once.toml"
TRANSLATORS = SOURCES / "cli" / "conversions"
MOST = 2
"""Most source files in which a name stands."""


def names() -> set[str]:
    """The names of settings and operations that are no ordinary words."""
    every = {*(setting.name for setting in SETTINGS), *NAMES, *CONTROL}
    return {name for name in every if "-" in name or "." in name}


def texts_of(source: str) -> set[str]:
    """The string literals of a module."""
    return {node.value for node in nodes_of(source) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@cache
def repeated() -> dict[str, int]:
    """The number of source files of each name that stands in too many."""
    found: Counter[str] = Counter()
    for path in SOURCES.rglob("*.py"):
        if TRANSLATORS not in path.parents:
            found.update(texts_of(path.read_text()) & names())
    return {name: count for name, count in found.items() if count > MOST}


def listed() -> dict[str, int]:
    """The names that are known to stand in more files, with the number of these."""
    found: dict[str, int] = tomllib.loads(LISTED.read_text())
    return found


def test_literal_is_found() -> None:
    assert texts_of("limits['capacity-bytes'] = f(b='x')") == {"capacity-bytes", "x"}


def test_name_of_a_setting_or_operation_is_in_two_source_files_or_listed() -> None:
    known = listed()
    assert {name: count for name, count in repeated().items() if count != known.get(name)} == {}


def test_list_of_repeated_names_has_no_stale_entry() -> None:
    assert sorted(listed().keys() - repeated().keys()) == []
