"""Broker in a process of its own, with a store: for real kills and failing disks."""

from __future__ import annotations

import base64
import http.client
import json
import resource
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote, urlencode

from typing_extensions import override

from penstock.errors import StartError
from penstock.testing.expectations import WITHIN_S, Observed, View

LINES_MOST: Final = 10_000
"""Lines of the broker's log that are stored; older lines are dropped."""
LOOK_S: Final = 0.01
"""Seconds between two checks of the broker's state."""
ANSWER_S: Final = 30.0
"""Seconds that the broker has for an answer, for its start and for its end."""
HEADERS: Final = {
    "Authorization": "Basic " + base64.b64encode(b"guest:guest").decode(),
    "Content-Type": "application/json",
}
BARRIER: Final = "penstock-testing"
"""Global parameter whose change is awaited on the disk."""


class BrokerProcess(Observed):
    """`penstock serve` with a data directory. The ports stay the same after a restart."""

    def __init__(self, folder: Path, options: tuple[str, ...] = (), within_s: float = WITHIN_S) -> None:
        self.folder = folder
        """Folder with the broker's data."""
        self._options = options
        self._within_s = within_s
        self._process: subprocess.Popen[str] | None = None
        self._listen = self._http = "127.0.0.1:0"
        self._lines: deque[str] = deque(maxlen=LINES_MOST)
        self._reader: threading.Thread | None = None
        """Thread that reads the broker's log; None while the broker does not run."""
        self.start()

    # The process

    @property
    def pid(self) -> int:
        """Number of the process. Raises StartError while the broker does not run."""
        return self._running().pid

    @property
    def url(self) -> str:
        """URL of the virtual host `/`, for user guest and without heartbeats."""
        return f"amqp://guest:guest@{self._listen}/%2F?heartbeat=0"

    @property
    def http_url(self) -> str:
        """URL of the HTTP API, without /api."""
        return f"http://{self._http}"

    @property
    @override
    def within_s(self) -> float:
        return self._within_s

    def log(self) -> str:
        """Return the last lines of the broker's log."""
        return "\n".join(self._lines)

    def start(self) -> None:
        """Start the broker, on the ports of the first start, and wait until it serves.

        Raises StartError, with the log.
        """
        if self._process is not None and self._process.poll() is None:
            raise StartError(f"the broker runs already, as process {self._process.pid}")
        options = ["--listen", self._listen, "--http", self._http, "--data", str(self.folder / "data"), *self._options]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock", "serve", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._reader = self._read(self._process.stderr)
        said = self._process.stdout.readline().strip()
        addresses = dict(word.split("://") for word in said.split() if "://" in word)
        if not said.startswith("ready ") or "http" not in addresses:
            self.kill()
            raise StartError(f"the broker has not started: {said or self.log() or 'it has said nothing'}")
        self._listen, self._http = addresses["amqp"], addresses["http"]

    def _read(self, output: IO[str]) -> threading.Thread:
        def read() -> None:
            with output:
                self._lines.extend(line.rstrip("\n") for line in output)

        reader = threading.Thread(target=read, name="penstock-testing-log", daemon=True)
        reader.start()
        return reader

    def kill(self) -> None:
        """Kill the broker at once (SIGKILL), and wait for its end; no-op if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._end()

    def stop(self) -> int:
        """Stop the broker in an orderly way (SIGTERM); return its exit code."""
        process = self._running()
        process.terminate()
        try:
            process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            process.kill()
        self._end()
        return process.returncode

    def _end(self) -> None:
        assert self._process is not None
        self._process.wait(ANSWER_S)
        if self._reader is not None:
            self._reader.join(ANSWER_S)
            self._reader = None
        if self._process.stdout is not None:
            self._process.stdout.close()

    def restart(self) -> None:
        """Kill the broker, and start it again on the same ports."""
        self.kill()
        self.start()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            raise StartError("the broker does not run: start it first")
        return self._process

    # The disk

    def fail_disk(self) -> None:
        """Make every write to the broker's files fail from now on (EFBIG). The store's gate closes at the next durable
        change.

        Raises NotImplementedError on systems other than Linux, where a process cannot be limited from outside.
        """
        self._limit_files(0)

    def mend_disk(self) -> None:
        """Let the broker's writes succeed again."""
        self._limit_files(None)

    def _limit_files(self, octets: int | None) -> None:
        if not hasattr(resource, "prlimit"):
            raise NotImplementedError("the disk of another process can be made to fail on Linux only (prlimit)")
        most = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (most if octets is None else octets, most))

    # State of the broker, over HTTP

    @override
    def look(self, kind: str, name: str) -> View | None:
        status, answer = self._ask("GET", f"/penstock/why?{urlencode({kind: name, 'vhost': '/'})}")
        if status == http.client.NOT_FOUND:
            return None
        view: View = answer
        return view

    @override
    def wait_for(self, kind: str, name: str, holds: Callable[[View], bool], within_s: float) -> bool:
        until, pause = time.monotonic() + within_s, threading.Event()
        while True:
            view = self.look(kind, name)
            if view is not None and holds(view):
                return True
            if time.monotonic() >= until:
                return False
            pause.wait(LOOK_S)

    @override
    def settle(self) -> None:
        self._ask("PUT", f"/global-parameters/{quote(BARRIER)}", {"name": BARRIER, "value": uuid.uuid4().hex})

    def _ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        self._running()
        connection = http.client.HTTPConnection(self._http, timeout=ANSWER_S)
        try:
            given = None if body is None else json.dumps(body)
            connection.request(method, f"/api{path}", given, HEADERS)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        if response.status >= 400 and response.status != http.client.NOT_FOUND:
            raise RuntimeError(f"{method} {path} was answered {response.status}: {text.decode()}")
        return response.status, json.loads(text) if text else None
