"""Gate owners answer for their gates: no other folder checks for the class of an owner."""

import ast
from collections.abc import Iterable
from pathlib import Path

from tests.support.source_trees import nodes_of

SOURCES = Path("src/penstock")
OWNERS = {
    "Queue": "core/queue",
    "StreamQueue": "core/queue",
    "HoldRoom": "core/publish",
    "CountedDepth": "flow",
    "SharedLimit": "flow",
    "AddressDepth": "core/gates",
    "RateGate": "core/gates",
    "OperatorGate": "core/gates",
    "DiskGate": "core/gates",
    "QuotaGate": "core/gates",
    "FreeSpaceGate": "core/gates",
    "StoreFailureGate": "core/gates",
}


def asked_classes(nodes: Iterable[ast.AST]) -> list[tuple[int, str, str]]:
    """Return each `isinstance` with its line, its first argument and one class of its second."""
    return [
        (call.lineno, ast.unparse(call.args[0]), name.id)
        for call in nodes
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "isinstance"
        for name in ast.walk(call.args[1])
        if isinstance(name, ast.Name)
    ]


def test_class_of_a_gate_owner_is_checked_in_its_own_folder_only() -> None:
    found = [
        f"{path}:{line} asks whether {what} is a {kind}"
        for path in sorted(SOURCES.rglob("*.py"))
        for line, what, kind in asked_classes(nodes_of(path.read_text()))
        if kind in OWNERS and "owner" in what and not path.is_relative_to(SOURCES / OWNERS[kind])
    ]
    assert found == []


def test_owner_classes_of_gates_are_known_to_this_check() -> None:
    bases = {
        node.name: {ast.unparse(base) for base in node.bases}
        for path in SOURCES.rglob("*.py")
        for node in nodes_of(path.read_text())
        if isinstance(node, ast.ClassDef)
    }
    owners = {"GateOwner"}
    while more := {name for name, of in bases.items() if of & owners} - owners:
        owners |= more
    assert owners - {"GateOwner"} == OWNERS.keys()
