"""An interpreted class may inherit from a compiled one that is open for it; mypyc refuses all others at run time.

The interpreted form does not refuse, so a double of a test, or a class of the server, would fail in the compiled form
alone. Traits are never open. A file of tests may skip the compiled form as a whole.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.source_trees import ROOT, compiled_sources, nodes_of

OPEN = "allow_interpreted_subclasses"
SKIPPED = "skipif(penstock.compiled()"
INTERPRETED = ("src/penstock", "tests", "bench", "demo")


def module_of(path: str) -> str:
    """Return the name of a module of Penstock by its path."""
    return "penstock." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def closed_classes(sources: Mapping[str, str]) -> dict[tuple[str, str], ast.ClassDef]:
    """Return the classes from which no interpreted class may inherit, by module and name."""
    found = {}
    for path, source in sources.items():
        for node in nodes_of(source):
            if isinstance(node, ast.ClassDef):
                decorators = [ast.unparse(each) for each in node.decorator_list]
                if "trait" in decorators or not any(OPEN in each or "dataclass" in each for each in decorators):
                    found[module_of(path), node.name] = node
    return found


def bases_from_elsewhere(source: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each class with each base that its file imports, as module and name."""
    imported = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in nodes_of(source)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in nodes_of(source):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
                if name in imported:
                    yield node.name, imported[name]


def refused(compiled: Mapping[str, str], interpreted: Mapping[str, str]) -> list[str]:
    """Return the interpreted classes that mypyc would refuse."""
    closed = closed_classes(compiled)
    return [
        f"{path}: {name}({base[1]})"
        for path, source in interpreted.items()
        for name, base in bases_from_elsewhere(source)
        if base in closed
    ]


def interpreted_sources() -> dict[str, str]:
    compiled = {(ROOT / "src" / "penstock" / path).resolve() for path in compiled_sources()}
    paths: list[Path] = [path for folder in INTERPRETED for path in sorted((ROOT / folder).rglob("*.py"))]
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in paths if path not in compiled}
    return {path: source for path, source in sources.items() if SKIPPED not in source}


def test_interpreted_classes_inherit_from_open_compiled_ones_only() -> None:
    assert refused(compiled_sources(), interpreted_sources()) == []


def test_class_that_would_be_refused_is_found() -> None:
    compiled = {
        "core/a.py": f"@mypyc_attr({OPEN}=True)\nclass Open: pass\nclass Closed: pass\n"
        f"@trait\n@mypyc_attr({OPEN}=True)\nclass Trait: pass\n"
    }
    interpreted = {"tests/test_a.py": "from penstock.core.a import Open, Closed, Trait\n"}
    interpreted["tests/test_a.py"] += "class A(Open): pass\nclass B(Closed): pass\nclass C(Trait): pass\n"
    assert refused(compiled, interpreted) == ["tests/test_a.py: B(Closed)", "tests/test_a.py: C(Trait)"]
