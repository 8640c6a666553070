"""Limits of files and functions, so that each can be read at once; `test_responsibility.py` is about classes."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.source_trees import parsed

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "bench" / "output"
"""Results of measurements, with copies of what ran."""
LONGEST_FILE = 600
LONGEST_FUNCTION = {"src": 50}
LONGEST_ELSEWHERE = 60

# Functions above the limit, with the length that they may have. The list only shrinks.
LONG_FUNCTIONS = {
    "src/penstock/cli/messages.py publish": 60,  # the options of a command are its parameters
    "src/penstock/protocols/amqp091/frame_reader.py _publish": 55,  # the hot path of a publish
}


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from (path for path in sorted((ROOT / folder).rglob("*.py")) if OUTPUT not in path.parents)


@dataclass(frozen=True)
class Sizes:
    """What is measured of a file."""

    lines: int
    functions: tuple[tuple[str, int], ...]
    """Every function with its length in lines, docstring included."""


@cache
def sizes(path: Path) -> Sizes:
    """Measure a file; it is parsed once, for all tests."""
    text, place = path.read_text(), path.relative_to(ROOT)
    functions = []
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            functions.append((f"{place} {node.name}", node.end_lineno - node.lineno + 1))
    return Sizes(len(text.splitlines()), tuple(functions))


FILES = list(python_files("src", "scripts", "tests", "bench", "demo", "compat"))
SOURCES = list(python_files("src"))


def test_file_has_at_most_600_lines() -> None:
    lines = {str(path.relative_to(ROOT)): sizes(path).lines for path in FILES}
    assert {name: count for name, count in lines.items() if count > LONGEST_FILE} == {}


def test_function_is_no_longer_than_a_page() -> None:
    found = []
    for path in FILES:
        most = LONGEST_FUNCTION.get(path.relative_to(ROOT).parts[0], LONGEST_ELSEWHERE)
        found += [(name, lines) for name, lines in sizes(path).functions if lines > LONG_FUNCTIONS.get(name, most)]
    assert found == []


def test_exception_to_the_limits_names_what_exists() -> None:
    known = {name for path in SOURCES for name, _ in sizes(path).functions}
    assert sorted(LONG_FUNCTIONS.keys() - known) == []
