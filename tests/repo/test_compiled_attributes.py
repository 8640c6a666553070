"""Compiled, two faults of attributes would leak memory.

`__init__` frees no former value of an attribute that an open base class has set before: mypyc knows which attributes
the `__init__` of a base class sets, but not of one that permits interpreted subclasses. There it takes the second
assignment for the first. Constants need not be freed.

The garbage collector visits an attribute twice that a class declares although a class above it does. It then takes the
value for one that somebody outside refers to, and never frees the cycle that it is in. A value in the body of the class
declares the attribute too; text and numbers are in no cycle.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.support.source_trees import compiled_sources, nodes_of

OPEN = "allow_interpreted_subclasses"
IN_NO_CYCLE = {"bool", "bytes", "float", "int", "str"}


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


def lines(sources: Iterable[str]) -> Iterator[tuple[ast.ClassDef, ast.ClassDef]]:
    """Yield each class with each class above it; a name stands for all classes that have it."""
    classes = [node for source in sources for node in nodes_of(source) if isinstance(node, ast.ClassDef)]
    for node in classes:
        names, seen = [ast.unparse(base) for base in node.bases], {node}
        while names:
            name = names.pop()
            for base in {each for each in classes if each.name == name} - seen:
                seen.add(base)
                names += [ast.unparse(each) for each in base.bases]
                yield node, base


def leaks(sources: Iterable[str]) -> list[str]:
    """Return the attributes that a class and an open class above it set both in `__init__`."""
    found = []
    for node, base in lines(sources):
        if any(OPEN in ast.unparse(each) for each in base.decorator_list):
            former = set_in_init(base)
            again = [each for each in set_in_init(node) if not isinstance(former.get(each), ast.Constant | None)]
            found += [f"{node.name}.{each}, also of {base.name}" for each in again]
    return found


def declared(node: ast.ClassDef) -> dict[str, str]:
    """Return the types of the attributes that a class declares with one: in its body, or in its methods."""
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    inside = [each for method in methods for each in ast.walk(method) if isinstance(each, ast.AnnAssign)]
    own = {ast.unparse(each.target): ast.unparse(each.annotation) for each in inside}
    body = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    return {name.removeprefix("self."): kind for name, kind in own.items() if name.startswith("self.")} | {
        ast.unparse(each.target): ast.unparse(each.annotation) for each in body
    }


def set_in_body(node: ast.ClassDef) -> set[str]:
    """Return the attributes to which the body of a class gives values without a type."""
    body = [each.targets for each in node.body if isinstance(each, ast.Assign)]
    return {ast.unparse(each) for targets in body for each in targets}


def declared_twice(sources: Iterable[str]) -> list[str]:
    """Return the attributes that a class declares although a class above it does."""
    found = []
    for node, base in lines(sources):
        typed, untyped = declared(node), set_in_body(node)
        for each, kind in declared(base).items():
            if each in typed or (each in untyped and kind not in IN_NO_CYCLE):
                found.append(f"{node.name}.{each}, also of {base.name}")
    return sorted(found)


def test_attribute_of_an_open_base_class_is_not_replaced_in_init() -> None:
    assert leaks(compiled_sources().values()) == []


def test_attribute_is_declared_in_one_class_of_a_line() -> None:
    assert declared_twice(compiled_sources().values()) == []


def test_replaced_value_is_found() -> None:
    base = f"@mypyc_attr({OPEN}=True)\nclass A:\n  def __init__(self):\n    self.a = []\n    self.b: int = 0\n"
    middle = "class B(A):\n  pass\n"
    below = "class C(B):\n  def __init__(self):\n    self.a = [1]\n    self.b = 1\n    self.c = []\n"
    assert leaks([base, middle, below]) == ["C.a, also of A"]


def test_attribute_that_is_declared_again_is_found() -> None:
    top = "class A:\n  a: list[int]\n  b: int\n"
    middle = "class B(A):\n  b = 1\n  def __init__(self):\n    self.a = []\n    self.c: int = 0\n"
    below = "class C(B):\n  b: int = 1\n  def fill(self):\n    self.a: list[int] = []\n    c: int = 0\n"
    beside = "class D(A):\n  a = [1]\n"
    assert declared_twice([top, middle, below, beside]) == ["C.a, also of A", "C.b, also of A", "D.a, also of A"]
