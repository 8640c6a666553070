"""Log writer for standard error: a thread of its own, so that a stopped terminal, pipe or disk delays no message.

Records are formatted by the logging thread and queued. When there are many, the writer wakes every few milliseconds and
writes them together. A wake-up per record would take the GIL from the event loop each time, and gates may open and
close a thousand times a second. See docs/logs.md.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from typing_extensions import override

from penstock.log_ids import DEBUG, ERROR, INFO, LEVEL_NAMES, LIBRARY, LOG_DROPPED, WARNING, level_named, level_of
from penstock.texts import printable, printable_json

LINES_WAITING: Final = 10_000
"""Most records that wait for the writer; further ones are dropped and counted, and the count is logged."""
OCTETS_WAITING: Final = 8 * 1024 * 1024
"""Most letters of those records."""
RECORD_MOST: Final = 64 * 1024
"""Most letters of a record: a traceback may be long."""
MANY: Final = 20
"""Records per write from which the writer pauses for more."""
PAUSE_S: Final = 0.02
LEAVE_S: Final = 1.0
"""Seconds that the writer has for its last records: a stopped reader does not keep the process alive."""

PRIORITIES: Final = {DEBUG: 7, INFO: 6, WARNING: 4, ERROR: 3}
"""Priorities of syslog (sd-daemon(3)) by level; 2 is critical."""
LIBRARIES: Final = ("asyncio", "uvicorn.error", "concurrent.futures")
"""Loggers of libraries whose warnings and errors are written too."""
STANDARD: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
"""Attributes of every record; others are its fields."""


class Text(logging.Formatter):
    """Formatter of text: date, time and milliseconds, level, id and message. It escapes control characters.

    Date and time are formatted once a second. With `journal` each line begins with its priority instead, for journald
    has a time of its own.
    """

    def __init__(self, journal: bool = False) -> None:
        super().__init__()
        self._journal = journal
        self._second = 0
        self._stamp = ""

    @override
    def format(self, record: logging.LogRecord) -> str:
        text = f"{record.levelname} {super().format(record)}"[:RECORD_MOST]
        if self._journal:
            return _marked(text, record.levelno)
        second, part = divmod(record.created, 1.0)
        if second != self._second:
            self._stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
            self._second = int(second)
        return f"{self._stamp},{int(part * 1000):03d} {text}\n"

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the message on one line, with its id; clients choose the names in it."""
        name, text = _id_of(record), record.message
        return printable(text if not name or name in text else f"{name} : {text}")

    @override
    def formatException(self, ei: Any) -> str:
        """Return a traceback, with its line breaks."""
        return "\n".join(printable(line) for line in super().formatException(ei).split("\n"))


