"""A name has one type in a function: compiled, an `except` clause that binds a name of another class fails."""

from __future__ import annotations

import ast
import builtins

from tests.support.source_trees import compiled_sources, nodes_of


def bound_twice(source: str) -> list[str]:
    """Return the names that `except` clauses of one function bind to different types, with their lines."""
    found = []
    for function in nodes_of(source):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            types: dict[str, str] = {}
            for each in ast.walk(function):
                if isinstance(each, ast.ExceptHandler) and each.name is not None and each.type is not None:
                    kind = ast.unparse(each.type)
                    if not isinstance(each.type, ast.Name) or hasattr(builtins, kind):
                        kind = "object"  # A tuple or a class of Python's: any object fits.
                    if types.setdefault(each.name, kind) != kind:
                        found.append(f"{each.name} in line {each.lineno}: {kind}, and {types[each.name]} before")
    return found


def test_except_clauses_of_a_function_give_a_name_one_type() -> None:
    assert {path: names for path, text in compiled_sources().items() if (names := bound_twice(text))} == {}


def test_second_type_is_found() -> None:
    source = "def f():\n  try: pass\n  except A as e: pass\n  except B as e: pass\n"
    assert bound_twice(source) == ["e in line 4: B, and A before"]
