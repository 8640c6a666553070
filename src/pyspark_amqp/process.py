"""Reader's end of a spool's process: starts it, sends requests, and restarts it after its death.

The process reads requests from a pipe, and ends when the reader's end of the pipe is closed, even by the death of the
driver. The settings are sent through the pipe too, so that no password is in an argument or in the environment.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import Any, Final

from pyspark_amqp.errors import SpoolUnusable
from pyspark_amqp.spool.settings import Settings
from pyspark_penstock.errors import BrokerUnreachable

LOCK_SECONDS: Final = 15.0
"""Seconds to wait for the end of an earlier query's process, which ends after its reader's death."""
END_SECONDS: Final = 15.0
"""Seconds to wait for the orderly end of a process; then it is killed."""
STARTS: Final = 3
"""Most processes that may die during one request."""
_BROKER: Final = ("refused", "unreachable")


class SpoolProcess:
    """Process of a spool, started on first use; all requests come from one thread."""

    def __init__(self, settings: Settings, lock_seconds: float = LOCK_SECONDS) -> None:
        self._settings, self._lock_seconds = settings, lock_seconds
        self._process: subprocess.Popen[str] | None = None
        self.drains = False
        """True for a query that reads the present messages and ends; set it before the first request."""
        self.opened: dict[str, Any] = {}
        """Answer to the first ``open``."""

    @property
    def pid(self) -> int | None:
        """Number of the process; None while there is none."""
        return None if self._process is None else self._process.pid

    def open(self) -> dict[str, Any]:
        """Start the process, if there is none; return the spool's id and positions at its first start."""
        if not self.opened:
            self.opened = self._retried(None)
        return self.opened

    def ask(self, operation: str, **fields: object) -> dict[str, Any]:
        """Return the answer to a request.

        Raises `SpoolUnusable` or `BrokerUnreachable` with the process's own sentence.
        """
        self.open()
        return self._retried({"op": operation, **fields})

    def _retried(self, request: dict[str, Any] | None) -> dict[str, Any]:
        for _ in range(STARTS):
            try:
                if self._process is None:
                    opened = self._start()
                    if request is None:
                        return opened
                assert request is not None
                return self._exchange(request)
            except (EOFError, BrokenPipeError):
                self._reap()
        raise SpoolUnusable(f"the process of the spool {self._settings.spool} died {STARTS} times; its log says why")

    def _start(self) -> dict[str, Any]:
        path = os.pathsep.join(place for place in sys.path if place)
        # Otherwise the package would look for the Python of Spark's workers.
        environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pyspark_amqp.spool"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,  # Signals of a terminal are for the driver.
        )
        request = {"op": "open", "settings": self._settings.to_json(), "drains": self.drains}
        try:
            return self._exchange({**request, "lock_seconds": self._lock_seconds})
        except (SpoolUnusable, BrokerUnreachable):
            self.close()
            raise

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line.endswith("\n"):
            raise EOFError
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            kind = BrokerUnreachable if answer["kind"] in _BROKER else SpoolUnusable
            raise kind(answer["error"])
        return answer

    def close(self) -> None:
        """End the process and wait until it has released the spool; the next request starts another process."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
            self._reap()

    def _reap(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
