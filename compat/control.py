"""Stand-ins for `rabbitmqctl` and `make` that other people's tests call: they ask the driver, which has the broker.

The driver listens at a socket of the file system; `python -m compat.control rabbitmqctl WORDS` asks there.
"""

from __future__ import annotations

import json
import os
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import AF_UNIX, SHUT_WR, socket

from compat.nodes import ControlledBroker, attempt

PLACE = "COMPAT_CONTROL"
"""The environment variable that names the socket."""
ROOT = Path(__file__).resolve().parent.parent
NAMES = ("rabbitmqctl", "make")


class _Request(socketserver.StreamRequestHandler):
    """One command: a line of JSON each way."""

    def handle(self) -> None:
        name, *words = json.loads(self.rfile.readline())
        broker: ControlledBroker = self.server.broker  # type: ignore[attr-defined]
        done = attempt(broker.make if name == "make" else broker.control, words)
        self.wfile.write(json.dumps([done.returncode, done.stdout, done.stderr]).encode())


@contextmanager
def served(broker: ControlledBroker, folder: Path) -> Iterator[dict[str, str]]:
    """Take commands for this broker; gives the environment in which the commands in `folder` find it."""
    place = folder / "control"
    place.unlink(missing_ok=True)
    with socketserver.UnixStreamServer(str(place), _Request) as server:
        server.broker = broker  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield {PLACE: str(place)}
        finally:
            server.shutdown()


def commands(folder: Path) -> Path:
    """Write `rabbitmqctl` and `make` into the folder: the words after a node's name (`-n`) go to the driver."""
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        command = folder / name
        command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m compat.control {name} "$@"\n')
        command.chmod(0o755)
    return folder


def main(name: str, words: list[str]) -> int:
    """Ask the driver to do it; return the exit code."""
    if words[:1] == ["-n"]:
        words = words[2:]
    with socket(AF_UNIX) as asked:
        asked.connect(os.environ[PLACE])
        asked.sendall(json.dumps([name, *words]).encode() + b"\n")
        asked.shutdown(SHUT_WR)
        with asked.makefile() as answer:
            code, output, error = json.load(answer)
    sys.stdout.write(output)
    sys.stderr.write(error)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
