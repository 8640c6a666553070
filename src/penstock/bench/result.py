"""Result of a run: rows of figures and lines over time, written as JSON, drawn, and compared with another one."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from penstock.bench.picture import Picture, draw
from penstock.bench.target import BenchError, Target
from penstock.version import VERSION

CASE: Final = "case"
"""Figure that names a row: rows of two results with the same one are compared."""
Row = dict[str, object]
LINES_MAX: Final = 4
"""Most lines of a picture."""


def result(bench: str, target: Target, rows: list[Row], courses: Mapping[str, Any]) -> dict[str, object]:
    """Return the result of a run as plain data; `courses` are points of lines by their names."""
    machine = (
        f"{platform.system()} {platform.machine()}, {platform.python_implementation()} {platform.python_version()}"
    )
    return {
        "bench": bench,
        "penstock": VERSION,
        "machine": machine,
        "broker": target.describe(),
        "rows": rows,
        "courses": {name: list(points) for name, points in courses.items()},
    }


def columns(rows: Iterable[Row]) -> list[str]:
    """Return the names of all figures, in the order in which they first come."""
    found: dict[str, None] = {}
    for row in rows:
        found |= dict.fromkeys(row)
    return list(found)


def read(path: Path) -> dict[str, Any]:
    """Read a result from the output of `--json`. Raises `BenchError`."""
    try:
        found = json.loads(path.read_text())
    except OSError as error:
        raise BenchError(f"cannot read '{path}': {error.strerror}") from None
    except ValueError as error:
        raise BenchError(f"'{path}' is not JSON: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("rows"), list) or "bench" not in found:
        raise BenchError(f"'{path}' is not a result of `penstock bench --json`")
    return found


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[Row]:
    """Return a row for each figure that two results of one kind have under the same case. Raises `BenchError`."""
    if before["bench"] != after["bench"]:
        raise BenchError(f"a result of `{before['bench']}` and one of `{after['bench']}` have no figures in common")
    others = {row[CASE]: row for row in after["rows"]}
    found: list[Row] = []
    for row in before["rows"]:
        other = others.get(row[CASE])
        if other is None:
            continue
        for name, value in row.items():
            if name == CASE or value is None or name not in other:
                continue
            found.append(
                {CASE: row[CASE], "figure": name, "a": value, "b": other[name], "change": _change(value, other[name])}
            )
    if not found:
        raise BenchError("the two results have no case in common")
    return found


def _change(before: object, after: object) -> str | None:
    if isinstance(before, bool) or not isinstance(before, int | float) or not isinstance(after, int | float):
        return None if before == after else "differs"
    return None if before == 0 else f"{(after - before) / before:+.1%}"


def plot(path: Path, title: str, courses: Mapping[str, Any]) -> None:
    """Draw the lines of a run that have the unit of the first one, at most four, as SVG. Raises `BenchError`."""
    lines = {name: [(at, y) for at, y in points if y is not None] for name, points in courses.items()}
    lines = {name: points for name, points in lines.items() if points}
    if not lines:
        raise BenchError("the run has no lines to plot")
    kind = _unit(next(iter(lines)))
    shown = [(name, points) for name, points in lines.items() if _unit(name) == kind][:LINES_MAX]
    try:
        path.write_text(draw(Picture(title, kind, dict(shown))))
    except OSError as error:
        raise BenchError(f"cannot write '{path}': {error.strerror}") from None


def _unit(line: str) -> str:
    """Return the unit of a line by its name."""
    if line.startswith("depth"):
        return "messages confirmed and not taken"
    if "/s" in line:
        return "messages a second"
    return "milliseconds" if line.endswith(" ms") else "MiB"
