"""Sources as trees of syntax, parsed once for all tests of a process."""

import ast
from functools import cache


@cache
def tree_of(text: str) -> ast.Module:
    """Return the tree of a source."""
    return ast.parse(text)


@cache
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a source's tree, in the order of `ast.walk`."""
    return tuple(ast.walk(tree_of(text)))
