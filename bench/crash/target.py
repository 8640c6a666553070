"""The broker that is killed: started, killed and started again on the same data directory."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

from bench import processes
from bench.brokers import RABBITMQ, PenstockNode, RabbitmqNode
from bench.crash.promises import Promises

PROMISES = {
    # Its transactions are no units; it answers declarations, purges and tx.commit before they are on the disk, and its
    # dead letters go from queue to queue in memory. It knows up to where a queue was delivered, not which messages.
    RABBITMQ: Promises(False, False, False, False, declarations=False, transients=False, marks=False),
}
"""What is less than all that is judged, by broker."""


class Target:
    """A broker on one data directory."""

    def __init__(self, name: str, scratch: Path) -> None:
        self.ours = name != RABBITMQ
        self.promises = PROMISES.get(name, Promises())
        self.scratch = scratch
        self.node = self.make_node(name)
        self.restarts: list[float] = []
        """Seconds from each start to readiness."""
        self.kills = 0
        self.store_kills = 0
        self._process: subprocess.Popen[str] | None = None

    def make_node(self, name: str) -> PenstockNode | RabbitmqNode:
        """Return what is started and killed."""
        return PenstockNode(name, self.scratch) if self.ours else RabbitmqNode(self.scratch)

    @property
    def _copy(self) -> Path:
        """The data directory as the last kill under load has left it."""
        return self.scratch / "as-killed"

    def start(self) -> int:
        """Start it and wait until it is ready; return its port."""
        begun = time.monotonic()
        self._process = self.node.launch()
        port = self.node.port(self._process)
        self.restarts.append(time.monotonic() - begun)
        return port

    def start_and_kill(self, chance: random.Random) -> None:
        """Start it, and kill it before it is ready, or soon after."""
        self._process = self.node.launch()
        time.sleep(chance.uniform(0.0, 1.1 * (self.restarts[-1] if self.restarts else 1.0)))
        self.kill()

    def stop_and_kill(self, chance: random.Random) -> None:
        """Ask it to stop, and kill it when it has not long begun."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        time.sleep(chance.uniform(0.0, 0.3))
        self.kill()

    def strike(self) -> None:
        """Send the signal that kills it, from any thread; `kill` does the rest."""
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """Kill it and all that it has started, at once."""
        process = self._process
        if process is None:
            return
        self._process = None
        self.kills += process.poll() in (None, -signal.SIGKILL)
        for pid in processes.tree(process.pid):
            with contextlib.suppress(ProcessLookupError):  # it ends with its parent
                os.kill(pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def has_ended(self, within_s: float = 0.0) -> bool:
        """Tell whether it has ended, or does within so many seconds."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(within_s)
        return self._process.poll() is not None

    def keep_data(self) -> None:
        """Keep what the kill has left, while nobody is at work on it."""
        shutil.rmtree(self._copy, ignore_errors=True)
        if self.node.data.exists():
            shutil.copytree(self.node.data, self._copy, symlinks=True, ignore=shutil.ignore_patterns("*.sock"))

    def save_data(self, name: str) -> None:
        """Save what was kept last, or else what there is, under a name."""
        if self._copy.exists():
            self._copy.rename(self.scratch / f"{name}.data")

    store_is_mortal = False
    """Whether the store has processes of its own that can be killed."""

    def kill_store(self) -> None:
        """Kill it, if it can be killed."""

    def start_store(self) -> None:
        """Start it again, if it was killed, and wait until it is ready."""

    def close(self) -> None:
        """Let go of it; the directory stays."""
        self.kill()
        self.node.close()
