"""Responsibility: state has one owner, and a class has few duties.

An attribute is assigned in the file of its class only, so that whoever reads the class has seen all that happens to it.
A class has at most 15 public methods and 15 attributes: more are a sign of two duties. What is above either limit today
is listed in `tests/repo/responsibility.toml`, and the list only shrinks.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.source_trees import nodes_of, parsed, public_methods

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "penstock"
LISTED = ROOT / "tests" / "repo" / "responsibility.toml"
MOST = 15
"""Most public methods of a class, and most attributes."""


def assigned(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that are assigned below a node, deletions left out."""
    return (item for item in ast.walk(node) if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store))


def is_own(attribute: ast.Attribute) -> bool:
    """Tell whether an attribute is one of `self` or of the class."""
    return isinstance(attribute.value, ast.Name) and attribute.value.id in ("self", "cls")


def attributes(node: ast.ClassDef) -> set[str]:
    """The names that a class declares, or that its methods assign to `self`."""
    declared = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
    found = {target.id for target in declared if isinstance(target, ast.Name)}
    return found | {item.attr for item in assigned(node) if is_own(item)}


@cache
def files() -> dict[str, str]:
    """The texts of all modules, by their paths below the package."""
    return {str(path.relative_to(SOURCES)): path.read_text() for path in sorted(SOURCES.rglob("*.py"))}


def classes(text: str) -> list[ast.ClassDef]:
    """The classes of a module."""
    return [node for node in nodes_of(text) if isinstance(node, ast.ClassDef)]


def large_classes(texts: dict[str, str]) -> dict[str, list[int]]:
    """The numbers of public methods and of attributes of each class that has too many of either."""
    found = {}
    for path, text in texts.items():
        for node in classes(text):
            counts = [len(public_methods(node)), len(attributes(node))]
            if max(counts) > MOST:
                found[f"{path} {node.name}"] = counts
    return found


def foreign_writes(texts: dict[str, str]) -> dict[str, int]:
    """The number of assignments in each module to attributes that only classes of other modules have."""
    owners: dict[str, set[str]] = defaultdict(set)
    for path, text in texts.items():
        for node in classes(text):
            for name in attributes(node):
                owners[name].add(path)
    found: Counter[str] = Counter()
    for path, text in texts.items():
        for item in assigned(parsed(text)):
            if not is_own(item) and owners[item.attr] and path not in owners[item.attr]:
                found[path] += 1
    return dict(found)


@cache
def large() -> dict[str, list[int]]:
    """The large classes of the package."""
    return large_classes(files())


@cache
def foreign() -> dict[str, int]:
    """The foreign writes of its modules."""
    return foreign_writes(files())


def listed(kind: str) -> dict[str, object]:
    """What is above a limit and known."""
    found: dict[str, object] = tomllib.loads(LISTED.read_text())[kind]
    return found


OWNER = "class Door:\n    def __init__(self):\n        self.is_open = False\n"


def test_foreign_write_is_found() -> None:
    texts = {"door.py": OWNER, "key.py": "def turn(door):\n    door.is_open = True\n"}
    assert foreign_writes(texts) == {"key.py": 1}


def test_write_in_the_file_of_the_class_is_no_foreign_one() -> None:
    assert foreign_writes({"door.py": OWNER + "def turn(door):\n    door.is_open = True\n"}) == {}


def test_large_class_is_found() -> None:
    methods = "".join(f"    def m{number}(self): ...\n" for number in range(MOST + 1))
    assert large_classes({"a.py": f"class Large:\n{methods}"}) == {"a.py Large": [MOST + 1, 0]}


def test_class_has_at_most_15_public_methods_and_15_attributes_or_is_listed() -> None:
    known = listed("large classes")
    assert {name: counts for name, counts in large().items() if counts != known.get(name)} == {}


def test_attribute_is_assigned_in_the_file_of_its_class_or_its_writer_is_listed() -> None:
    known = listed("writes of others")
    assert {path: count for path, count in foreign().items() if count != known.get(path)} == {}


def test_list_names_only_what_is_above_a_limit() -> None:
    assert sorted(listed("large classes").keys() - large().keys()) == []
    assert sorted(listed("writes of others").keys() - foreign().keys()) == []
