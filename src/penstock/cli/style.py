"""Colours of the command line: on a terminal only, and never with NO_COLOR (https://no-color.org)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Any, Final

import click

STYLES: Final[dict[str, dict[str, Any]]] = {
    "heading": {"bold": True},
    "alarm": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow"},
    "good": {"fg": "green"},
}
"""Styles by meaning."""
FULL_PERCENT: Final = 80.0
"""Fill from which a queue is shown as nearly full."""
PERCENT: Final = re.compile(r"([\d.]+) %$")
Colour = Callable[[str], str | None]
"""Function from the text of a cell to the name of its style; None for no style."""


def coloured(err: bool = False) -> bool:
    """Tell whether output may have colours: it is a terminal that knows them, and NO_COLOR is empty or not set."""
    stream = sys.stderr if err else sys.stdout
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def styled(text: str, style: str | None, err: bool = False) -> str:
    """Return a text in a style; as it is without one, or where colours are not wanted."""
    return text if style is None or not text or not coloured(err) else click.style(text, **STYLES[style])


def alarm_unless(*good: str) -> Colour:
    """Return a colour: an alarm for every other text than these."""
    return lambda text: None if text in good else "alarm"


def of_fill(text: str) -> str | None:
    """Return the style of a fill in percent."""
    match = PERCENT.search(text)
    if match is None:
        return None
    percent = float(match[1])
    return "alarm" if percent >= 100 else "warning" if percent >= FULL_PERCENT else None


COLUMNS: Final[dict[str, Colour]] = {
    "gate": lambda text: "alarm" if text == "closed" else "good",
    "blocked": alarm_unless("0", "-"),
    "blocks": alarm_unless("0", "-"),
    "fill": of_fill,
    "state": alarm_unless("running", "-"),
    "held": alarm_unless("0", "-"),
    "withheld": alarm_unless("0", "-"),
    "waits for": alarm_unless("-"),
}
"""Styles of columns, by name."""
