"""Result of a run: rows of figures and lines over time, written as JSON, drawn, and compared with another result.

The picture is SVG, drawn without a library, so that every installation can plot.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, Final

from penstock.client.bench.target import BenchError, Target
from penstock.version import VERSION

WIDTH, HEIGHT = 860, 340
LEFT, TOP, BOTTOM = 100, 64, 50
RIGHT, RIGHT_OF_LEVELS = 30, 150
TICKS = 5
"""Most lines of the grid above 0."""
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#00785A", "#9A4F96", "#8C8C8C"
"""Okabe and Ito's colours, which remain distinct for people with red-green colour blindness."""
Points = list[tuple[float, float]]


@dataclass
class Picture:
    """Lines over time, levels, and the times in which a gate was closed."""

    title: str
    unit: str
    lines: dict[str, Points]
    levels: dict[str, float] = field(default_factory=dict)
    closed: list[tuple[float, float]] = field(default_factory=list)


def thinned(points: Points) -> Points:
    """Return points without the inner points of level sections."""
    kept = points[:1]
    for before, point, after in zip(points, points[1:], points[2:], strict=False):
        if not before[1] == point[1] == after[1]:
            kept.append(point)
    return kept + points[-1:]


def draw(picture: Picture) -> str:
    """Return a picture as SVG."""
    longest = max((points[-1][0] for points in picture.lines.values() if points), default=1.0)
    found = max([*picture.levels.values(), *(y for points in picture.lines.values() for _, y in points)], default=0.0)
    step = tick(found or 1.0)
    highest = step * ceil(round(found / step, 9) or 1)
    right = WIDTH - (RIGHT_OF_LEVELS if picture.levels else RIGHT)

    def x(at: float) -> float:
        return LEFT + (right - LEFT) * at / longest

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / highest

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="{LEFT}" y="28" font-size="17" font-weight="bold">{escape(picture.title)}</text>'
    ]
    for start, end in picture.closed:
        band = f'<rect x="{x(start):.1f}" y="{TOP}" width="{x(end) - x(start):.1f}" height="{HEIGHT - TOP - BOTTOM}" '
        parts.append(band + f'fill="{GREY}" fill-opacity="0.25"><title>the gate is closed</title></rect>')
    parts += _axes(longest, highest, step, right, picture.unit, bool(picture.closed))
    for name, level in picture.levels.items():
        line = f'<line x1="{LEFT}" x2="{right}" y1="{y(level):.1f}" y2="{y(level):.1f}" stroke="{GREY}" '
        parts.append(line + 'stroke-dasharray="4 3"/>')
        parts.append(f'<text x="{right + 6}" y="{y(level) + 4:.1f}" fill="#555">{escape(name)}</text>')
    for number, (name, points) in enumerate(picture.lines.items()):
        colour = (BLUE, GREEN, ORANGE, PURPLE)[number % 4]
        way = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in thinned(points))
        parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>')
        place = LEFT + 8 + 170 * number
        parts.append(f'<rect x="{place}" y="{TOP - 12}" width="14" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{place + 20}" y="{TOP - 6}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def tick(highest: float) -> float:
    """Return the distance of the grid's lines: 1, 2 or 5 times a power of ten, for at most `TICKS` lines."""
    power = 10.0 ** floor(log10(highest / TICKS))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor * TICKS >= highest * (1 - 1e-9))


def _axes(longest: float, highest: float, step: float, right: int, unit: str, has_bands: bool) -> list[str]:
    lines = []
    decimals = max(0, -floor(log10(step)))
    for number in range(round(highest / step) + 1):
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * number * step / highest
        lines.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>')
        label = f"{number * step:,.{decimals}f}"
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    apart = tick(longest)
    decimals = max(0, -floor(log10(apart)))
    for number in range(floor(longest / apart + 1e-9) + 1):
        x = LEFT + (right - LEFT) * number * apart / longest
        label = f"{number * apart:,.{decimals}f}"
        lines.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label}</text>')
    told = "seconds" + ("; grey: the gate is closed" if has_bands else "")
    middle = (LEFT + right) / 2
    lines.append(f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{told}</text>')
    x, y = 18, (TOP + HEIGHT - BOTTOM) / 2
    lines.append(f'<text transform="translate({x},{y}) rotate(-90)" text-anchor="middle">{escape(unit)}</text>')
    return lines


CASE: Final = "case"
"""Figure that names a row: rows of two results with the same case are compared."""
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
    """Return the names of all figures, in the order of their first use."""
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
    """Draw the lines of a run that have the unit of the first line, at most four, as SVG. Raises `BenchError`."""
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
