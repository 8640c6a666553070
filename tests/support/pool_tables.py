"""The table of docs/inside/memory.md with all bounds of the node, from the rows of `penstock.settings.pools`."""

from __future__ import annotations

from penstock.settings.pools import BOUNDS, POOLS


def tables() -> dict[str, str]:
    """Return the table by its name."""
    lines = [
        f"| {row.name} | {row.bound} | {'a share by ' if row.is_shared() else ''}{row.shared} | {row.at_bound} |\n"
        for row in (*BOUNDS, *POOLS)
    ]
    return {"pools": f"| what | bound | shared by, or why not | at the bound |\n|---|---|---|---|\n{''.join(lines)}"}
