"""Reader of the flow log, the record of all gates second by second (docs/flow-log.md).

for record in penstock.flowlog.read("data/flow-log"):
    print(record["wall"], record["event"], record.get("gate"))

spark.read.schema(penstock.flowlog.SCHEMA).json("data/flow-log")
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

VERSION: Final = 1
"""Version of the schema; raised when a field changes its meaning or is removed, not for new fields and events."""

FIELDS: Final[dict[str, str]] = {
    "v": "INT",
    "event": "STRING",
    "wall": "DOUBLE",
    "mono": "DOUBLE",
    "id": "STRING",
    "kind": "STRING",
    "gate": "STRING",
    "vhost": "STRING",
    "queue": "STRING",
    "producer": "STRING",
    "cause": "STRING",
    "setting": "STRING",
    "messages": "BIGINT",
    "bytes": "BIGINT",
    "count": "BIGINT",
    "count_bytes": "BIGINT",
    "paged_messages": "BIGINT",
    "paged_bytes": "BIGINT",
    "unacknowledged": "BIGINT",
    "open": "BOOLEAN",
    "blocked": "BIGINT",
    "waiting": "BIGINT",
    "consumers": "BIGINT",
    "granted": "BIGINT",
    "used": "BIGINT",
    "drained": "BIGINT",
    "moved": "BIGINT",
    "idle": "BIGINT",
}
"""Fields of a record with their types in Spark's names; a record has those that apply to its event."""

EVENTS: Final = (
    "start",
    "stop",
    "gate-closed",
    "gate-opened",
    "blocked",
    "unblocked",
    "stopped",
    "refused",
    "confirmed-late",
    "channel-closed",
    "dropped",
    "paging-started",
    "paging-stopped",
    "setting",
    "depth",
    "lost",
)

SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items())
"""The fields as a schema for Spark: `spark.read.schema(SCHEMA).json(directory)`."""

PREFIX: Final = "flow-"
SUFFIX: Final = ".jsonl"


def number_of(path: Path) -> int | None:
    """Return the number in the name of one of the log's files (flow-00000007.jsonl); None for any other file."""
    digits = path.name.removeprefix(PREFIX).removesuffix(SUFFIX)
    return int(digits) if path.name == f"{PREFIX}{digits}{SUFFIX}" and digits.isdecimal() else None


def files(directory: str | Path) -> list[Path]:
    """Return the log's files, oldest first. Raises OSError if the directory cannot be read."""
    found = [(number, path) for path in Path(directory).iterdir() if (number := number_of(path)) is not None]
    return [path for _, path in sorted(found)]


def read(directory: str | Path) -> Iterator[dict[str, Any]]:
    """Read all records, oldest first.

    An incomplete last line (its broker was killed, or is writing it) is left out, and so is a file that is deleted
    meanwhile. Raises ValueError for any other line that is not a record, with file and line.
    """
    for path in files(directory):
        try:
            with path.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    if line.endswith(b"\n"):
                        yield _record(path, number, line)
        except FileNotFoundError:
            continue


def _record(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{path}, line {number}: {error}") from None
    if not isinstance(record, dict):
        raise ValueError(f"{path}, line {number}: a record is a JSON object, not {line[:40]!r}")
    return record
