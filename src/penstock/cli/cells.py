"""Widths of texts on a terminal, which shows a character in one cell, in two, or on the cell before."""

from __future__ import annotations

from typing import Final

WIDE: Final = ("W", "F")
"""East Asian widths of characters with two cells (Unicode Standard Annex 11); emoji are among them."""
WITHOUT_CELL: Final = ("Mn", "Me")
"""Categories of characters that are drawn on the one before."""
CUT: Final = "…"


def width(text: str) -> int:
    """Return the number of cells of a text without control characters."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(character: str) -> int:
    import unicodedata  # Most names are of ASCII.

    if unicodedata.category(character) in WITHOUT_CELL:
        return 0
    return 2 if unicodedata.east_asian_width(character) in WIDE else 1


def cut(text: str, cells: int) -> str:
    """Return a text that has at most so many cells; a longer one ends with an ellipsis."""
    if width(text) <= cells:
        return text
    return beginning(text, cells - 1) + CUT if cells > 0 else ""


def beginning(text: str, cells: int) -> str:
    """Return the longest beginning of a text that has at most so many cells."""
    used = 0
    for index, character in enumerate(text):
        used += width(character)
        if used > cells:
            return text[:index]
    return text
