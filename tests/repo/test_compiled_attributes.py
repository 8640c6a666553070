"""Compiled, two faults of attributes would leak memory.

`__init__` frees no former value of an attribute that an open base class has set before: mypyc knows which attributes
the `__init__` of a base class sets, but not of one that permits interpreted subclasses. There it takes the second
assignment for the first. Constants need not be freed.

The garbage collector visits an attribute twice that a class declares although a class above it does. It then takes the
value for one that somebody outside refers to, and never frees the cycle that it is in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tests.repo.test_compiled_names import NOT_COMPILED, SOURCES
from tests.support.source_trees import nodes_of

OPEN = "allow_interpreted_subclasses"


def compiled_sources() -> list[str]:
    """Return the sources of the compiled packages."""
    paths = [path for path in SOURCES.rglob("*.py") if path.relative_to(SOURCES).parts[0] not in NOT_COMPILED]
    return [path.read_text() for path in paths]


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


def declared(node: ast.ClassDef) -> set[str]:
    """Return the attributes that a class declares with a type: in its body, or in its `__init__`."""
    inside = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    own = [each.target for function in inside for each in ast.walk(function) if isinstance(each, ast.AnnAssign)]
    attributes = {each.attr for each in own if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "self"}
    body = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
    return attributes | {each.id for each in body if isinstance(each, ast.Name)}


def declared_twice(sources: Iterable[str]) -> list[str]:
    """Return the attributes that a class declares although a class above it does."""
    classes = {node.name: node for source in sources for node in nodes_of(source) if isinstance(node, ast.ClassDef)}
    found = []
    for name, node in classes.items():
        above, seen = [ast.unparse(base) for base in node.bases], set()
        while above:
            base_name = above.pop()
            base = classes.get(base_name)
            if base is not None and base_name not in seen:
                seen.add(base_name)
                above += [ast.unparse(each) for each in base.bases]
                found += [f"{name}.{each}, also of {base_name}" for each in declared(node) & declared(base)]
    return sorted(found)


def test_no_value_of_an_open_base_class_is_replaced_in_init() -> None:
    assert leaks(compiled_sources()) == []


def test_attribute_is_declared_in_one_class_of_a_line() -> None:
    assert declared_twice(compiled_sources()) == []


def test_replaced_value_is_found() -> None:
    base = f"@mypyc_attr({OPEN}=True)\nclass A:\n  def __init__(self):\n    self.a = []\n    self.b: int = 0\n"
    middle = "class B(A):\n  pass\n"
    below = "class C(B):\n  def __init__(self):\n    self.a = [1]\n    self.b = 1\n    self.c = []\n"
    assert leaks([base, middle, below]) == ["C.a, also of A"]


def test_attribute_that_is_declared_again_is_found() -> None:
    top = "class A:\n  a: list[int]\n  b: int\n"
    middle = "class B(A):\n  def __init__(self):\n    self.a = []\n    self.c: int = 0\n"
    below = "class C(B):\n  b: int = 1\n  def __init__(self):\n    self.a: list[int] = []\n"
    assert declared_twice([top, middle, below]) == ["C.a, also of A", "C.b, also of A"]
