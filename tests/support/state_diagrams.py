"""The diagrams of docs/states.md, generated from the state tables of the sources.

`python -m tests.support.state_diagrams --write` rewrites them.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from penstock.flow.states import StateTable

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "penstock"
PAGE = ROOT / "docs" / "states.md"
BEGIN = "<!-- generated from the state tables -->\n"
COMMAND = "python -m tests.support.state_diagrams --write"


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


def generated() -> str:
    """Return the generated part of the page: each machine with its file, its states and its diagram."""
    lines: list[str] = []
    for file, tables in state_tables().items():
        for table in tables:
            lines += [
                f"\n## {table.machine[0].upper()}{table.machine[1:]}\n",
                f"`{type(table.initial).__name__}` in `{file}`.\n",
                "```mermaid",
                *table.diagram(),
                "```",
            ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page as it should be."""
    return PAGE.read_text().partition(BEGIN)[0] + BEGIN + generated()


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"usage: {COMMAND}")
    PAGE.write_text(page())
