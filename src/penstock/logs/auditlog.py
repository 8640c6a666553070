"""Reader of the audit log: logins, refusals and changes, one JSON line each (docs/audit-log.md).

for record in penstock.logs.auditlog.read("data/audit-log"):
    print(record["wall"], record["event"], record["user"], record.get("subject"))

spark.read.schema(penstock.logs.auditlog.SCHEMA).json("data/audit-log")
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from penstock.logs.record_files import RecordFiles

VERSION: Final = 1
"""Version of the schema; raised when a field changes its meaning or is removed, not for new fields and events."""

RECORD: Final[dict[str, tuple[str, str]]] = {
    "v": ("INT", "version of the schema: 1. It changes when a field changes its meaning or is removed"),
    "event": ("STRING", "what happened"),
    "wall": ("DOUBLE", "seconds since 1970"),
    "mono": ("DOUBLE", "seconds of a clock that is never set"),
    "user": ("STRING", "user; empty if it is not known"),
    "address": ("STRING", "host and port of the client; `file` for a settings file that was read again"),
    "protocol": ("STRING", "`AMQP 0-9-1`, `AMQP 1.0`, `http` or `signal`"),
    "mechanism": ("STRING", "authentication mechanism of a login"),
    "connection": ("STRING", "number of the connection, as in the broker's log (con:2)"),
    "vhost": ("STRING", "virtual host of the connection"),
    "operation": ("STRING", "method (`queue.delete`), control operation (`settings.set`), or method and path of HTTP"),
    "subject": ("STRING", "name of the object"),
    "before": ("STRING", "its state before the change, in JSON"),
    "after": ("STRING", "what was asked for, in JSON"),
    "reason": ("STRING", "reason of a refusal, `temporary` or `summed`"),
    "count": ("BIGINT", "number of events in a sum, or of lost records"),
    "cause": ("STRING", "cause of lost records"),
    "version": ("STRING", "version of Penstock, at the start"),
}
"""Fields of a record: types in Spark's names, and meanings. A record has the fields that apply to its event."""

FIELDS: Final = {name: kind for name, (kind, _) in RECORD.items()}
"""Types of the fields, in Spark's names."""

EVENTS: Final = ("start", "stop", "login", "login-refused", "access-refused", "change", "lost")

SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items())
"""The fields as a schema for Spark: `spark.read.schema(SCHEMA).json(directory)`."""

FILES: Final = RecordFiles("audit-", VERSION, "audit log")


def files(directory: str | Path) -> list[Path]:
    """Return the log's files, oldest first, compressed files included. Raises OSError if the directory cannot be
    read.
    """
    return FILES.list(directory)


def read(directory: str | Path, *more: str | Path) -> Iterator[dict[str, Any]]:
    """Read all records, oldest first; see `RecordFiles.read`."""
    return FILES.read(directory, *more)
