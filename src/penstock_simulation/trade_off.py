"""Trade-off: a picture of all trials, with their memory against their cost for the producers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from penstock_simulation.goals import Goal, miss_of_all, shown
from penstock_simulation.grid import Choice, Trial

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 90, 30, 70, 70
MEETS, MISSES, CHOSEN = "#0072B2", "#8C8C8C", "#D55E00"
"""Okabe and Ito's colours, which remain distinct for people with red-green colour blindness; the shapes differ too."""


def draw(trials: Sequence[Trial], choice: Choice, goals: Sequence[Goal], title: str) -> str:
    """Return an SVG picture: a mark for each trial, at its highest depth and its producers' blocked share."""
    widest = max(trial.outcome.depth for trial in trials) or 1
    highest = max(max(trial.outcome.blocked for trial in trials), 0.01)
    marks = [
        _mark(
            LEFT + (WIDTH - LEFT - RIGHT) * trial.outcome.depth / widest,
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * trial.outcome.blocked / highest,
            trial,
            trial == choice.trial,
            miss_of_all(goals, trial.outcome) == 0,
        )
        for trial in sorted(trials, key=lambda each: each == choice.trial)
    ]
    return "\n".join([_head(title), *_axes(widest, highest), *marks, *_legend(), "</svg>", ""])


def _head(title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="13"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="{LEFT}" y="28" font-size="17" font-weight="bold">{escape(title)}</text>'
    )


def _axes(widest: float, highest: float) -> list[str]:
    lines = []
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = LEFT + (WIDTH - LEFT - RIGHT) * part
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part
        lines.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        lines.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        text = shown("depth", widest * part)
        lines.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{text}</text>')
        text = shown("blocked", highest * part)
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    lines.append(f'<text x="{middle}" y="{HEIGHT - 18}" text-anchor="middle">highest depth</text>')
    x, y = 18, (TOP + HEIGHT - BOTTOM) / 2
    lines.append(f'<text transform="translate({x},{y}) rotate(-90)" text-anchor="middle">producers blocked</text>')
    return lines


def _mark(x: float, y: float, trial: Trial, is_chosen: bool, meets: bool) -> str:
    outcome, candidate = trial.outcome, trial.candidate
    words = " ".join(f"{name}={value}" for name, value in candidate.queue_settings().items())
    told = (
        f"{words} window={candidate.window} prefetch={candidate.prefetch or 'none'}: "
        f"blocked {shown('blocked', outcome.blocked)}, starved {shown('starved', outcome.starved)}, "
        f"depth {shown('depth', outcome.depth)}, wait p99 {shown('wait_p99', outcome.wait_p99)}, "
        f"{outcome.crossings:,} crossings"
    )
    title = f"<title>{escape(told)}</title>"
    if is_chosen:
        return f'<rect x="{x - 7:.1f}" y="{y - 7:.1f}" width="14" height="14" fill="{CHOSEN}">{title}</rect>'
    if meets:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{MEETS}" fill-opacity="0.6">{title}</circle>'
    across = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
    return f'<path d="{across}" stroke="{MISSES}" stroke-width="1.5">{title}</path>'


def _legend() -> list[str]:
    y = 50
    return [
        f'<rect x="{LEFT}" y="{y - 10}" width="12" height="12" fill="{CHOSEN}"/>',
        f'<text x="{LEFT + 18}" y="{y}">recommended</text>',
        f'<circle cx="{LEFT + 130}" cy="{y - 4}" r="5" fill="{MEETS}" fill-opacity="0.6"/>',
        f'<text x="{LEFT + 142}" y="{y}">meets the goals</text>',
        f'<path d="M{LEFT + 270} {y - 8}l8 8m0 -8l-8 8" stroke="{MISSES}" stroke-width="1.5"/>',
        f'<text x="{LEFT + 286}" y="{y}">misses a goal</text>',
    ]
