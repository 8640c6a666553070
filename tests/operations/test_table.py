"""The table of operations: each row is wired on each plane that it names, and names are unique."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

import penstock
from penstock.access.permission import TAGS
from penstock.management.operation import Operation
from penstock.operations.table import CONTROL, OPERATIONS
from penstock.server.http.app import TABLE
from tests.support.driven_connection import make_driver
from tests.support.source_trees import parsed

SOURCES = Path(penstock.__file__).parent
CLIENTS = ("client/", "cli/", "operations/command", "bench/", "testing/")
"""The other side of the wire has names of its own, and so have the rows of commands, which a command loads."""


def test_operation_has_a_name_or_a_path_and_no_two_have_the_same() -> None:
    names = Counter(row.name for row in OPERATIONS if row.name)
    places = Counter((path, route.method) for row in OPERATIONS for route in row.routes for path in route.paths)
    assert [each for each, count in (*names.items(), *places.items()) if count > 1] == []
    assert [row for row in OPERATIONS if not row.name and not row.routes] == []


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: row.name or " ".join(row.routes[0].paths))
def test_operation_is_wired_on_each_plane_that_it_names(row: Operation) -> None:
    if row.name:
        assert make_driver().control.operations[row.name] is row
    for route in row.routes:
        for path in route.paths:
            place = TABLE[path][route.method]
            assert place.handler.__doc__ == route.purpose
            assert place.need.tag == (row.tag if route.tag is None else route.tag)
            assert place.audited == (row.audited and route.method != "GET")


def test_operation_that_is_audited_over_http_is_no_look() -> None:
    assert [path for path, places in TABLE.items() if "GET" in places and places["GET"].audited] == []


def test_tags_of_rows_are_known_ones() -> None:
    tags = {row.tag for row in OPERATIONS} | {place.need.tag for row in TABLE.values() for place in row.values()}
    assert tags <= {"", *TAGS}


def literals(path: Path) -> set[str]:
    return {
        node.value
        for node in ast.walk(parsed(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_name_of_an_operation_is_in_at_most_two_source_files_of_the_broker() -> None:
    named: dict[str, list[str]] = {name: [] for name in CONTROL if "." in name}
    for path in SOURCES.rglob("*.py"):
        place = str(path.relative_to(SOURCES))
        if not place.startswith(CLIENTS):
            for name in literals(path) & named.keys():
                named[name].append(place)
    assert {name: places for name, places in named.items() if not 1 <= len(places) <= 2} == {}
