"""Progress of a command on standard error: one line that changes on a terminal, or lines with --progress."""

from __future__ import annotations

import os
import sys
import time
from typing import Final

import click

from penstock.cli.cells import cut, width

PROGRESS_S: Final = 1.0
"""Seconds between two progress lines."""
COLUMNS: Final = 80
"""Columns of a terminal that does not report its size."""


def stderr_columns() -> int:
    """Return the width of the terminal of standard error."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or COLUMNS
    except OSError:
        return COLUMNS


class Progress:
    """Progress line, at most one a second.

    It is shown on a terminal. `wanted` (--progress) shows it elsewhere too, each time on a line of its own. A command
    that prints messages to the same terminal is not `quiet` there, and shows none.
    """

    def __init__(self, wanted: bool, mixed: bool = False) -> None:
        self._on_terminal = sys.stderr.isatty() and not (mixed and sys.stdout.isatty())
        self._shown = wanted or self._on_terminal
        self._unfinished = False
        self._cells = 0
        """Cells of the unfinished line."""
        self._at = time.monotonic()

    def tell(self, words: str) -> None:
        """Show a line, unless one was shown within the last second."""
        if not self._shown:
            return
        now = time.monotonic()
        if now - self._at >= PROGRESS_S:
            self._at = now
            self.show(words)

    def show(self, words: str) -> None:
        """Show a line now."""
        if self._on_terminal:
            text = cut(words, stderr_columns() - 1)  # A line that is full would begin the next one.
            click.echo(f"\r{text}{' ' * (self._cells - width(text))}", nl=False, err=True)
            self._cells = width(text)
            self._unfinished = True
        elif self._shown:
            click.echo(f"penstock: {words}", err=True)

    def end(self) -> None:
        """End an unfinished line."""
        if self._unfinished:
            click.echo(err=True)
            self._unfinished = False
            self._cells = 0
