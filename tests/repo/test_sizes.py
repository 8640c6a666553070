"""Limits of files, classes and functions, so that each can be read at once."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.source_trees import parsed, public_methods

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "bench" / "output"
"""Results of measurements, with copies of what ran."""
LONGEST_FILE = 600
LONGEST_FUNCTION = {"src": 50}
LONGEST_ELSEWHERE = 60
MOST_METHODS = 25
MOST_ATTRIBUTES = 25

# Functions above the limit, with the length that they may have. The list only shrinks.
LONG_FUNCTIONS = {
    "src/penstock/cli/messages.py publish": 60,  # the options of a command are its parameters
    "src/penstock/protocols/amqp091/frame_reader.py _frames": 55,  # the hot path of input: one loop, no calls
    "src/penstock/protocols/amqp091/frame_reader.py _publish": 55,  # the hot path of a publish
}
# Classes above the limits: public methods, attributes. The list only shrinks.
LARGE_CLASSES = {
    "src/penstock/client/engine/connection.py Engine": (37, 26),  # what two protocols fill in, and what two shells call
    "src/penstock/client/engine/publisher.py PublisherCore": (33, 25),  # likewise, and each call that may wait
    "src/penstock/client/engine/receiver.py ReceiverCore": (27, 25),  # likewise
    "src/penstock/core/publish/producer.py Producer": (25, 26),  # what the hot path reads is in one object
    "src/penstock/settings/start.py Start": (25, 45),  # one attribute for each start-up setting
    "src/penstock/core/broker.py Broker": (32, 25),  # one method for each effect that the core emits
    "src/penstock/core/queue/queue_settings.py Settings": (25, 30),  # one attribute for each setting of a queue
    "src/penstock/core/queue/queue.py Queue": (48, 49),  # the owner of a queue's counters, gates and fast path
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
    classes: tuple[tuple[str, int, int], ...]
    """Every class with the numbers of its public methods and attributes."""


def attributes(node: ast.ClassDef) -> set[str]:
    """The names that a class declares, or that its methods assign to `self`."""
    found = {
        item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    for item in ast.walk(node):
        if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store):
            if isinstance(item.value, ast.Name) and item.value.id == "self":
                found.add(item.attr)
    return found


@cache
def sizes(path: Path) -> Sizes:
    """Measure a file; it is parsed once, for all tests."""
    text, place = path.read_text(), path.relative_to(ROOT)
    functions, classes = [], []
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            functions.append((f"{place} {node.name}", node.end_lineno - node.lineno + 1))
        elif isinstance(node, ast.ClassDef):
            classes.append((f"{place} {node.name}", len(public_methods(node)), len(attributes(node))))
    return Sizes(len(text.splitlines()), tuple(functions), tuple(classes))


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


def test_class_has_at_most_25_public_methods_and_25_attributes() -> None:
    large = []
    for name, methods, fields in (each for path in SOURCES for each in sizes(path).classes):
        most_methods, most_fields = LARGE_CLASSES.get(name, (MOST_METHODS, MOST_ATTRIBUTES))
        if methods > most_methods or fields > most_fields:
            large.append((name, methods, fields))
    assert large == []


def test_exception_to_the_limits_names_what_exists() -> None:
    known = {name for path in SOURCES for name, _ in sizes(path).functions}
    known |= {name for path in SOURCES for name, _, _ in sizes(path).classes}
    assert sorted({*LONG_FUNCTIONS, *LARGE_CLASSES} - known) == []
