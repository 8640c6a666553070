"""The diagrams of docs/inside/states.md, made from the state tables of the sources."""

from __future__ import annotations

import importlib
from pathlib import Path

from penstock.flow.states import StateTable

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "penstock"


def state_tables() -> dict[str, list[StateTable]]:
    """Return the state tables of the sources by file, relative to the package."""
    found: dict[str, list[StateTable]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if "StateTable(\n" not in path.read_text():
            continue
        file = path.relative_to(PACKAGE)
        module = importlib.import_module(".".join(("penstock", *file.with_suffix("").parts)))
        found[str(file)] = [each for each in vars(module).values() if isinstance(each, StateTable)]
    return found


def tables() -> dict[str, str]:
    """Return each machine with its file, its states and its diagram."""
    lines: list[str] = []
    for file, found in state_tables().items():
        for table in found:
            lines += [
                f"\n## {table.machine[0].upper()}{table.machine[1:]}\n",
                f"`{type(table.initial).__name__}` in `{file}`.\n",
                "```mermaid",
                *table.diagram(),
                "```",
            ]
    return {"state machines": "\n".join(lines)}
