"""Log writer for standard error: a thread of its own, so that a stopped terminal, pipe or disk delays no message.

Records are formatted by the logging thread and queued. When there are many records, the writer wakes every few
milliseconds and writes them together. A wake-up per record would take the GIL from the event loop each time, and gates
may open and close a thousand times a second. See docs/logs.md.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import platform
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from math import inf
from typing import Any, Final, Generic, TypeAlias, TypeVar

from typing_extensions import override

from penstock.connections.log_line import LimitedLines, LogLine
from penstock.driver.driver import BrokerDriver
from penstock.logs.ids import (
    DEBUG,
    ERROR,
    INFO,
    LEVEL_NAMES,
    LIBRARY,
    LOG_DROPPED,
    STARTED,
    WARNING,
    level_named,
    level_of,
)
from penstock.logs.logger import log
from penstock.server.process_limits import memory_bytes, open_files
from penstock.settings.config import Settings, changed_settings, without_secrets
from penstock.texts import printable, printable_json
from penstock.version import VERSION

Item = TypeVar("Item")

LINES_WAITING: Final = 10_000
"""Most records that wait for the writer; further records are dropped and counted, and the count is logged."""
OCTETS_WAITING: Final = 8 * 1024 * 1024
"""Most characters of waiting records."""
RECORD_MOST: Final = 64 * 1024
"""Most characters of a record: a traceback may be long."""
ITEMS_AT_ONCE: Final = 1000
"""Most records per write."""
MANY: Final = 20
"""Records per write above which a writer pauses for more: each write takes the GIL from the event loop."""
PAUSE_S: Final = 0.02
LEAVE_S: Final = 1.0
"""Seconds that the writer has for its last records: a stopped reader does not keep the process alive."""

PRIORITIES: Final = {DEBUG: 7, INFO: 6, WARNING: 4, ERROR: 3}
"""Priorities of syslog (sd-daemon(3)) by level; 2 is critical."""
LIBRARIES: Final = ("asyncio", "uvicorn.error", "concurrent.futures")
"""Loggers of libraries whose warnings and errors are written too."""
ADMITTED: Final[dict[str, object]] = {"admitted": True}
"""Attribute of records of the log queue, which has applied the limits of their ids."""
STANDARD: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", *ADMITTED})
"""Attributes of every record; others are its fields."""


class Text(logging.Formatter):
    """Formatter of text: date, time and milliseconds, level, id and message. It escapes control characters.

    Date and time are formatted once a second. With `journal` each line begins with its priority instead, because
    journald adds a time of its own.
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

    The first subject is the actor, the second the object. A record without a subject is the broker's.
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
        fields: dict[str, object] = {
            "time": f"{stamp}.{millisecond % 1000:03d}Z",
            "level": LEVEL_NAMES.get(record.levelno, record.levelname.lower()),
            "id": _id_of(record) or None,
            "message": " ".join(_parts_of(record))[:RECORD_MOST],
        }
        if record.name != "penstock":
            fields["logger"] = record.name
        fields |= {name: value for name, value in vars(record).items() if name not in STANDARD and name not in fields}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)[:RECORD_MOST]
        line = printable_json(json.dumps(fields, ensure_ascii=False, default=str))
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
    log_id = getattr(record, "id", None)
    if isinstance(log_id, str):
        return log_id
    return "" if record.name == "penstock" else LIBRARY


def is_journal(descriptor: int, environment: Mapping[str, str]) -> bool:
    """Return whether a descriptor leads to journald: JOURNAL_STREAM has its device and inode (systemd.exec)."""
    given = environment.get("JOURNAL_STREAM", "")
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return given == f"{status.st_dev}:{status.st_ino}"


class WriterThread(Generic[Item]):
    """Thread that writes items in the order of their arrival; `waiting` are the items not taken yet."""

    def __init__(self, name: str, write: Callable[[list[Item]], None], leave_s: float) -> None:
        """`write` gets up to `ITEMS_AT_ONCE` items; `leave_s` are the seconds for the rest at the end."""
        self.waiting: deque[Item] = deque()
        self.ended = threading.Event()
        self._write = write
        self._leave_s = leave_s
        self._some = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.start = self._thread.start
        self.is_alive = self._thread.is_alive

    def add(self, items: Sequence[Item]) -> None:
        """Queue items; this call never blocks."""
        self.waiting.extend(items)
        if not self._some.is_set():
            self._some.set()

    def end(self) -> None:
        """Write the rest."""
        if self.is_alive():
            self.ended.set()
            self._some.set()
            self._thread.join(self._leave_s)

    def take(self) -> list[Item]:
        """Take the oldest items."""
        return [self.waiting.popleft() for _ in range(min(len(self.waiting), ITEMS_AT_ONCE))]

    def _run(self) -> None:
        while not self.ended.is_set() or self.waiting:
            if not self.waiting:
                self._some.wait()
            self._some.clear()
            items = self.take()
            self._write(items)
            if len(items) >= MANY:
                self.ended.wait(PAUSE_S)


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
        super().__init__("", {"id": _id_of(record)})
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
def logging_to_stderr(level: str = "info", form: str = "text") -> Iterator[None]:
    """Write the log of `penstock` to standard error during the context.

    `form` is a name in FORMATS. Warnings of libraries go there too. Raises ValueError for an unknown level.
    """
    descriptor = sys.stderr.fileno()
    journal = is_journal(descriptor, os.environ)
    lines = LogLines(FORMATS[form](journal), descriptor)
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


def log_start(settings: Settings, store: str, driver: BrokerDriver) -> None:
    """Log the start (BRK-1001). Users and keys are counted and never named."""
    build = import_module("penstock").build()
    changed = changed_settings(settings)
    limits = _limits(driver)
    fields: dict[str, object] = {
        "version": VERSION,
        "build": build,
        "python": platform.python_version(),
        "pid": os.getpid(),
        "store": str(without_secrets(store)) or None,
        "file": None if settings.file is None else str(settings.file),
        "settings": changed,
        "patterns": len(settings.patterns),
        "users": None if settings.users is None else len(settings.users),
        "limits": limits,
    }
    log(
        STARTED,
        "Startup : Version: %s Build: %s, Python %s, pid %d; store: %s; settings file: %s; limits: %s; "
        "settings without defaults: %s",
        VERSION,
        build,
        fields["python"],
        fields["pid"],
        fields["store"] or "none, what is durable is lost at the end",
        fields["file"] or "none",
        _pairs(limits),
        _pairs(changed) or "none",
        fields=fields,
    )


def _limits(driver: BrokerDriver) -> dict[str, object]:
    """Return the limits of the broker from this machine and the settings."""
    policy = driver.connection_limits
    memory = driver.broker.gates.memory
    return {
        "machine-memory-bytes": memory_bytes(),
        "memory-capacity-bytes": None if memory is None else int(memory.thresholds.capacity.bytes + memory.reserve),
        "open-files": open_files(),
        "cpus": os.cpu_count(),
        "connections": policy.connections_max or None,
        "message-bytes": policy.message_bytes_max,
    }


def _pairs(values: dict[str, object]) -> str:
    return ", ".join(f"{name}={'none' if value is None else value}" for name, value in values.items())


def counted_connections(count: int) -> str:
    """Return a number of connections as text."""
    return "1 connection is closed" if count == 1 else f"{count:,} connections are closed"


def slow_turn_s(settings: Settings) -> float:
    """Return the seconds from which a turn is slow; infinity for never."""
    return settings.slow_turn_ms / 1000 or inf
