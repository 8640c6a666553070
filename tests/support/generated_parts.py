"""Tests and cells of tables for the pages whose tables are made of tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def documented_tests(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the tests of a file in its order, with their docstrings on one line."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name, " ".join((ast.get_docstring(node) or "").split())


def escaped(text: str) -> str:
    """Return a plain text for a cell of a table; spans of code stay as they are."""
    parts = text.split("`")
    for at in range(0, len(parts), 2):
        for letter, shown in (("_", "\\_"), ("*", "\\*"), ("<", "&lt;"), (">", "&gt;"), ("|", "\\|")):
            parts[at] = parts[at].replace(letter, shown)
    return "`".join(parts)


def table(*rows: tuple[str, ...]) -> str:
    """Return a table of Markdown; the first row is its head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines).replace("|  |", "| |") + "\n"
