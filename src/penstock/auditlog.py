"""Reader of the audit log: logins, refusals and changes, one JSON line each (docs/audit-log.md).

for record in penstock.auditlog.read("data/audit-log"):
    print(record["wall"], record["event"], record["user"], record.get("subject"))

spark.read.schema(penstock.auditlog.SCHEMA).json("data/audit-log")
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from penstock.record_files import RecordFiles

VERSION: Final = 1
"""Version of the schema; raised when a field changes its meaning or is removed, not for new fields and events."""

FIELDS: Final[dict[str, str]] = {
    "v": "INT",
    "event": "STRING",
    "wall": "DOUBLE",
    "mono": "DOUBLE",
    "user": "STRING",
    "address": "STRING",
    "protocol": "STRING",
    "mechanism": "STRING",
    "connection": "STRING",
    "vhost": "STRING",
    "operation": "STRING",
    "subject": "STRING",
    "before": "STRING",
    "after": "STRING",
    "reason": "STRING",
    "count": "BIGINT",
    "cause": "STRING",
    "version": "STRING",
}
"""Fields of a record with their types in Spark's names; a record has those that apply to its event."""

EVENTS: Final = ("start", "stop", "login", "login-refused", "access-refused", "change", "lost")

SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items())
"""The fields as a schema for Spark: `spark.read.schema(SCHEMA).json(directory)`."""

FILES: Final = RecordFiles("audit-", VERSION, "audit log")


def files(directory: str | Path) -> list[Path]:
    """Return the log's files, oldest first, compressed ones too. Raises OSError if the directory cannot be read."""
    return FILES.list(directory)


def read(directory: str | Path, *more: str | Path) -> Iterator[dict[str, Any]]:
    """Read all records, oldest first; see `RecordFiles.read`."""
    return FILES.read(directory, *more)
