"""Circles of imports, typing imports included: none over a package's border.

A circle is a strongly connected component: modules that all need each other. The layers in `pyproject.toml` forbid most
of them; this test also looks into packages.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.support.source_trees import nodes_of

SOURCES = Path(__file__).resolve().parents[2] / "src"

ACCEPTED = {
    "penstock.core.queue": "a queue and its parts",
    "penstock.core.consume": "a consumer, its session and the lists in which it waits",
    "penstock.core.publish": "a producer, what it holds, and the units of work that it takes part in",
    "penstock.client.engine": "a connection, its publishers and receivers",
    "penstock.management": "the node that requests ask, and the requests",
    "penstock.protocols.amqp091": "the engine, its channels and their methods",
    "penstock.protocols.amqp10": "the engine, its sessions and their links",
    "penstock.connections": "a connection, its parts, and the engine that a protocol fills in",
    "penstock.server": "the event loop, and the transports and the writer that it drives",
}
"""Packages that have one circle, with its members. The list only shrinks."""


def module_name(path: Path) -> str:
    """Return the dotted name of a source file."""
    parts = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports() -> dict[str, set[str]]:
    """Return what each module imports, for typing or at run time."""
    sources = {module_name(path): path for path in SOURCES.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for name, path in sources.items():
        targets: set[str] = set()
        for node in nodes_of(path.read_text()):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    targets.add(full if full in sources else node.module)
            elif isinstance(node, ast.Import):
                targets.update(alias.name for alias in node.names)
        found[name] = {target for target in targets if target in sources and target != name}
    return found


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components with more than one module."""

    def reached(start: str, edges: dict[str, set[str]]) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for target in edges[todo.pop()] - seen:
                seen.add(target)
                todo.append(target)
        return seen

    backwards: dict[str, set[str]] = {name: set() for name in graph}
    for name, targets in graph.items():
        for target in targets:
            backwards[target].add(name)
    found: list[set[str]] = []
    placed: set[str] = set()
    for name in sorted(graph):
        if name not in placed:
            circle = reached(name, graph) & reached(name, backwards)
            placed |= circle
            if circle:
                found.append(circle)
    return found


def package_of(module: str) -> str:
    """Return the package of a module; the overflow policies are a part of the queue's."""
    return module.rpartition(".")[0].removesuffix(".overflow")


def test_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


def test_circles_of_imports_stay_within_a_package() -> None:
    found = [
        {package_of(f"{module}.x" if module.endswith(".overflow") else module) for module in circle}
        for circle in circles(imports())
    ]
    assert [sorted(packages) for packages in found if len(packages) > 1] == []


def test_package_has_at_most_one_circle_of_imports_and_most_have_none() -> None:
    found = [package_of(min(circle)) for circle in circles(imports())]
    assert sorted(found) == sorted(ACCEPTED)


def test_circle_of_imports_has_at_most_ten_modules() -> None:
    assert {min(circle): len(circle) for circle in circles(imports()) if len(circle) > 10} == {}
