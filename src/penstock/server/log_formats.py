"""Forms of a record of the log: as text, as a JSON object a line, as the Java broker's, and for the journal."""

from __future__ import annotations

import json
import logging
import time
from typing import Any, Final, TypeAlias

from typing_extensions import override

from penstock.logs.ids import DEBUG, ERROR, INFO, LEVEL_NAMES, LIBRARY, WARNING
from penstock.texts import printable, printable_json

RECORD_MOST: Final = 64 * 1024
"""Most characters of a record: a traceback may be long."""
PRIORITIES: Final = {DEBUG: 7, INFO: 6, WARNING: 4, ERROR: 3}
"""Priorities of syslog (sd-daemon(3)) by level; 2 is critical."""
ADMITTED: Final[dict[str, object]] = {"admitted": True}
"""Attribute of records of the log queue, which has applied the limits of their ids."""
BROKER: Final = "[Broker]"
"""Subject of a record without one."""
STANDARD: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", *ADMITTED})
"""Attributes of every record; others are its fields."""


class Text(logging.Formatter):
    """Formatter of text: date, time and milliseconds, level, id and message. It escapes control characters.

    In a node with shards the message begins with the shard. Date and time are formatted once a second. With `journal`
    each line begins with its priority instead, because journald adds a time of its own.
    """

    def __init__(self, journal: bool = False, shard: str = "") -> None:
        super().__init__()
        self._journal = journal
        self._shard = f"[shard:{shard}] " if shard else ""
        self._second = 0
        self._stamp = ""

    @override
    def format(self, record: logging.LogRecord) -> str:
        text = f"{record.levelname} {self._shard}{super().format(record)}"[:RECORD_MOST]
        if self._journal:
            return _marked(text, record.levelno)
        second, part = divmod(record.created, 1.0)
        if second != self._second:
            self._stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
            self._second = int(second)
        return f"{self._stamp},{int(part * 1000):03d} {text}\n"

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the message on one line, with its id; control characters, which clients may send, are escaped."""
        name, text = id_of(record), record.message
        return printable(text if not name or name in text else f"{name} : {text}")

    @override
    def formatException(self, ei: Any) -> str:
        """Return a traceback, with its line breaks."""
        return "\n".join(printable(line) for line in super().formatException(ei).split("\n"))


class Qpid(Text):
    """Formatter of the Java broker's operational log: `MESSAGE [subject] [subject] ID : text`, without time and level.

    The first subject is the actor, the second the object. A record without a subject is the broker's, or its shard's.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        text = logging.Formatter.format(self, record)[:RECORD_MOST]
        return _marked(text, record.levelno) if self._journal else text + "\n"

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        subject, words = _parts_of(record)
        if subject == BROKER and self._shard:
            subject = self._shard.rstrip()
        return printable(f"MESSAGE {subject} {subject} {words}")


class Json(logging.Formatter):
    """Formatter of a JSON object a line: time, level, id, message, and the fields of the record.

    A message is `[subject] ID : text`; the subject of a record without one is the broker.
    """

    def __init__(self, journal: bool = False, shard: str = "") -> None:
        super().__init__()
        self._journal = journal
        self._shard = shard

    @override
    def format(self, record: logging.LogRecord) -> str:
        millisecond = int(record.created * 1000)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(millisecond // 1000))
        fields: dict[str, object] = {
            "time": f"{stamp}.{millisecond % 1000:03d}Z",
            "level": LEVEL_NAMES.get(record.levelno, record.levelname.lower()),
            "id": id_of(record) or None,
            "message": " ".join(_parts_of(record))[:RECORD_MOST],
        }
        if self._shard:
            fields["shard"] = self._shard
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
    name, text = id_of(record), record.getMessage()
    subject, sign, words = text.partition(f" {name} : ")
    if not sign or not subject.startswith("["):
        subject, words = BROKER, text.removeprefix(f"{name} : ")
    return subject, f"{name} : {words}" if name else words


def _marked(text: str, level: int) -> str:
    """Return the lines of a record with their priority, for journald."""
    return "".join(f"<{_priority(level)}>{line}\n" for line in text.split("\n"))


def _priority(level: int) -> int:
    return PRIORITIES.get(level, 2 if level > ERROR else 6)


def id_of(record: logging.LogRecord) -> str:
    """Return the id of a record; empty without one."""
    log_id = getattr(record, "id", None)
    if isinstance(log_id, str):
        return log_id
    return "" if record.name == "penstock" else LIBRARY
