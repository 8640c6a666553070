"""Compiled, `__init__` frees no former value of an attribute that an open base class has set before: it would leak.

mypyc knows which attributes the `__init__` of a base class sets, but not of one that permits interpreted subclasses.
There it takes the second assignment for the first. Constants need not be freed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tests.repo.test_compiled_names import NOT_COMPILED, SOURCES
from tests.support.source_trees import nodes_of

OPEN = "allow_interpreted_subclasses"


def set_in_init(node: ast.ClassDef) -> dict[str, ast.expr]:
    """Return the attributes of itself that `__init__` of a class sets, with the values."""
    found: dict[str, ast.expr] = {}
    for function in node.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            for each in ast.walk(function):
                if isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None:
                    for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
                        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                            found[target.attr] = each.value
    return found


def leaks(sources: Iterable[str]) -> list[str]:
    """Return the attributes that a class and an open class above it set both in `__init__`."""
    classes = {node.name: node for source in sources for node in nodes_of(source) if isinstance(node, ast.ClassDef)}
    found = []
    for name, node in classes.items():
        above = [ast.unparse(base) for base in node.bases]
        while above:
            base = classes.get(above.pop())
            if base is None:
                continue
            above += [ast.unparse(each) for each in base.bases]
            if any(OPEN in ast.unparse(each) for each in base.decorator_list):
                former = set_in_init(base)
                again = [each for each in set_in_init(node) if not isinstance(former.get(each), ast.Constant | None)]
                found += [f"{name}.{each}, also of {base.name}" for each in again]
    return found


def test_no_value_of_an_open_base_class_is_replaced_in_init() -> None:
    paths = [path for path in SOURCES.rglob("*.py") if path.relative_to(SOURCES).parts[0] not in NOT_COMPILED]
    assert leaks(path.read_text() for path in paths) == []


def test_replaced_value_is_found() -> None:
    base = f"@mypyc_attr({OPEN}=True)\nclass A:\n  def __init__(self):\n    self.a = []\n    self.b: int = 0\n"
    middle = "class B(A):\n  pass\n"
    below = "class C(B):\n  def __init__(self):\n    self.a = [1]\n    self.b = 1\n    self.c = []\n"
    assert leaks([base, middle, below]) == ["C.a, also of A"]
