"""A page that leads its reader step by step, run as it stands: its programs and its commands, in the order of the page.

A block ```` ```python title="NAME" ```` is a file. A block ```` ```console ```` has commands for a shell, each after
`$ `, and below a command what it prints. Its title is the terminal, such as "Terminal 2", where a page has several. The
test has started the broker itself.

What terminal 2 starts goes on beside the rest of the page, and so does a command that ends with ` &`. A block of
terminal 2 without a command says what it has printed meanwhile. Any other command is waited for. In what is printed all
times, octets and names of connections are alike, and `...` stands for any lines.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.brokers import GRACE, PATIENCE, BrokerProcess, eventually

BLOCK = re.compile(
    r'^( *)```(?:(python) title="([^"]+)"|(console)(?: title="([^"]+)")?)\n(.*?)^\1```$', re.MULTILINE | re.DOTALL
)
ADDRESS = "127.0.0.1:5672"
INSTALLATION = "make setup && . .venv/bin/activate"
"""The command that whoever runs the tests has run before."""
SERVING = re.compile(r"penstock serve --memory(?: --quiet)?(?: &)?")
"""The commands that start the broker."""
SHELL = (
    f'python() {{ {shlex.quote(sys.executable)} "$@"; }}; penstock() {{ python -m penstock "$@"; }}; '
    'dramatiq() { python -m dramatiq "$@"; }; celery() { python -m celery "$@"; }; '
)
"""The programs that the environment of a reader has."""
ENDLESS = ("celery ", "dramatiq ")
"""Commands that go on until they are stopped."""
ASKING = re.compile(r"penstock (why|status|[a-z-]+ (list|show))\b")
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
    """Return the files of a page, and its blocks of commands."""
    return [
        Step(file or shell, name or terminal, textwrap.dedent(text))
        for _, file, name, shell, terminal, text in BLOCK.findall(page)
    ]


def masked(line: str) -> str:
    """Return a line without what differs each time: names of connections, times and octets."""
    line = re.sub(r"con:\d+\(\w+@[^)]*\)", "CONNECTION", line.rstrip())
    return re.sub(r"ctag\d+\.\w+", "TAG", re.sub(r"[\d,.]+ (s|bytes)\b", r"N \1", line))


def shows(printed: list[str], expected: list[str]) -> bool:
    """Tell whether lines were printed in this order, one after the other except where the page says `...`."""
    lines = ["(?:.*\n)*?" if line == "..." else re.escape(masked(line)) + "\n" for line in expected]
    return re.search("^" + "".join(lines), "".join(f"{masked(line)}\n" for line in printed), re.MULTILINE) is not None


class Walkthrough:
    """The reader of a page: a folder, a broker, and what runs beside."""

    def __init__(
        self,
        broker: BrokerProcess,
        folder: Path,
        patience: float = PATIENCE,
        places: Mapping[str, str] | None = None,
        shell: str = "",
    ) -> None:
        self.broker = broker
        self.folder = folder
        self.patience = patience
        """Seconds until what must be printed is given up."""
        self._places = places or {}
        """Paths of the page by those that the test has instead."""
        self._shell = SHELL + shell
        self._output = folder / "terminal-2"
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []

    def take(self, step: Step) -> None:
        """Do what a block says."""
        if step.kind == "python":
            here = step.text.replace(ADDRESS, f"{self.broker.host}:{self.broker.port}")
            assert here != step.text or "penstock.Broker(" in step.text, f"{step.title} has no address"
            (self.folder / step.title).write_text(here)
            return
        for command, printed in step.commands():
            if SERVING.fullmatch(command):
                ready = [word for word in printed[0].split() if "://" not in word]
                assert ready == [word for word in self.broker.ready.split() if "://" not in word]
            elif command.endswith(" &"):
                self._output = self.folder / f"beside-{len(self._running)}"
                self._beside(command.removesuffix(" &"), printed)
            elif step.title == "Terminal 2":
                if command:
                    self.end()
                self._beside(command, printed)
            elif command != INSTALLATION:
                self.run(command, printed)

    def _beside(self, command: str, printed: list[str]) -> None:
        if command:
            with self._output.open("w") as output:
                process = subprocess.Popen(
                    self._words(command),
                    cwd=self.folder,
                    env=self._environment(),
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            self._running.append((command, process))
        eventually(
            lambda: shows(self._output.read_text().splitlines(), printed), f"terminal 2 prints {printed}", self.patience
        )

    def run(self, command: str, printed: list[str]) -> None:
        """Run a command to its end, which prints these lines; it reads two lines, a password and once more."""
        end = time.monotonic() + self.patience
        while True:
            done = subprocess.run(
                self._words(command),
                cwd=self.folder,
                env=self._environment(),
                input="opensesame\nopensesame\n",
                capture_output=True,
                text=True,
                check=False,
            )
            if shows(done.stdout.splitlines(), [self._placed(line) for line in printed]):
                assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
                return
            again = ASKING.match(command) is not None and time.monotonic() < end
            assert again, f"{command}\n--- prints\n{done.stdout}{done.stderr}\n--- and not\n" + "\n".join(printed)

    def _words(self, command: str) -> list[str]:
        return ["bash", "-c", self._shell + self._placed(command)]

    def _placed(self, text: str) -> str:
        for there, here in self._places.items():
            text = text.replace(there, here)
        return text

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PENSTOCK_URL": self.broker.url}

    def end(self) -> None:
        """Wait for the end of what runs beside, except for what never ends."""
        for command, process in tuple(self._running):
            if not command.startswith(ENDLESS):
                assert process.wait(GRACE) == 0, f"{command}\n{self._output.read_text()}"
                self._running.remove((command, process))

    def kill(self) -> None:
        """End what still runs beside, at the end of a test that may have failed."""
        for _, process in self._running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
