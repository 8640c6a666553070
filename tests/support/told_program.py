"""A program that obeys lines of JSON and answers with lines of JSON, with all processes that it starts."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

from tests.support.brokers import PATIENCE


class ToldProgram:
    """The program and its output."""

    def __init__(self, module: str, *words: str) -> None:
        self._alive, held = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"tests.support.{module}", *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[held],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        os.close(held)
        self._unread: list[dict[str, Any]] = []

    def tell(self, **order: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def await_row(self, **fields: object) -> dict[str, Any]:
        """Return the next row with these fields; None stands for any value. Rows of others stay for later."""
        assert self.process.stdout is not None
        while True:
            for row in self._unread:
                if all(name in row and value in (None, row[name]) for name, value in fields.items()):
                    self._unread.remove(row)
                    return row
            line = self.process.stdout.readline()
            assert line, self.process.communicate()[1]
            self._unread.append(json.loads(line))

    def await_end_of_all(self) -> None:
        """Wait until neither the program nor a process that it has started is left."""
        assert select.select([self._alive], [], [], PATIENCE)[0], "a process lives on"
        assert os.read(self._alive, 1) == b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.process:
            self.process.kill()
        self.await_end_of_all()
        os.close(self._alive)
