"""Plots as SVG text: lines over time, bars, and boxes with arrows. No other files are loaded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

# Okabe and Ito's colours, which remain distinct for people with red-green colour blindness; each line has its own
# dashes too.
COLOURS = ("#0072B2", "#D55E00", "#00785A", "#A65F00", "#8A4B86", "#555555")
DASHES = ("", "6 3", "2 2", "8 2 2 2", "1 3", "4 4")
WIDTH, HEIGHT = 900, 272
LEFT, RIGHT, TOP, BOTTOM = 70, 16, 28, 34
BAR, GAP = 18, 8
NAMES = 330
"""Width of the names beside bars."""
CHARACTER = 6.6
"""Average width of a character."""
LINE = 14
"""Height of a line of text."""
Line = tuple[str, Sequence[tuple[float, float]]]
"""A name and its points."""


def short(text: str, width: float) -> str:
    """Shorten a text in the middle, so that it fits."""
    most = max(int(width / CHARACTER), 5)
    return text if len(text) <= most else f"{text[: most // 2 - 1]}…{text[-(most - most // 2) :]}"


def amount(value: float) -> str:
    """Return a number as short text: 1.5 k, 20 M."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= limit:
            return f"{value / limit:,.3g}{unit}"
    return f"{value:,.3g}"


def _ticks(highest: float) -> list[float]:
    """Return round values from 0 to at least the highest, about five."""
    if highest <= 0:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10(highest / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if step * factor * 5 >= highest)
    return [step * number for number in range(math.ceil(highest / step) + 1)]


def _figure(title: str, width: float, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(title, quote=True)}"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def lines(title: str, unit: str, begin: float, end: float, named: Sequence[Line], clock: Callable[[float], str]) -> str:
    """Draw lines over time; `clock` formats a time."""
    highest = max((value for _, points in named for _, value in points), default=0.0)
    ticks = _ticks(highest)
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    span = max(end - begin, 1e-9)
    parts = [_text(4, 12, unit)]
    for tick in ticks:
        y = TOP + height * (1 - tick / ticks[-1])
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 6, y + 4, amount(tick), "end"))
    for number in range(5):
        anchor = "start" if number == 0 else "end" if number == 4 else "middle"
        parts.append(_text(LEFT + width * number / 4, HEIGHT - 12, clock(begin + span * number / 4), anchor))
    for index, (_, points) in enumerate(named):
        path = " ".join(
            f"{LEFT + width * (at - begin) / span:.1f},{TOP + height * (1 - value / ticks[-1]):.1f}"
            for at, value in points
        )
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{COLOURS[index % len(COLOURS)]}" stroke-width="1.5" '
            f'stroke-dasharray="{DASHES[index % len(DASHES)]}"/>'
        )
    for index, (name, _) in enumerate(named):
        y, colour = HEIGHT + 14 + 18 * index, COLOURS[index % len(COLOURS)]
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + 30}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{DASHES[index % len(DASHES)]}"/>'
        )
        parts.append(_text(LEFT + 38, y, short(name, WIDTH - LEFT - 60), colour=colour))
    return _figure(title, WIDTH, HEIGHT + 18 * len(named) + 6, parts)


def bars(title: str, values: Sequence[tuple[str, float, str]]) -> str:
    """Draw horizontal bars: name, value, and the text after the bar."""
    highest = max((value for _, value, _ in values), default=0.0) or 1.0
    room = WIDTH - NAMES - 12 - CHARACTER * max((len(words) for _, _, words in values), default=0)
    parts = []
    for index, (name, value, words) in enumerate(values):
        y = GAP + index * (BAR + GAP)
        length = room * max(value, 0.0) / highest
        parts.append(_text(NAMES - 8, y + 13, short(name, NAMES - 10), "end"))
        parts.append(f'<rect x="{NAMES}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{COLOURS[0]}"/>')
        parts.append(_text(NAMES + length + 6, y + 13, words))
    return _figure(title, WIDTH, GAP + len(values) * (BAR + GAP), parts)


def boxes(title: str, rows: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Draw rows of boxes with arrows between them; each box has two lines of text."""
    most = max((len(row) for row in rows), default=1)
    arrow = 34
    box = max((WIDTH - arrow * (most - 1)) / most, 120.0)
    width = box * most + arrow * (most - 1)
    parts = []
    for number, row in enumerate(rows):
        y = GAP + number * 62
        for index, (first, second) in enumerate(row):
            x = index * (box + arrow)
            parts.append(
                f'<rect x="{x + 1:.1f}" y="{y}" width="{box - 2:.1f}" height="48" rx="4" fill="#f3f6fa" '
                f'stroke="{COLOURS[0]}"/>'
            )
            parts.append(_text(x + box / 2, y + 20, short(first, box - 12), "middle"))
            parts.append(_text(x + box / 2, y + 38, short(second, box - 12), "middle", "#555"))
            if index + 1 < len(row):
                end = x + box + arrow - 2
                parts.append(f'<line x1="{x + box:.1f}" x2="{end:.1f}" y1="{y + 24}" y2="{y + 24}" stroke="#222"/>')
                parts.append(f'<path d="M{end:.1f} {y + 24} l-8 -4 v8 z" fill="#222"/>')
    return _figure(title, width, GAP + len(rows) * 62, parts)
