"""The tables of docs/security.md say what the broker does."""

from __future__ import annotations

from tests.support.access_tables import PAGE, with_tables


def test_tables_of_operations_are_those_of_the_code() -> None:
    again = "make them again: PYTHONPATH=src python -m tests.support.access_tables"
    assert PAGE.read_text() == with_tables(PAGE.read_text()), again
