"""A broker of its own for the measurements, and queues that are filled fast."""

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock import sync
from penstock.client.engine.messages import Message
from penstock.content.properties import Properties
from penstock.sync import connect

UNBOUNDED: Final[dict[str, Any]] = {"capacity-messages": "none", "capacity-bytes": "none"}
VARIETY = 1_000
"""Different bodies; they repeat after these, farther apart than any compression looks back."""


@dataclass
class Node:
    """A broker in a process of its own."""

    address: str
    pid: int

    def fill(self, queue: str, rows: int, make: Callable[[int], tuple[Properties, bytes]]) -> None:
        """Declare a queue anew and fill it; `make` makes a message of its number modulo `VARIETY`."""
        made = (make(number) for number in range(VARIETY))
        messages = [Message(body, properties=properties) for properties, body in made]
        with self.connected() as connection:
            connection.delete_queue(queue)
            connection.declare_queue(queue, durable=False, **UNBOUNDED)
            publisher = connection.publisher(queue, durable=False, producerWindowSize=-1)
            found = publisher.send_many(itertools.islice(itertools.cycle(messages), rows)).confirmed
        assert found == rows, f"{found} of {rows} messages are in the queue"

    @contextmanager
    def connected(self) -> Iterator[sync.Connection]:
        """Return a connection for a while."""
        with connect(f"amqp://{self.address}", protocol="amqp091", timeout=120) as connection:
            yield connection


@contextmanager
def running(data: Path | None = None, log: Path | None = None) -> Iterator[Node]:
    """A broker by this interpreter and its path of modules; it stores its data in a folder, or nothing.

    Its log is written to a file, or to standard error.
    """
    store = ("--memory",) if data is None else ("--data", str(data))
    command = (sys.executable, "-m", "penstock", "serve", *store, "--listen", "127.0.0.1:0")
    with (
        contextlib.nullcontext() if log is None else log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=dict(os.environ)) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready"), f"the broker did not start: {line!r}"
        try:
            yield Node(line.split("amqp://")[1].split()[0].rstrip("/"), process.pid)
        finally:
            process.terminate()
