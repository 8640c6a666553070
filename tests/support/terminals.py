"""Commands in a pseudo-terminal of a given size, and what its screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyte

from tests.support.brokers import GRACE, PATIENCE


class Terminal:
    """Pseudo-terminal with one command in it."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int, columns: int, lines: int) -> None:
        self.process = process
        self.screen = pyte.Screen(columns, lines)
        self.octets = b""
        """Everything that the command has written."""
        self._stream = pyte.ByteStream(self.screen)
        self._descriptor = descriptor

    def read(self, timeout: float) -> bool:
        """Read what comes within `timeout` seconds; False if nothing did, or at the end of the command."""
        ready, _, _ = select.select([self._descriptor], [], [], timeout)
        if not ready:
            return False
        try:
            found = os.read(self._descriptor, 65536)
        except OSError:  # The other end is closed.
            return False
        self.octets += found
        # pyte takes the private form of "report the version" (CSI > q) for text.
        self._stream.feed(found.replace(b"\x1b[>q", b"").replace(b"\x1b[>0q", b""))
        return bool(found)

    def text(self) -> str:
        """Return the screen, line by line."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def line(self, part: str) -> str:
        """Return the first line of the screen that contains this; "" without one."""
        return next((line for line in self.screen.display if part in line), "")

    def wait(self, seen: Callable[[str], object], what: str) -> str:
        """Read until the screen shows something, and return it."""
        deadline = time.monotonic() + PATIENCE
        text = self.text()
        while not seen(text):
            assert time.monotonic() < deadline, f"not on the screen: {what}\n{text}"
            if self.read(0.05):
                text = self.text()  # To look at the screen takes much longer than to read.
            else:
                assert self.process.poll() is None, f"the command has ended; not on the screen: {what}\n{text}"
        return text

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._descriptor, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        """Give the terminal another size, and tell the command."""
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)
        self.process.send_signal(signal.SIGWINCH)

    def close(self) -> None:
        """Close the other end of the terminal, as when its window is killed."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def ended(self) -> int:
        """Read to the end of the command, and return its exit code."""
        deadline = time.monotonic() + GRACE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"the command goes on\n{self.text()}"
            self.read(0.05)
        while self.read(0):
            pass
        return self.process.returncode


def _take_terminal() -> None:
    """Make standard input the controlling terminal, so that Ctrl-C reaches the command."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def in_terminal(
    *words: str, columns: int = 100, lines: int = 30, controlling: bool = True, **environment: str
) -> Iterator[Terminal]:
    """Run a `penstock` command in a pseudo-terminal; it is killed at the end of the context.

    Only a controlling terminal gives the command signals: Ctrl-C, and that the terminal has gone.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    left_out = ("NO_COLOR", "COLUMNS", "LINES", "TEXTUAL", "FORCE_COLOR")
    every = {name: value for name, value in os.environ.items() if name not in left_out}
    every |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", **environment}
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", *words], stdin=its, stdout=its, stderr=its, env=every,
        start_new_session=True, preexec_fn=_take_terminal if controlling else None,
    )  # fmt: skip
    os.close(its)
    terminal = Terminal(process, ours, columns, lines)
    try:
        yield terminal
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        terminal.close()
