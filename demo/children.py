"""The processes of the demo: started, listened to, and ended whatever happens."""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from demo.errors import DemoError

ROOT = Path(__file__).resolve().parent.parent
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What a person may end the demo with."""
PATIENCE_SECONDS = 10.0
"""How long a process may take to leave after it was asked to."""


@dataclass(frozen=True)
class Line:
    """A line that a process has printed."""

    child: "Child"
    text: str


class Child:
    """A process of the demo, leader of a session of its own: Ctrl-C reaches only the one who leads the demo."""

    def __init__(self, name: str, words: list[str], log: Path, lines: "queue.Queue[Line]") -> None:
        """Start it; what it prints goes to `lines`, its errors to the file `log`."""
        self.name, self.log = name, log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                words,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout, lines), daemon=True)
        self._reader.start()

    def _read(self, output: IO[str], lines: "queue.Queue[Line]") -> None:
        with output:
            for text in output:
                lines.put(Line(self, text.rstrip("\n")))

    @property
    def code(self) -> int | None:
        """Its exit code, once it has ended and everything that it printed is in the queue; None before."""
        found = self.process.poll()
        return found if found is not None and not self._reader.is_alive() else None

    def finish(self) -> None:
        """Close its input, by which a pipeline knows that nothing more will come."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def end(self, patience: float = PATIENCE_SECONDS) -> None:
        """End it and what it has started."""
        self.finish()
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        self._signal(signal.SIGKILL)
        self.process.wait()
        self._reader.join(patience)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def last_words(self) -> str:
        """Return the last line of its log, or nothing."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


class Children:
    """All processes of the demo; leaving the context ends those that still run, the youngest first."""

    def __init__(self, folder: Path) -> None:
        """Keep the processes' logs in `folder`."""
        self.lines: queue.Queue[Line] = queue.Queue()
        self._folder = folder
        self._all: list[Child] = []

    def start(self, name: str, module: str, *words: str) -> Child:
        """Start a module of this Python as a process."""
        child = Child(name, [sys.executable, "-m", module, *words], self._folder / f"{name}.log", self.lines)
        self._all.append(child)
        return child

    def next_line(self, seconds: float) -> Line | None:
        """Return what was printed next; None if nothing was within `seconds`.

        Raises `DemoError` if a process failed.
        """
        try:
            return self.lines.get(timeout=seconds)
        except queue.Empty:
            # Only now: what a process printed before it failed says more than its exit code.
            self.check()
            return None

    def line_from(self, child: Child, seconds: float) -> str:
        """Return the next line that this process prints. Raises `DemoError` if it ends or takes longer."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            line = self.next_line(0.2)
            if line is not None and line.child is child:
                return line.text
            if child.code is not None and self.lines.empty():
                raise DemoError(f"{child.name} ended early with exit code {child.code}; see {child.log}")
        raise DemoError(f"{child.name} has not answered within {seconds:.0f} s; see {child.log}")

    def check(self) -> None:
        """Raise `DemoError` if a process has failed."""
        for child in self._all:
            code = child.code
            if code is not None and code < 0:
                raise DemoError(f"{child.name} was ended by {signal.Signals(-code).name} (see {child.log})")
            if code:
                words = child.last_words()
                raise DemoError(f"{child.name} failed{f': {words}' if words else ''} (see {child.log})")

    def __enter__(self) -> "Children":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second Ctrl-C must not leave processes behind.
        before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
        try:
            for child in reversed(self._all):
                child.end()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
