"""Writers in processes of their own, and what they say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.store.records import QueuePosition
from tests.support.brokers import PATIENCE, eventually
from tests.support.open_stores import Contents
from tests.support.store_writer_process import KEPT, step


class Writer:
    """One process; see writer.py."""

    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.store_writer_process", url], stdout=subprocess.PIPE, text=True
        )
        self.said: list[list[str]] = []
        """Event and what was told of it, in order."""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def events(self, event: str) -> list[str]:
        """Return what was told of each event of a kind."""
        return [words for name, words in list(self.said) if name == event]

    def committed(self) -> int:
        """Return the highest number of a commit that was done."""
        return max((int(words) for words in self.events("committed")), default=0)

    def await_event(self, event: str) -> str:
        """Return what was told of the last event of a kind, when there is one."""
        return eventually(lambda: self.events(event), f"'{event}', and not {self.said[-3:]}")[-1]

    def await_commits(self, more: int = 1) -> int:
        """Return the highest number when it is so much higher."""
        before = self.committed()
        return eventually(lambda: self.committed() >= before + more and self.committed(), f"{more} commits more")

    @property
    def epoch(self) -> int:
        return int(self.await_event("open").split()[0])

    def stop(self) -> None:
        """Stop it as SIGSTOP does, and return when it is."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it, and return when all that it has said is heard."""
        self.process.kill()
        self.wait()

    def wait(self) -> int:
        """Return its exit code when it has ended and all that it has said is heard."""
        code = self.process.wait(PATIENCE)
        self._listener.join(PATIENCE)
        return code

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                event, _, words = line.rstrip("\n").partition(" ")
                self.said.append([event, words])


@contextmanager
def writing(url: str) -> Iterator[Writer]:
    """Run a writer, and kill it at the end."""
    writer = Writer(url)
    try:
        yield writer
    finally:
        writer.kill()


def assert_state_of(found: Contents, least: int, most: int) -> int:
    """Assert that a store is as some commit of these has left it, all of it and nothing else; return which."""
    (position,) = found.positions
    last = position.tail
    assert least <= last <= most
    assert [row.number for row in found.rows] == list(range(max(1, last - KEPT + 1), last + 1))
    for row in found.rows:
        assert [row] == step(row.number, row.first).rows
    assert position == QueuePosition(1, last, found.rows[-1].first)
    return last
