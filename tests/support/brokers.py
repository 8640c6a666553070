"""A broker for tests, in a process of its own: what a user starts, in the form in which the tests themselves run.

`sys.executable -m penstock serve` with the environment of the tests, so that PYTHONPATH decides between the sources
and what is installed, for the broker as for the tests. Most begin as a copy of a process that has imported Penstock
(forked_penstock.py). PENSTOCK_THROUGH=2 starts `serve --shards 2` instead, so that tests of a broker become tests of
a node with shards: their clients go through its parent. Nothing here waits for a time to pass: `eventually` waits for
a state.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import pytest

import penstock
from penstock.sync import connect
from tests.support.forked_penstock import ForkedProcess, forked
from tests.support.raw_channel import Connection

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds until a state that must come is given up; generous, for machines are slow at times."""
PAUSE_S, PAUSE_MOST_S = 0.01, 0.5
"""Seconds between two looks for it, at least and at most."""
PAUSES = 4
"""By which the processor time of a look is multiplied for the pause behind it."""
GRACE = 60.0
"""Seconds that a broker gets to leave."""


def eventually(look: Callable[[], T], what: str, timeout: float = PATIENCE) -> T:
    """Look again and again until there is something true to be seen, and return it.

    The pause behind a look is some times the processor time that it took, for others test beside.
    """
    deadline = time.monotonic() + timeout
    while True:
        begun = _cpu_s()
        seen = look()
        if seen:
            return seen
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}; last seen: {seen!r}"
        time.sleep(min(max(PAUSE_S, (_cpu_s() - begun) * PAUSES), PAUSE_MOST_S))


def _cpu_s() -> float:
    """Return the processor time of this thread and of the commands that have ended."""
    commands = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + commands.ru_utime + commands.ru_stime


def some_name(prefix: str) -> str:
    """Return a name that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


class BrokerProcess:
    """One `penstock serve`, started and ready."""

    def __init__(self, process: subprocess.Popen[str] | ForkedProcess, ready: str, log: Path) -> None:
        self.process = process
        self.ready = ready
        """The line with which it said that it is."""
        self.addresses = [word for word in ready.split() if "://" in word]
        self._log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        """URL of the first address, with the default user."""
        return self.addresses[0].replace("amqp://", "amqp://guest:guest@") + "/"

    def url_of(self, user: str, password: str) -> str:
        """Return the URL of the first address for another user."""
        return f"amqp://{user}:{password}@{self.host}:{self.port}/"

    @property
    def host(self) -> str:
        return self.addresses[0].removeprefix("amqp://").rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.addresses[0].rpartition(":")[2])

    @property
    def http(self) -> str:
        """URL of the HTTP API; it was asked for with --http."""
        return next(address for address in self.addresses if address.startswith("http://"))

    @property
    def tls_port(self) -> int:
        """Port of its listener with TLS; its settings ask for one."""
        return next(int(each.rpartition(":")[2]) for each in self.addresses if each.startswith("amqps://"))

    @property
    def tls_url(self) -> str:
        """URL of that listener, with the default user."""
        return f"amqps://guest:guest@localhost:{self.tls_port}/"

    @property
    def https(self) -> str:
        """URL of the HTTP API with TLS; its settings ask for it."""
        return next(f"https://localhost:{a.rpartition(':')[2]}" for a in self.addresses if a.startswith("https://"))

    def log(self) -> str:
        """Return what it has written to standard error so far."""
        return self._log.read_text()

    def logged(self, text: str) -> list[str]:
        """Return the lines of its log that contain this text."""
        return [line for line in self.log().splitlines() if text in line]

    def await_logged(self, text: str) -> list[str]:
        """Wait for a line that contains this text, and return all of them: a thread writes the log."""
        return eventually(lambda: self.logged(text), f"'{text}' in the log")

    def rss(self) -> int:
        """Return the memory that it has in use now, in bytes (resident set)."""
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(self.pid)], capture_output=True, text=True, check=True)
        return int(shown.stdout) * 1024

    def alive(self) -> bool:
        """Tell whether the process runs and answers a new connection."""
        if self.process.poll() is not None:
            return False
        with Connection(self.url) as connection:
            connection.channel().queue_declare(exclusive=True)
        return True

    def queue(self, name: str) -> dict[str, Any]:
        """Return a queue as `penstock why` sees it; the asking connection leaves no trace."""
        with connect(self.url, protocol="amqp091") as control:
            return control.why(name).raw

    def depth(self, name: str) -> int:
        """Return how many messages are in a queue."""
        return int(self.queue(name)["depth"]["messages"])

    def why(self, *words: str) -> str:
        """Return what the command `penstock why` prints about a queue or something else."""
        return self.command("why", *words)

    def command(self, *words: str) -> str:
        """Run a command of Penstock on this broker, which must end well, and return what it prints."""
        done = penstock_command(*words, "--url", self.url)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refusal(self, *words: str) -> str:
        """Run a command that the broker refuses, and return its one line without the program's name."""
        done = penstock_command(*words, "--url", self.url)
        assert (done.returncode, done.stdout) == (1, ""), done
        (line,) = done.stderr.splitlines()
        return line.removeprefix("penstock: ")

    def pause(self) -> None:
        """Have it stand still, as on a machine that does."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Have it go on after a pause."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it without warning, and wait for its end."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Tell it to stop and return its exit code."""
        self.process.terminate()
        return self.process.wait(GRACE)


