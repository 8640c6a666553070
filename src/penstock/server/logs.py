"""Log writer for standard error: a thread of its own, so that a stopped terminal delays no message.

Lines are formatted by the logging thread and queued. When there are many, the writer wakes every few milliseconds and
writes them together. A wake-up per line would take the GIL from the event loop each time, and gates may open and close
a thousand times a second.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Final

from penstock.setting_names.escapes import printable

LINES_WAITING: Final = 10_000
"""Most lines that wait for the writer; further ones are dropped and counted, and the count is logged."""
MANY: Final = 20
"""Lines per write from which the writer pauses for more."""
PAUSE_S: Final = 0.02
LEAVE_S: Final = 1.0
"""Seconds that the writer has for its last lines: a stopped reader does not keep the process alive."""


class _Stamped(logging.Formatter):
    """Formatter with date, time and milliseconds; date and time are formatted once a second.

    It escapes control characters.
    """

    def __init__(self) -> None:
        super().__init__()
        self._second = 0
        self._stamp = ""

    def format(self, record: logging.LogRecord) -> str:
        second, part = divmod(record.created, 1.0)
        if second != self._second:
            self._stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
            self._second = int(second)
        return f"{self._stamp},{int(part * 1000):03d} {super().format(record)}\n"

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the message on one line; clients choose the names in it."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: logging._SysExcInfoType) -> str:
        """Return a traceback, with its line breaks."""
        return "\n".join(printable(line) for line in super().formatException(ei).split("\n"))


class _Lines(logging.Handler):
    """Handler that queues lines for the writer."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_Stamped())
        self.waiting: deque[str] = deque()
        self.dropped = 0
        """Total of dropped lines; counted under the handler's lock."""
        self.some = threading.Event()
        self.ended = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record's line."""
        if len(self.waiting) >= LINES_WAITING:
            self.dropped += 1
            return
        self.waiting.append(self.format(record))
        if not self.some.is_set():
            self.some.set()

    def end(self) -> None:
        """End the writer after the queued lines."""
        self.ended.set()
        self.some.set()


@contextlib.contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Write the log of `penstock` to standard error during the context."""
    lines = _Lines()
    writer = threading.Thread(target=_write, args=(lines, sys.stderr.fileno()), name="penstock-log", daemon=True)
    logger = logging.getLogger("penstock")
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    writer.start()
    try:
        yield
    finally:
        logger.removeHandler(lines)
        lines.end()
        writer.join(LEAVE_S)


def _write(lines: _Lines, descriptor: int) -> None:
    """Write lines until the end. It bypasses `sys.stderr`, whose lock the interpreter takes at exit."""
    waiting, reported = lines.waiting, 0
    while not lines.ended.is_set() or waiting:
        lines.some.wait()
        lines.some.clear()
        count = len(waiting)
        text = "".join(waiting.popleft() for _ in range(count))
        dropped = lines.dropped
        if dropped > reported:
            text += f"{dropped - reported:,} lines of this log were dropped: it was not read as fast as they came\n"
            reported = dropped
        data = text.encode(errors="backslashreplace")
        with contextlib.suppress(OSError):  # The reader is gone.
            while data:
                data = data[os.write(descriptor, data) :]
        if count >= MANY:
            lines.ended.wait(PAUSE_S)
