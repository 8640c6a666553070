"""The log on standard error, written by a thread of its own: a terminal that stands still delays no message."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

LINES_WAITING: Final = 10_000
"""Log records waiting for the writer; at the bound new ones are dropped."""
LEAVE_S: Final = 1.0
"""Seconds that the writer gets for its last lines: a reader that stands still does not keep the process alive."""


class _DroppingHandler(logging.handlers.QueueHandler):
    def enqueue(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(queue.Full):
            self.queue.put_nowait(record)


@contextlib.contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Write the log of `penstock` to standard error while the context lasts."""
    waiting: queue.Queue[Any] = queue.Queue(LINES_WAITING)
    writer = threading.Thread(target=_write, args=(waiting, sys.stderr.fileno()), name="penstock-log", daemon=True)
    handler = _DroppingHandler(waiting)
    logger = logging.getLogger("penstock")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    writer.start()
    try:
        yield
    finally:
        logger.removeHandler(handler)
        with contextlib.suppress(queue.Full):
            waiting.put(None, timeout=LEAVE_S)
        writer.join(LEAVE_S)


def _write(waiting: queue.Queue[Any], descriptor: int) -> None:
    """Write records until None comes; past `sys.stderr`, whose lock the interpreter waits for when it ends."""
    form = logging.Formatter("%(asctime)s %(message)s")
    while (record := waiting.get()) is not None:
        line = (form.format(record) + "\n").encode(errors="backslashreplace")
        with contextlib.suppress(OSError):  # Nobody reads it any more.
            while line:
                line = line[os.write(descriptor, line) :]