def shards_of_tests() -> str:
    """Return the number of shards of each broker, by PENSTOCK_THROUGH; empty for brokers of one process."""
    return os.environ.get("PENSTOCK_THROUGH", "")


def _keeping(folder: Path, options: tuple[str, ...]) -> list[str]:
    """Return the options for a store: none, unless the test has one, PENSTOCK_KEEP=1 asks for it, or shards need it."""
    if "--data" in options or "--store" in options:
        return []
    keeps = os.environ.get("PENSTOCK_KEEP") == "1" or "--shards" in options or shards_of_tests()
    return ["--data", str(folder / some_name("data"))] if keeps else ["--memory"]


def _through(options: tuple[str, ...]) -> list[str]:
    """Return the option for the shards that PENSTOCK_THROUGH asks for; skip the test where there can be none."""
    if not shards_of_tests() or "--shards" in options:
        return []
    for option in ("--store", "--standby"):
        if option in options:
            pytest.skip(f"a node with shards has no {option}")
    return ["--shards", shards_of_tests()]


def started(
    words: list[str], errors: IO[str], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str] | ForkedProcess:
    """Start `penstock` with these words: as a copy, or anew where it has to or has an environment of its own."""
    if environment is None:
        reading, writing = os.pipe()
        with open(writing, "w") as theirs:
            process = forked(words, theirs, errors)
        if process is not None:
            process.stdout = open(reading)  # noqa: SIM115 - whoever starts it closes it.
            return process
        os.close(reading)
    return subprocess.Popen(
        [sys.executable, "-m", "penstock", *words],
        stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, **(environment or {})},
    )  # fmt: skip


def settings_file(folder: Path, text: str) -> tuple[str, str]:
    """Write a settings file, and return the options that name it."""
    path = folder / "penstock.toml"
    path.write_text(text)
    return "--config", str(path)


@contextmanager
def serving(
    folder: Path,
    *options: str,
    listen: tuple[str, ...] = ("127.0.0.1:0",),
    environment: Mapping[str, str] | None = None,
) -> Iterator[BrokerProcess]:
    """Run a broker for as long as the context lasts; its log goes to a file in `folder`.

    `environment` is what it has besides that of the tests.
    """
    listeners = [word for address in listen for word in ("--listen", address)]
    log = folder / f"{some_name('broker')}.log"
    words = ["serve", *listeners, *_keeping(folder, options), *_through(options), *options]
    with log.open("w") as errors:
        process = started(words, errors, environment)
    try:
        ready = process.stdout.readline().strip()
        assert ready.startswith("ready "), (
            f"the broker said {ready}, ended with {process.poll()} and wrote {log.read_text()}"
        )
        yield BrokerProcess(process, ready, log)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def in_background(action: Callable[[], None]) -> Iterator[threading.Thread]:
    """Do something beside the context, and wait for its end at the end; what it raises is raised there."""
    failures: list[BaseException] = []

    def act() -> None:
        try:
            action()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    yield thread
    thread.join(PATIENCE)
    if failures:
        raise failures[0]
    assert not thread.is_alive(), "what was done in the background has not ended"


def penstock_command(*words: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """Run the command line of Penstock to its end."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = forked(words, out, errors)
        if process is not None:
            try:
                code = process.wait(timeout)
            finally:
                process.kill()
            out.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(words, code, out.read(), errors.read())
    return subprocess.run(
        [sys.executable, "-m", "penstock", *words], capture_output=True, text=True, check=False, timeout=timeout
    )


def in_process(**settings: Any) -> penstock.Broker:
    """Return a broker to be run in this very process, on a free port."""
    return penstock.Broker(listen="127.0.0.1:0", **settings)
