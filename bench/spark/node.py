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

from penstock import sync
from penstock.client import Connection, Parameters, Properties
from penstock.sync import connect
from penstock.wire.amqp091.codec import encode_header, frame, method_frame
from penstock.wire.amqp091.spec import BASIC_PUBLISH, FRAME_BODY, FRAME_HEADER

UNBOUNDED = {"capacity-messages": "none", "capacity-bytes": "none"}
VARIETY = 1_000
"""Different bodies; they repeat after these, farther apart than any compression looks back."""


@dataclass
class Node:
    """A broker in a process of its own."""

    address: str
    pid: int

    def connect(self) -> Connection:
        """Return a connection."""
        host, port = self.address.split(":")
        return Connection(Parameters(host, int(port)))

    def fill(self, queue: str, rows: int, make: Callable[[int], tuple[Properties, bytes]]) -> None:
        """Declare a queue anew and fill it; `make` makes a message of its number modulo `VARIETY`."""
        octets = [self._frames(queue, *make(number)) for number in range(VARIETY)]
        with self.connect() as connection:
            channel = connection.channel()
            channel.queue_delete(queue)
            channel.queue_declare(queue, arguments=dict(UNBOUNDED))
            for number in itertools.count(0, VARIETY):
                if number >= rows:
                    break
                connection.send(b"".join(octets[: rows - number]), 60.0)
            _, found, _ = channel.queue_declare(queue, passive=True)
        assert found == rows, f"{found} of {rows} messages are in the queue"

    def _frames(self, queue: str, properties: Properties, body: bytes) -> bytes:
        method = method_frame(1, BASIC_PUBLISH, exchange="", routing_key=queue, mandatory=False, immediate=False)
        return method + frame(FRAME_HEADER, 1, encode_header(len(body), properties)) + frame(FRAME_BODY, 1, body)

    @contextmanager
    def control(self) -> Iterator[sync.Connection]:
        """Return a client of control operations for a while."""
        with connect(f"amqp://{self.address}", protocol="amqp091", timeout=120) as control:
            yield control


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
