"""A LavinMQ of our own, where its program is installed."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from bench import processes
from bench.brokers import READY_SECONDS, BrokerUnavailable, speaks_amqp091

LAVINMQ = "lavinmq"


class LavinmqNode:
    """A LavinMQ with a data directory of its own; it may be started again and again."""

    def __init__(self, scratch: Path) -> None:
        program = shutil.which(LAVINMQ)
        if program is None:
            raise BrokerUnavailable("LavinMQ is not installed: no program lavinmq is in the PATH.")
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        self.title = f"LavinMQ {done.stdout.strip()}"
        self.log = scratch / "lavinmq.log"
        self._port = processes.free_port()
        data = scratch / "lavinmq"
        data.mkdir()
        self._command = [program, "-D", str(data), "-b", "127.0.0.1", "-p", str(self._port)]
        self._command += ["--http-port", str(processes.free_port())]

    def launch(self) -> subprocess.Popen[str]:
        """Start it; `port` waits until it is ready."""
        with self.log.open("a") as log:
            return subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, text=True, start_new_session=True
            )

    def port(self, process: subprocess.Popen[str]) -> int:
        """Wait until it is ready; return its port."""
        deadline = time.monotonic() + READY_SECONDS
        while not speaks_amqp091(self._port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise BrokerUnavailable(f"LavinMQ did not get ready within {READY_SECONDS:.0f} s, see {self.log}.")
            time.sleep(0.1)  # It tells nobody when it listens.
        return self._port

    def close(self) -> None:
        """Nothing of it is left but the process."""
