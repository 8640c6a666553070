"""Classes stay small enough to have one job: at most 25 public methods and 25 attributes."""

import ast
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src"
MOST = 25
EXCEPTIONS = {
    "Broker": "the interface of the core for protocols, management and recovery",
    "BrokerDriver": "the parts of the driver, made in one place",
    "Channel": "state of a channel on the hot path, where another object costs a load for each message",
    "Connection": "the interface of a connection for the event loop, the handshake and its channels",
    "Queue": "counts and limits on the hot path, where another object costs a load for each message",
    "Settings": "one attribute for each start-up setting",
}
"""Classes with more, and the reason."""


def attributes(node: ast.ClassDef) -> int:
    """Return the number of attributes that the methods of a class assign to `self`, or that its body annotates."""
    found = {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and ast.unparse(each.value) == "self":
            found.add(each.attr)
    return len(found)


def public_methods(node: ast.ClassDef) -> int:
    """Return the number of methods without an underscore."""
    return sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name[0] != "_" for each in node.body)


def large_classes() -> dict[str, str]:
    """Return the classes with more methods or attributes than they may have, and how many."""
    return {
        node.name: f"{path.relative_to(SOURCES)}: {public_methods(node)} methods, {attributes(node)} attributes"
        for path in sorted(SOURCES.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and max(public_methods(node), attributes(node)) > MOST
    }


def test_a_class_has_at_most_25_public_methods_and_25_attributes_or_is_a_named_exception() -> None:
    assert {name: where for name, where in large_classes().items() if name not in EXCEPTIONS} == {}


def test_every_named_exception_is_still_one() -> None:
    assert EXCEPTIONS.keys() == large_classes().keys()
