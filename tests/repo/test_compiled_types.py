"""Constants with a type: mypyc may read a module of an import circle before the module that defines its constants."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.source_trees import nodes_of

SOURCES = Path(__file__).resolve().parents[2] / "src" / "penstock"
IN_A_CIRCLE = ("management", "operations")
"""Packages whose modules read constants of each other in a circle."""
COMPILED = (
    *("access", "content", "flow", "core", "wire", "connections", "protocols", "persistence", "describe", "ranges"),
    *(*IN_A_CIRCLE, "driver"),
)
LITERALS = (ast.Constant, ast.BinOp, ast.UnaryOp)


def untyped(source: str) -> dict[str, int]:
    """Return the constants of a module whose type follows from a value that is no literal, with their lines."""
    return {
        node.target.id: node.lineno
        for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and ast.unparse(node.annotation) == "Final"
        and not isinstance(node.value, LITERALS)
    }


def read_elsewhere(source: str) -> set[tuple[str, str]]:
    """Return module and name of the constants that a module reads of others: imported, or as an attribute."""
    found: set[tuple[str, str]] = set()
    modules: set[str] = set()
    for node in nodes_of(source):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {(node.module.rpartition(".")[2], alias.name) for alias in node.names}
            modules |= {alias.name for alias in node.names}
    for node in nodes_of(source):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            found.add((node.value.id, node.attr))
    return found


def test_constants_that_other_modules_of_a_circle_read_have_a_type() -> None:
    paths = [path for package in IN_A_CIRCLE for path in sorted((SOURCES / package).glob("*.py"))]
    read: set[tuple[str, str]] = set()
    for path in paths:
        read |= read_elsewhere(path.read_text())
    missing = [
        f"{path.parent.name}/{path.name}:{line} {name}"
        for path in paths
        for name, line in untyped(path.read_text()).items()
        if (path.stem, name) in read
    ]
    assert missing == []


def test_constant_without_a_type_is_found() -> None:
    assert untyped("A: Final = Join(1)\nB: Final[Join] = Join(2)\nC: Final = 5\nD: Final = 4 * 1024\n") == {"A": 1}
    assert read_elsewhere("from penstock.operations import joins\njoins.A\n") == {
        ("operations", "joins"),
        ("joins", "A"),
    }


def objects_of_dataclasses(source: str) -> list[str]:
    """Return the fields of dataclasses that are an `object` with a default: the compiled class cannot be made."""
    return [
        f"{made.name}.{field.target.id}"
        for made in nodes_of(source)
        if isinstance(made, ast.ClassDef) and any("dataclass" in ast.unparse(each) for each in made.decorator_list)
        for field in made.body
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and ast.unparse(field.annotation) == "object"
        and field.value is not None
    ]


def test_compiled_dataclasses_have_no_field_of_any_object_with_a_default() -> None:
    assert objects_of_dataclasses("@dataclass\nclass A:\n    b: object = None\n    c: object\n    d: int = 1\n") == [
        "A.b"
    ]
    paths = [path for package in COMPILED for path in sorted((SOURCES / package).rglob("*.py"))]
    assert len(paths) > 300
    assert [fault for path in paths for fault in objects_of_dataclasses(path.read_text())] == []
