"""Progress while the demo runs: one line that is refreshed on a terminal, a line every few seconds elsewhere."""

import shutil
import sys
import time
from dataclasses import dataclass
from typing import TextIO

from demo.watch import Sample

REFRESH_SECONDS = 0.2
LINE_SECONDS = 2.0
"""How often a line is written where none can be refreshed."""
BAR = 10


@dataclass
class Standing:
    """How far the demo is."""

    capacity: int
    sent: int = 0
    processed: int = 0
    sample: Sample | None = None
    bar: str = "█░"
    """What the filled and the empty part of the bar are drawn with."""

    def in_words(self) -> str:
        """Return it as one line, which fits a terminal of 80 columns."""
        words = f"{self.sent:>7,} sent, {self.processed:>7,} processed"
        sample = self.sample
        if sample is None:
            return words
        filled = round(BAR * sample.octets / self.capacity)
        bar = self.bar[0] * filled + self.bar[1] * (BAR - filled)
        gate = "open," if sample.gate_open else "closed,"
        return f"{words} [{bar}] {sample.octets / self.capacity:4.0%} full, gate {gate:<7} {sample.blocked} blocked"


class Screen:
    """Where progress and messages are shown without getting into each other's way."""

    def __init__(self, output: TextIO = sys.stdout) -> None:
        """Show everything on `output`."""
        self._output = output
        self._refreshes = output.isatty()
        self.bar = "█░" if (output.encoding or "").lower().startswith("utf") else "#."
        self._shown = False
        self._next = 0.0

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._clear()
        print(text, file=self._output, flush=True)

    def show(self, standing: Standing) -> None:
        """Show progress, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (REFRESH_SECONDS if self._refreshes else LINE_SECONDS)
        text = standing.in_words()
        if self._refreshes:
            text = text[: shutil.get_terminal_size().columns - 1]
            self._output.write(f"\r\x1b[K{text}")
            self._output.flush()
            self._shown = True
        else:
            print(text, file=self._output, flush=True)

    def _clear(self) -> None:
        if self._shown:
            self._output.write("\r\x1b[K")
            self._shown = False
