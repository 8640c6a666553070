"""Brokers and commands that begin as copies of a process that has imported Penstock, which takes most of their time.

A child of the tests imports what a broker needs, and is copied (fork) for each broker and command; the copy then does
what `python -m penstock` does with its words. It is a process of its own, with its own files and ports. What a program
reads from its environment before it runs, such as LD_PRELOAD, is not known to a copy: with another environment,
another folder or other limits than at first, and with PENSTOCK_COLD=1, it begins anew.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

WAITING = "PYTEST_CURRENT_TEST"
"""The only variable that may change."""
PRELOADED = (
    "asyncio",
    "penstock.cli.serve",
    "penstock.settings.config",
    "penstock.protocols.amqp091.engine",
    "penstock.protocols.amqp10.engine",
    "penstock.server.server",
    "penstock.server.http.connections",
    "penstock.server.logs",
    "penstock.server.turn_loop",
    "penstock.store.sqlite",
    "sqlite3",
)


class ForkedProcess:
    """A copy that runs; what tests need of `subprocess.Popen`."""

    stdin = None
    stdout: IO[str] | None = None

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status
        """File descriptor from which the exit code can be read when it has ended."""
        self._reading = threading.Lock()

    def __del__(self) -> None:
        os.close(self._status)

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._await(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit code."""
        code = self._await(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("penstock", timeout or 0.0)
        return code

    def _await(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            with self._reading:
                if self.returncode is None:
                    self.returncode = int(os.read(self._status, 16))
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Tell it to stop."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


class Original:
    """The process that is copied, as the tests see it."""

    def __init__(self) -> None:
        self._surroundings = surroundings()
        self._asking, theirs = socket.socketpair()
        with theirs:
            words = [sys.executable, "-P", __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        atexit.register(self.end)

    def end(self) -> None:
        """End it; what was copied goes on."""
        self._asking.close()
        self._process.wait()

    def serves(self) -> bool:
        """Tell whether a copy would be like a process that begins now."""
        return surroundings() == self._surroundings

    def copy(self, words: list[str], stdout: IO[str], stderr: IO[str]) -> ForkedProcess:
        """Return a copy that runs `python -m penstock` with these words, and writes into these files."""
        status, ending = os.pipe()
        try:
            files = [stdout.fileno(), stderr.fileno(), ending]
            socket.send_fds(self._asking, [json.dumps(words).encode()], files)
        finally:
            os.close(ending)
        return ForkedProcess(int(self._asking.recv(16)), status)


def surroundings() -> tuple[object, ...]:
    """Return what a process gets from the one that starts it: folder, environment, limits and processors."""
    environment = {name: value for name, value in os.environ.items() if name != WAITING}
    limits = [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")]
    return os.getcwd(), environment, limits, os.sched_getaffinity(0)


_originals: list[Original] = []


def forked(words: Sequence[str], stdout: IO[str], stderr: IO[str]) -> ForkedProcess | None:
    """Start `penstock` with these words as a copy; None where it has to begin anew."""
    if os.environ.get("PENSTOCK_COLD") == "1" or not sys.platform.startswith("linux"):
        return None
    if not _originals:
        _originals.append(Original())
    return _originals[0].copy([*words], stdout, stderr) if _originals[0].serves() else None


class Copies:
    """The process that is copied, as it sees itself."""

    def __init__(self, asked: socket.socket) -> None:
        self._asked = asked
        self._woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        os.set_blocking(self._woken, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._at_interrupts = signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        self._endings: dict[int, int] = {}
        """By pid, where the exit code of a copy is written."""

    def run(self) -> list[str] | None:
        """Make copies until nobody asks any more; in a copy, return its words."""
        while True:
            ready = select.select([self._asked, self._woken], [], [])[0]
            if self._woken in ready:
                os.read(self._woken, 1024)
                self._bury()
            if self._asked in ready:
                octets, files, _, _ = socket.recv_fds(self._asked, 65536, 3)
                if not octets:
                    return None
                pid = os.fork()
                if pid == 0:
                    become(files)
                    signal.signal(signal.SIGINT, self._at_interrupts)
                    return json.loads(octets)
                self._endings[pid] = files[2]
                os.close(files[0])
                os.close(files[1])
                self._asked.sendall(str(pid).encode())

    def _bury(self) -> None:
        for pid in list(self._endings):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                ending = self._endings.pop(pid)
                os.write(ending, str(os.waitstatus_to_exitcode(status)).encode())
                os.close(ending)


def become(files: list[int]) -> None:
    """Take these files as standard output and standard error, and leave everything else behind."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(files[0], 1)
    os.dup2(files[1], 2)
    os.closerange(3, 1024)


def serve() -> list[str] | None:
    """Import what brokers need, and make copies."""
    for name in PRELOADED:
        __import__(name)
    asked = socket.socket(fileno=int(sys.argv[1]))
    gc.collect()
    gc.freeze()  # A collection in a copy would write to each of these objects, and so copy them.
    words = Copies(asked).run()
    asked.detach()
    return words


def run() -> None:
    """Do what `python -m penstock` does; an end in order frees no memory, which the system does sooner."""
    try:
        runpy.run_module("penstock", run_name="__main__", alter_sys=True)
        code: object = 0
    except SystemExit as end:
        code = end.code or 0
    if isinstance(code, int):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(str(code))


if __name__ == "__main__":
    found = serve()
    if found is not None:
        sys.path.insert(0, str(Path.cwd()))
        sys.argv = ["penstock", *found]
        run()
