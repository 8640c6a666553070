"""A page that leads its reader step by step, run as it stands: its programs and its commands, in the order of the page.

A block ```` ```python title="NAME" ```` is a file. A block ```` ```console title="Terminal N" ```` has commands, each
after `$ `, and below a command what it prints. Terminal 1 is the broker's, which the test starts itself.

What terminal 2 starts goes on beside the rest of the page. A block of it without a command says what it has printed
meanwhile. A command of terminal 3 is waited for. In what is printed all times, octets and names of connections are
alike, and `...` stands for any lines.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.brokers import GRACE, PATIENCE, BrokerProcess, eventually

BLOCK = re.compile(r'^```(\w+) title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:5672"
ASKING = ("penstock why", "penstock list", "penstock status")
"""Commands that change nothing: they are run again until they print what the page shows."""


@dataclass
class Step:
    """A block of a page."""

    kind: str
    title: str
    text: str

    def commands(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the commands and what each of them prints; "" for what an earlier one prints."""
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE):
            if part and part == self.text:
                yield "", part.splitlines()
            elif part:
                command, *printed = part.splitlines()
                yield command, printed


def steps(page: str) -> list[Step]:
    """Return the blocks of a page that have a title."""
    return [Step(*found.groups()) for found in BLOCK.finditer(page)]


def masked(line: str) -> str:
    """Return a line without what differs each time: names of connections, times and octets."""
    line = re.sub(r"con:\d+\(guest@[^)]*\)", "CONNECTION", line.rstrip())
    return re.sub(r"ctag\d+\.\w+", "TAG", re.sub(r"[\d,.]+ (s|bytes)\b", r"N \1", line))


def shows(printed: list[str], expected: list[str]) -> bool:
    """Tell whether lines were printed in this order, one after the other except where the page says `...`."""
    lines = ["(?:.*\n)*?" if line == "..." else re.escape(masked(line)) + "\n" for line in expected]
    return re.search("^" + "".join(lines), "".join(f"{masked(line)}\n" for line in printed), re.MULTILINE) is not None


class Walkthrough:
    """The reader of a page: a folder, a broker, and what terminal 2 runs."""

    def __init__(self, broker: BrokerProcess, folder: Path, patience: float = PATIENCE) -> None:
        self.broker = broker
        self.folder = folder
        self.patience = patience
        """Seconds until what must be printed is given up."""
        self._output = folder / "terminal-2"
        self._running: subprocess.Popen[bytes] | None = None

    def take(self, step: Step) -> None:
        """Do what a block says."""
        if step.kind == "python":
            here = step.text.replace(ADDRESS, f"{self.broker.host}:{self.broker.port}")
            assert here != step.text, f"{step.title} has no address"
            (self.folder / step.title).write_text(here)
            return
        for command, printed in step.commands():
            if step.title == "Terminal 1":
                ready = " ".join(word for word in printed[0].split() if "://" not in word)
                assert (command, ready) == ("penstock serve --memory", "ready keeps nothing that must outlive it")
            elif step.title == "Terminal 2":
                self._beside(command, printed)
            else:
                self._to_its_end(command, printed)

    def _beside(self, command: str, printed: list[str]) -> None:
        if command:
            self.end()
            with self._output.open("w") as output:
                self._running = subprocess.Popen(
                    self._words(command), cwd=self.folder, env=self._environment(), stdout=output, stderr=output
                )
        eventually(
            lambda: shows(self._output.read_text().splitlines(), printed), f"terminal 2 prints {printed}", self.patience
        )

    def _to_its_end(self, command: str, printed: list[str]) -> None:
        end = time.monotonic() + self.patience
        while True:
            done = subprocess.run(
                self._words(command),
                cwd=self.folder,
                env=self._environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            if shows(done.stdout.splitlines(), printed):
                assert done.returncode == 0, done.stderr
                return
            again = command.startswith(ASKING) and time.monotonic() < end
            assert again, f"{command}\n--- prints\n{done.stdout}{done.stderr}\n--- and not\n" + "\n".join(printed)

    def _words(self, command: str) -> list[str]:
        first, *rest = shlex.split(command)
        return {"python": [sys.executable], "penstock": [sys.executable, "-m", "penstock"]}[first] + rest

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PENSTOCK_URL": self.broker.url}

    def end(self) -> None:
        """Wait for the end of what terminal 2 runs."""
        if self._running is not None:
            assert self._running.wait(GRACE) == 0, self._output.read_text()
            self._running = None

    def kill(self) -> None:
        """End what terminal 2 runs, at the end of a test that may have failed."""
        if self._running is not None:
            self._running.kill()
            self._running.wait()
