"""The log on standard error, written by a thread of its own: a terminal that stands still delays no message."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import queue
import sys
from collections.abc import Iterator
from typing import Any

LINES_WAITING = 10_000
"""Log records waiting for the writer; at the bound new ones are dropped."""


class _DroppingHandler(logging.handlers.QueueHandler):
    def enqueue(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(queue.Full):
            self.queue.put_nowait(record)


@contextlib.contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Write the log of `penstock` to standard error while the context lasts."""
    waiting: queue.Queue[Any] = queue.Queue(LINES_WAITING)
    writer = logging.StreamHandler(sys.stderr)
    writer.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    listener = logging.handlers.QueueListener(waiting, writer)
    handler = _DroppingHandler(waiting)
    logger = logging.getLogger("penstock")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    listener.start()
    try:
        yield
    finally:
        logger.removeHandler(handler)
        listener.stop()
