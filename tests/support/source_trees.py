"""Sources as trees of syntax, parsed once for all tests of a process."""

import ast
import gc
from functools import cache


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
