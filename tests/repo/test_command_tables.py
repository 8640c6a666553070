"""The tables of docs/cli.md have the commands that there are."""

from __future__ import annotations

from tests.support.command_tables import PAGE, with_tables


def test_tables_of_commands_are_those_of_the_command_line() -> None:
    again = "make them again: PYTHONPATH=src python -m tests.support.command_tables"
    assert PAGE.read_text() == with_tables(PAGE.read_text()), again
