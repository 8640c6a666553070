"""Log on standard error, which a thread of its own writes: a stopped terminal, pipe or disk delays no message.

Records are formatted by the logging thread and queued. See docs/logs.md.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Final

from typing_extensions import override

from penstock.connections.log_line import LimitedLines, LogLine
from penstock.logs.ids import LOG_DROPPED, level_named, level_of
from penstock.server.log_formats import FORMATS, Format, id_of
from penstock.server.writer_thread import WriterThread

LINES_WAITING: Final = 10_000
"""Most records that wait for the writer; further records are dropped and counted, and the count is logged."""
OCTETS_WAITING: Final = 8 * 1024 * 1024
"""Most characters of waiting records."""
LEAVE_S: Final = 1.0
"""Seconds that the writer has for its last records: a stopped reader does not keep the process alive."""

LIBRARIES: Final = ("asyncio", "uvicorn.error", "concurrent.futures")
"""Loggers of libraries whose warnings and errors are written too."""


def is_journal(descriptor: int, environment: Mapping[str, str]) -> bool:
    """Return whether a descriptor leads to journald: JOURNAL_STREAM has its device and inode (systemd.exec)."""
    given = environment.get("JOURNAL_STREAM", "")
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return given == f"{status.st_dev}:{status.st_ino}"


class LogLines(logging.Handler):
    """Handler that queues records, and has them written to a descriptor.

    It bypasses `sys.stderr`, whose lock the interpreter takes at exit.
    """

    def __init__(self, formatter: Format, descriptor: int = 2) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.writer: WriterThread[str] = WriterThread("penstock-log", self._write, LEAVE_S)
        self._descriptor = descriptor
        self._octets = 0
        """Characters of the waiting records; counted under the handler's lock."""
        self.dropped = 0
        """Records that were dropped or not written, and are still to be reported; counted under the handler's lock."""
        self._limited = LimitedLines()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record, unless there are too many of its id; then the next record of any id follows their number."""
        now = time.monotonic()
        for line in self._limited.take(now):
            self._put(_record_of(line))
        if hasattr(record, "admitted") or self._limited.admit(_RecordLine(record), now):
            self._put(record)

    def _put(self, record: logging.LogRecord) -> None:
        """Queue a record. As in every handler of `logging`, a record that cannot be formatted raises no error here."""
        if len(self.writer.waiting) >= LINES_WAITING or self._octets >= OCTETS_WAITING:
            self.dropped += 1
            return
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        self._octets += len(text)
        self.writer.add((text,))

    def take(self, texts: list[str]) -> tuple[str, int]:
        """Return texts that the writer has taken as one, and the number of records dropped so far."""
        self.acquire()
        self._octets -= sum(map(len, texts))
        dropped, self.dropped = self.dropped, 0
        self.release()
        return "".join(texts), dropped

    def _write(self, texts: list[str]) -> None:
        text, dropped = self.take(texts)
        if dropped:
            text += self.report(dropped)
        if not _put(self._descriptor, text.encode(errors="backslashreplace")):
            self.acquire()
            self.dropped += dropped + len(texts)
            self.release()

    def report(self, dropped: int) -> str:
        """Return the record with the number of dropped records."""
        text = f"{dropped:,} lines of this log were dropped: it was not read as fast as they came"
        record = logging.LogRecord("penstock", level_of(LOG_DROPPED), __file__, 0, text, None, None)
        record.id, record.count = LOG_DROPPED, dropped
        return self.format(record)


class _RecordLine(LogLine):
    """Log line of a record that did not pass through the log queue."""

    __slots__ = ("record",)

    def __init__(self, record: logging.LogRecord) -> None:
        super().__init__("", {"id": id_of(record)})
        self.record = record


def _record_of(line: LogLine) -> logging.LogRecord:
    """Return the last record of several, with the number of the others in its text, and without its traceback."""
    assert isinstance(line, _RecordLine)
    record = line.record
    record.msg = f"{record.msg}{line.text}"
    record.exc_info = record.exc_text = None
    record.__dict__ |= {name: value for name, value in line.fields.items() if name != "id"}
    return record


def set_level(name: str) -> bool:
    """Change the level of the log on standard error, if there is one; return whether it has changed.

    Raises ValueError for an unknown name. The logger of a program that embeds a broker is not changed.
    """
    logger = logging.getLogger("penstock")
    level = level_named(name)
    if logger.level == level or not any(isinstance(each, LogLines) for each in logger.handlers):
        return False
    logger.setLevel(level)
    return True


@contextlib.contextmanager
def logging_to_stderr(level: str = "info", form: str = "text", shard: str = "") -> Iterator[None]:
    """Write the log of `penstock` to standard error during the context.

    `form` is a name in FORMATS, `shard` the shard of this process. Warnings of libraries go there too. Raises
    ValueError for an unknown level.
    """
    descriptor = sys.stderr.fileno()
    journal = is_journal(descriptor, os.environ)
    lines = LogLines(FORMATS[form](journal, shard), descriptor)
    logger = logging.getLogger("penstock")
    loggers = [logger, *map(logging.getLogger, LIBRARIES)]
    for each in loggers:
        each.addHandler(lines)
    logger.setLevel(level_named(level))
    lines.writer.start()
    try:
        yield
    finally:
        for each in loggers:
            each.removeHandler(lines)
        lines.writer.end()


@contextlib.contextmanager
def without_log() -> Iterator[None]:
    """Write no log during the context: without a handler Python would write warnings to standard error itself."""
    none = logging.NullHandler()
    loggers = [logging.getLogger(name) for name in ("penstock", *LIBRARIES)]
    for each in loggers:
        each.addHandler(none)
    try:
        yield
    finally:
        for each in loggers:
            each.removeHandler(none)


def _put(descriptor: int, data: bytes) -> bool:
    """Write everything; return False on failure: the reader has closed, or its disk is full."""
    try:
        while data:
            try:
                data = data[os.write(descriptor, data) :]
            except BlockingIOError:  # Another process that shares the descriptor has made it non-blocking.
                select.select([], [descriptor], [])
    except OSError:
        return False
    return True
