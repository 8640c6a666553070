"""Sources as trees of syntax, parsed once for all tests of a process."""

import ast
import gc
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def parsed(text: str) -> ast.Module:
    """Return the tree of a source that is looked at once; it has no circles, so no garbage is looked for meanwhile."""
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()


@cache
def tree_of(text: str) -> ast.Module:
    """Return the tree of a source, which stays: the garbage collector is kept from looking at it again and again."""
    tree = parsed(text)
    gc.freeze()
    return tree


@cache
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a source's tree, in the order of `ast.walk`."""
    return tuple(ast.walk(tree_of(text)))


def public_methods(node: ast.ClassDef) -> set[str]:
    """The names of a class's own methods that do not begin with an underscore."""
    functions = [item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {item.name for item in functions if not item.name.startswith("_")}


def pure_packages() -> list[str]:
    """Return the packages that `setup.py` compiles, as paths from the sources."""
    (chosen,) = [
        each.value
        for each in nodes_of((ROOT / "setup.py").read_text())
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "PURE_PACKAGES"
    ]
    return [str(each.value) for each in ast.walk(chosen) if isinstance(each, ast.Constant)]


def compiled_sources() -> dict[str, str]:
    """Return the sources of these packages by their paths."""
    folder = ROOT / "src" / "penstock"
    paths = [path for name in pure_packages() for path in sorted((folder / name).rglob("*.py"))]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}