class Qpid(Text):
    """Formatter of the Java broker's operational log: `MESSAGE [subject] [subject] ID : text`, without time and level.

    There the first subject is who acts and the second what it is about. A record without a subject is the broker's.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        text = logging.Formatter.format(self, record)[:RECORD_MOST]
        return _marked(text, record.levelno) if self._journal else text + "\n"

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        subject, words = _parts_of(record)
        return printable(f"MESSAGE {subject} {subject} {words}")


class Json(logging.Formatter):
    """Formatter of a JSON object a line: time, level, id, message, and the fields of the record.

    A message is `[subject] ID : text`; the subject of a record without one is the broker.
    """

    def __init__(self, journal: bool = False) -> None:
        super().__init__()
        self._journal = journal

    @override
    def format(self, record: logging.LogRecord) -> str:
        millisecond = int(record.created * 1000)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(millisecond // 1000))
        found: dict[str, object] = {
            "time": f"{stamp}.{millisecond % 1000:03d}Z",
            "level": LEVEL_NAMES.get(record.levelno, record.levelname.lower()),
            "id": _id_of(record) or None,
            "message": " ".join(_parts_of(record))[:RECORD_MOST],
        }
        if record.name != "penstock":
            found["logger"] = record.name
        found |= {name: value for name, value in vars(record).items() if name not in STANDARD and name not in found}
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)[:RECORD_MOST]
        line = printable_json(json.dumps(found, ensure_ascii=False, default=str))
        return f"<{_priority(record.levelno)}>{line}\n" if self._journal else line + "\n"


Format: TypeAlias = Text | Json
FORMATS: Final[dict[str, type[Format]]] = {"text": Text, "json": Json, "qpid": Qpid}
"""Formatters by the value of the setting `log-format`."""


def _parts_of(record: logging.LogRecord) -> tuple[str, str]:
    """Return the subject of a record, in brackets, and its text behind its id."""
    name, text = _id_of(record), record.getMessage()
    subject, sign, words = text.partition(f" {name} : ")
    if not sign or not subject.startswith("["):
        subject, words = "[Broker]", text.removeprefix(f"{name} : ")
    return subject, f"{name} : {words}" if name else words


def _marked(text: str, level: int) -> str:
    """Return the lines of a record with their priority, for journald."""
    return "".join(f"<{_priority(level)}>{line}\n" for line in text.split("\n"))


def _priority(level: int) -> int:
    return PRIORITIES.get(level, 2 if level > ERROR else 6)


def _id_of(record: logging.LogRecord) -> str:
    """Return the id of a record; empty without one."""
    found = getattr(record, "id", None)
    if isinstance(found, str):
        return found
    return "" if record.name == "penstock" else LIBRARY


def is_journal(descriptor: int, environment: Mapping[str, str]) -> bool:
    """Tell whether a descriptor is connected with journald: JOURNAL_STREAM has its device and inode (systemd.exec)."""
    given = environment.get("JOURNAL_STREAM", "")
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return given == f"{found.st_dev}:{found.st_ino}"


class LogLines(logging.Handler):
    """Handler that queues records for the writer."""

    def __init__(self, formatter: Format) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.waiting: deque[str] = deque()
        self.octets = 0
        """Letters of the records that wait; counted under the handler's lock."""
        self.dropped = 0
        """Total of dropped records; counted under the handler's lock."""
        self.some = threading.Event()
        self.ended = threading.Event()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record. As in every handler of `logging`, a record that cannot be formatted is no error here."""
        if len(self.waiting) >= LINES_WAITING or self.octets >= OCTETS_WAITING:
            self.dropped += 1
            return
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        self.octets += len(text)
        self.waiting.append(text)
        if not self.some.is_set():
            self.some.set()

    def take(self) -> tuple[str, int]:
        """Take all that waits as one text, with the number of records."""
        count = len(self.waiting)
        texts = [self.waiting.popleft() for _ in range(count)]
        with contextlib.nullcontext() if self.lock is None else self.lock:
            self.octets -= sum(map(len, texts))
        return "".join(texts), count

    def report(self, dropped: int) -> str:
        """Return the record that tells how many were dropped."""
        record = logging.LogRecord(
            "penstock",
            level_of(LOG_DROPPED),
            __file__,
            0,
            f"{dropped:,} lines of this log were dropped: it was not read as fast as they came",
            None,
            None,
        )
        record.id = LOG_DROPPED
        record.count = dropped
        return self.format(record)

    def end(self) -> None:
        """End the writer after the queued records."""
        self.ended.set()
        self.some.set()


def set_level(name: str) -> bool:
    """Change the level of the log on standard error, if there is one; return whether it has changed.

    Raises ValueError for an unknown name. The logger of a program that embeds a broker is its own: it stays.
    """
    logger = logging.getLogger("penstock")
    level = level_named(name)
    if logger.level == level or not any(isinstance(each, LogLines) for each in logger.handlers):
        return False
    logger.setLevel(level)
    return True


@contextlib.contextmanager
def logging_to_stderr(level: str = "info", form: str = "text") -> Iterator[None]:
    """Write the log of `penstock` to standard error during the context.

    `form` is a name in FORMATS. Warnings of libraries go there too. Raises ValueError for an unknown level.
    """
    descriptor = sys.stderr.fileno()
    journal = is_journal(descriptor, os.environ)
    lines = LogLines(FORMATS[form](journal))
    writer = threading.Thread(target=_write, args=(lines, descriptor), name="penstock-log", daemon=True)
    logger = logging.getLogger("penstock")
    loggers = [logger, *map(logging.getLogger, LIBRARIES)]
    for each in loggers:
        each.addHandler(lines)
    logger.setLevel(level_named(level))
    writer.start()
    try:
        yield
    finally:
        for each in loggers:
            each.removeHandler(lines)
        lines.end()
        writer.join(LEAVE_S)


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


def _write(lines: LogLines, descriptor: int) -> None:
    """Write records until the end. It bypasses `sys.stderr`, whose lock the interpreter takes at exit."""
    reported, unwritten = 0, 0
    while not lines.ended.is_set() or lines.waiting:
        lines.some.wait()
        lines.some.clear()
        text, count = lines.take()
        dropped = lines.dropped + unwritten
        if dropped > reported:
            text += lines.report(dropped - reported)
        if _put(descriptor, text.encode(errors="backslashreplace")):
            reported = dropped
        else:
            unwritten += count
        if count >= MANY:
            lines.ended.wait(PAUSE_S)


def _put(descriptor: int, data: bytes) -> bool:
    """Write everything; return false if that fails: the reader is gone, or its disk is full."""
    try:
        while data:
            try:
                data = data[os.write(descriptor, data) :]
            except BlockingIOError:  # Whoever shares the descriptor has made it so.
                select.select([], [descriptor], [])
    except OSError:
        return False
    return True
