"""Files of records: a log as JSON lines, in numbered files of one directory.

The flow log (`penstock.flowlog`) and the audit log (`penstock.auditlog`) are such files. A file is
PREFIX00000007.jsonl; with `.gz` after it, somebody has compressed it. `server/record_log.py` writes them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

SUFFIX: Final = ".jsonl"
COMPRESSED: Final = ".gz"
"""Ending of a compressed file, after `SUFFIX`: flow-00000007.jsonl.gz."""


class RecordFiles:
    """Names, version and reader of one kind of files."""

    def __init__(self, prefix: str, version: int, log: str, mode: int = 0o644) -> None:
        self.prefix = prefix
        """Beginning of each name."""
        self.version = version
        """Version of the schema that is written, in the field `v`."""
        self.log = log
        """Name of the log for people."""
        self.mode = mode
        """Permissions of new files."""

    def path(self, directory: Path, number: int) -> Path:
        """Return the path of a file by its number."""
        return directory / f"{self.prefix}{number:08d}{SUFFIX}"

    def number_of(self, path: Path) -> int | None:
        """Return the number in the name of one of these files; None for any other file."""
        name = path.name.removesuffix(COMPRESSED)
        digits = name.removeprefix(self.prefix).removesuffix(SUFFIX)
        return int(digits) if name == f"{self.prefix}{digits}{SUFFIX}" and digits.isdecimal() else None

    def list(self, directory: str | Path) -> list[Path]:
        """Return the files, oldest first, compressed ones too. Raises OSError if the directory cannot be read.

        A file that is there in both forms is being compressed: only the other one counts.
        """
        found: dict[int, Path] = {}
        for path in sorted(Path(directory).iterdir(), reverse=True):  # The compressed form comes before the other one.
            number = self.number_of(path)
            if number is not None:
                found[number] = path
        return [found[number] for number in sorted(found)]

    def read(self, directory: str | Path, *more: str | Path) -> Iterator[dict[str, Any]]:
        """Read all records, oldest first; those of several directories one directory after the other.

        An incomplete last line (its broker was killed, or is writing it) is left out, and so are the incomplete end of
        a compressed file and a file that is deleted meanwhile. Raises ValueError for any other line that is not a
        record, and for a record of a newer schema, with file and line. Raises OSError if a directory cannot be read.
        """
        for folder in (directory, *more):
            for path in self.list(folder):
                try:
                    with _open(path) as lines:
                        for number, line in enumerate(lines, 1):
                            if line.endswith(b"\n"):
                                yield self._record(path, number, line)
                except (FileNotFoundError, EOFError):
                    continue

    def _record(self, path: Path, number: int, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        if not isinstance(record, dict):
            raise ValueError(f"{path}, line {number}: a record is a JSON object, not {line[:40]!r}")
        version = record.get("v", self.version)
        if not isinstance(version, int) or version > self.version:
            raise ValueError(
                f"{path}, line {number}: its schema is version {version!r}, and this Penstock reads up to "
                f"{self.version}; read it with the Penstock that wrote it, or a newer one"
            )
        return record


def _open(path: Path) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path) if path.suffix == COMPRESSED else path.open("rb")
