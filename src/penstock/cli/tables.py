"""Tables: all columns for programs; on a terminal the first columns that fit, with colours."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import gt
from typing import Final, NamedTuple

import click

from penstock.cli.cells import cut, width
from penstock.cli.common import styled, writing
from penstock.texts import counted, printable

BETWEEN: Final = "  "
"""Gap between two columns."""
SHARES: Final = (0.4, 0.36)
SHARE: Final = 0.2
"""Parts of a terminal's width to which the first columns, and further ones, may be cut to make room for others."""
NARROWEST: Final = 8
"""Cells of the narrowest column to which a wider one is cut."""
FULL_PERCENT: Final = 80.0
"""Fill from which a queue is shown as nearly full."""
PERCENT: Final = re.compile(r"([\d.]+) %$")
NUMBER: Final = re.compile(r"-|[\d,.]+( %)?")
"""Text of a cell in a column that a terminal aligns to the right."""
WIDE_HINT: Final = "--wide shows all"
WIDER_HINT: Final = "a wider terminal shows them"
Colour = Callable[[str], str | None]
"""Function that returns the name of the style for the text of a cell; None for no style."""


# Colours by column


def alarm_unless(*good: str) -> Colour:
    """Return a colour function: an alarm for every text except these."""
    return lambda text: None if text in good else "alarm"


def of_fill(text: str) -> str | None:
    """Return the style of a fill in percent."""
    match = PERCENT.search(text)
    if match is None:
        return None
    percent = float(match[1])
    return "alarm" if percent >= 100 else "warning" if percent >= FULL_PERCENT else None


STOPPED: Final = ("closed", "held", "block", "flow", "failed")
WARNED: Final = ("no consumer", "consumers take nothing", "drops ", "refuses ")
"""Beginnings of states of queues, connections and jobs: what is stopped, and what will hurt."""


def of_state(text: str) -> str | None:
    """Return the style of the state of a queue or a connection, in words."""
    if text.startswith(STOPPED) or text.endswith(" waiting"):
        return "alarm"
    return "warning" if text.startswith(WARNED) else "good" if text == "open" else None


COLUMN_COLOURS: Final[dict[str, Colour]] = {
    "gate": lambda text: "good" if text == "open" else "alarm",
    "blocked": alarm_unless("0", "-"),
    "blocks": alarm_unless("0", "-"),
    "fill": of_fill,
    "state": of_state,
    "held": alarm_unless("0", "-"),
    "withheld": alarm_unless("0", "-"),
    "waits for": alarm_unless("-"),
}
"""Styles of columns, by name."""


# Columns


class Layout(NamedTuple):
    """Columns that are shown, and their widths in cells."""

    widths: list[int]
    left_out: tuple[str, ...] = ()
    """Names of the further columns."""


def table(
    heads: Sequence[str],
    rows: Iterable[tuple[str, ...]],
    colours: Mapping[str, Colour] | None = None,
    hint: str = WIDER_HINT,
    whole: bool = False,
) -> None:
    """Print columns, as wide as their widest cell.

    On a terminal they have colours, long cells are cut, and columns that do not fit are left out from the right. A
    last line on standard error names these, with a hint of how to see them. A `whole` table leaves nothing out.
    """
    lines = [tuple(printable(cell) for cell in row) for row in rows]
    widths = [max(width(line[column]) for line in (heads, *lines)) for column in range(len(heads))]
    layout, rights = Layout(widths), [False] * len(heads)
    columns = terminal_columns()
    if columns is not None:
        layout = layout if whole else fitting(heads, widths, columns)
        rights = [_is_numeric(lines, column) for column in range(len(heads))]
    with writing():
        for number, line in enumerate((heads, *lines)):
            parts = []
            for head, text, cells, right in zip(heads, line, layout.widths, rights, strict=False):
                colour = "heading" if number == 0 else colours[head](text) if colours and head in colours else None
                shown = cut(text, cells)
                spaces = " " * (cells - width(shown))
                parts.append(f"{spaces}{styled(shown, colour)}" if right else f"{styled(shown, colour)}{spaces}")
            click.echo(BETWEEN.join(parts).rstrip())
    if layout.left_out and columns is not None:
        click.echo(left_out_line(layout.left_out, hint, columns), err=True)


def terminal_columns() -> int | None:
    """Return the width of standard output; None if it is no terminal."""
    if not sys.stdout.isatty():
        return None
    import shutil  # This import takes 3 ms, and loads compression libraries.

    return shutil.get_terminal_size().columns


def _is_numeric(lines: Sequence[tuple[str, ...]], column: int) -> bool:
    return bool(lines) and all(NUMBER.fullmatch(line[column]) for line in lines)


def fitting(heads: Sequence[str], widths: Sequence[int], columns: int) -> Layout:
    """Return the columns of a table that fit into a terminal, from the left.

    A column counts with the least width to which it may be cut. The widest columns are cut, by no more than is needed.
    The first column is always shown.
    """
    shares = [*SHARES, *[SHARE] * len(widths)]
    least = [min(cells, max(int(columns * share), NARROWEST)) for cells, share in zip(widths, shares, strict=False)]
    shown, used = 1, least[0]
    while shown < len(least) and used + len(BETWEEN) + least[shown] <= columns:
        used += len(BETWEEN) + least[shown]
        shown += 1
    found = list(widths[:shown])
    over = sum(found) + len(BETWEEN) * (shown - 1) - columns
    while over > 0 and any(map(gt, found, least)):
        widest = max(range(shown), key=lambda column: (found[column] > least[column], found[column]))
        found[widest] -= 1
        over -= 1
    return Layout(found, tuple(heads[shown:]))


def left_out_line(names: Sequence[str], hint: str, columns: int) -> str:
    """Return the line about columns that are left out: as many of their names as fit into a line of the terminal."""
    begin = f"{counted(len(names), 'column')} left out: "
    for shown in range(len(names), 0, -1):
        more = f" and {len(names) - shown:,} more" if shown < len(names) else ""
        line = f"{begin}{', '.join(names[:shown])}{more}; {hint}"
        if len(line) <= columns:
            return line
    return f"{counted(len(names), 'column')} left out; {hint}"
