"""The log on standard error, written by a thread of its own: a terminal that stands still delays no message.

Lines are made where they are logged and collected; when there are many, the writer comes for them every few
milliseconds and hands them on in one write. A thread that is woken for each line takes the interpreter from the event
loop each time, and gates may open and close a thousand times a second.
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
"""Lines waiting for the writer; at the bound new ones are dropped and counted, and the count is logged."""
MANY: Final = 20
"""Lines in one write after which the writer waits a moment for others."""
PAUSE_S: Final = 0.02
LEAVE_S: Final = 1.0
"""Seconds that the writer gets for its last lines: a reader that stands still does not keep the process alive."""


class _Stamped(logging.Formatter):
    """Date, time and milliseconds before each line; date and time are made once a second. Nothing unprintable."""

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
        """Return the message on one line; names in it are the clients'."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: logging._SysExcInfoType) -> str:
        """Return a traceback, whose lines stay lines."""
        return "\n".join(printable(line) for line in super().formatException(ei).split("\n"))


class _Lines(logging.Handler):
    """What is logged and not written yet."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_Stamped())
        self.waiting: deque[str] = deque()
        self.dropped = 0
        """Lines dropped ever; counted by those who log, under the handler's lock."""
        self.some = threading.Event()
        self.ended = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record's line for the writer."""
        if len(self.waiting) >= LINES_WAITING:
            self.dropped += 1
            return
        self.waiting.append(self.format(record))
        if not self.some.is_set():
            self.some.set()

    def end(self) -> None:
        """Have the writer write what there is, and end."""
        self.ended.set()
        self.some.set()


@contextlib.contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Write the log of `penstock` to standard error while the context lasts."""
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
    """Write lines until there will be no more; past `sys.stderr`, whose lock the interpreter waits for when it ends."""
    waiting, told = lines.waiting, 0
    while not lines.ended.is_set() or waiting:
        lines.some.wait()
        lines.some.clear()
        count = len(waiting)
        text = "".join(waiting.popleft() for _ in range(count))
        dropped = lines.dropped
        if dropped > told:
            text += f"{dropped - told:,} lines of this log were dropped: it was not read as fast as they came\n"
            told = dropped
        data = text.encode(errors="backslashreplace")
        with contextlib.suppress(OSError):  # Nobody reads it any more.
            while data:
                data = data[os.write(descriptor, data) :]
        if count >= MANY:
            lines.ended.wait(PAUSE_S)
