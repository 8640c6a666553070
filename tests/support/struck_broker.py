"""A broker that is killed under its clients, and serves again at the same address: a process, or a shard of a node."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.brokers import BrokerProcess, eventually, serving, settings_file

BROKER, SHARD = "broker", "shard"
NEIGHBOUR = "b"
"""Virtual host in the second shard of a node."""


class StruckBroker:
    """A broker with a store, or a node whose first shard has the virtual host `/`."""

    def __init__(self, folder: Path, kind: str, stack: ExitStack) -> None:
        self.kind = kind
        self._folder = folder
        self._stack = stack
        self._file = settings_file(folder, f'[broker]\nvhosts = ["/", "{NEIGHBOUR}"]\n')
        self._life = ExitStack()
        stack.callback(lambda: self._life.close())
        self.process = self._start("127.0.0.1:0")

    def _start(self, address: str) -> BrokerProcess:
        shards = ("--shards", "2") if self.kind == SHARD else ()
        options = (*shards, "--data", str(self._folder / "data"), *self._file)
        return self._life.enter_context(serving(self._folder, *options, listen=(address,)))

    @property
    def url(self) -> str:
        return self.process.url

    def processes(self, shard: str) -> list[int]:
        """Return the processes of a shard so far, by the log of the node."""
        return [int(pid) for pid in re.findall(rf"shard '{shard}' serves \(process (\d+)\)", self.process.log())]

    def strike(self, shard: str = "1") -> None:
        """Kill a broker, or a shard of a node, with signal 9; return once it serves again."""
        if self.kind == BROKER:
            address = f"{self.process.host}:{self.process.port}"
            self.process.kill()
            self._life.close()
            self.process = self._start(address)
            return
        before = self.processes(shard)
        os.kill(before[-1], signal.SIGKILL)
        eventually(lambda: len(self.processes(shard)) > len(before), f"shard {shard} serves again")


@contextmanager
def struck_broker(folder: Path, kind: str) -> Iterator[StruckBroker]:
    """Run such a broker for as long as the context lasts."""
    with ExitStack() as stack:
        yield StruckBroker(folder, kind, stack)
