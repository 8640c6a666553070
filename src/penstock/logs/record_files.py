"""Files of records: a log as JSON lines, in numbered files of one directory.

The flow log (`penstock.logs.flowlog`) and the audit log (`penstock.logs.auditlog`) are such files. A file is
PREFIX00000007.jsonl; with the suffix `.gz` it was compressed from outside. `server/record_log.py` writes them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.texts import worded

if TYPE_CHECKING:
    from gzip import GzipFile

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""Bytes of lines that are searched at once."""
SUFFIX: Final = ".jsonl"
COMPRESSED: Final = ".gz"
"""Ending of a compressed file, after `SUFFIX`: flow-00000007.jsonl.gz."""


def _nobody(path: Path) -> None:
    """No-op callback for finished files."""


class RecordFiles:
    """Names, version and reader of one kind of files."""

    def __init__(self, prefix: str, version: int, log: str) -> None:
        self.prefix = prefix
        """Prefix of each name."""
        self.version = version
        """Version of the schema that is written, in the field `v`."""
        self.log = log
        """Displayed name of the log."""

    def path(self, directory: Path, number: int) -> Path:
        """Return the path of a file by its number."""
        return directory / f"{self.prefix}{number:08d}{SUFFIX}"

    def number_of(self, path: Path) -> int | None:
        """Return the number in the name of one of these files; None for any other file."""
        name = path.name.removesuffix(COMPRESSED)
        digits = name.removeprefix(self.prefix).removesuffix(SUFFIX)
        return int(digits) if name == f"{self.prefix}{digits}{SUFFIX}" and digits.isdecimal() else None

    def list(self, directory: str | Path) -> list[Path]:
        """Return the files, oldest first, compressed files included. Raises OSError if the directory cannot be read.

        A file that exists in both forms is being compressed: only the uncompressed file counts.
        """
        paths: dict[int, Path] = {}
        for path in sorted(Path(directory).iterdir(), reverse=True):  # The compressed form is listed first.
            number = self.number_of(path)
            if number is not None:
                paths[number] = path
        return [paths[number] for number in sorted(paths)]

    def folders(self, path: Path) -> Sequence[Path]:
        """Return the directories with files of this log at a path. Raises OSError if a directory cannot be read.

        The path is such a directory, a data directory, or has the directories of a node's shards: for each shard one
        with its name, or one in its data directory.
        """
        name = self.log.replace(" ", "-")
        named = [each for each in path.glob("*") if each.name.isdecimal()]
        shards = sorted([*named, *path.glob(f"shards/*/{name}")], key=lambda each: (len(str(each)), each))
        return [each for each in (path, path / name, *shards) if each.is_dir() and self.list(each)]

    def read(self, directory: str | Path, *more: str | Path) -> Iterator[dict[str, Any]]:
        """Read all records, oldest first; those of several directories one directory after the other.

        An incomplete last line (of a broker that was killed, or is writing) is left out, as are the incomplete end of a
        compressed file and a file that is deleted meanwhile. Raises ValueError for any other line that is not a record,
        and for a record of a newer schema, with file and line. Raises OSError if a directory cannot be read.
        """
        for folder in (directory, *more):
            for path in self.list(folder):
                with contextlib.suppress(FileNotFoundError, EOFError):
                    yield from self.read_file(path)

    def read_file(self, path: Path) -> Iterator[dict[str, Any]]:
        """Read the records of one file; see `read`. Raises EOFError for a truncated compressed file."""
        with _open(path) as lines:
            for number, line in enumerate(lines, 1):
                if line.endswith(b"\n"):
                    yield self._record(path, number, line)

    def read_holding(
        self, texts: Sequence[str], paths: Iterable[Path], report: Callable[[Path], None] = _nobody
    ) -> Iterator[dict[str, Any]]:
        """Read the records of files in which one of the texts is a value; see `read`.

        Only matching lines are parsed, so this takes a tenth of the time if they are few. The first and the last record
        of each file are included, and perhaps others: they show the time range of the file. `report` is called with
        each file that was read.
        """
        # The writer may escape unprintable characters in another way.
        printable = all(text.isprintable() for text in texts)
        values = {json.dumps(text, ensure_ascii=escaped).encode() for text in texts for escaped in (False, True)}
        for path in paths:
            with contextlib.suppress(FileNotFoundError, EOFError):
                yield from self._holding(path, values) if printable else self.read_file(path)
            report(path)

    def _holding(self, path: Path, values: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        rest, number = b"", 1
        with _open(path) as lines:
            for data in _chunks(lines):
                head, newline, tail = data.rpartition(b"\n")
                if not newline:
                    rest += tail
                    continue
                whole, rest, at = rest + head + newline, tail, 0
                places = _lines_with(whole, values)
                for begin, end in sorted(places | _outer_lines(whole)):
                    number += whole.count(b"\n", at, begin)
                    at = begin
                    with contextlib.nullcontext() if (begin, end) in places else contextlib.suppress(ValueError):
                        yield self._record(path, number, whole[begin:end])
                number += whole.count(b"\n", at)

    def _record(self, path: Path, number: int, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number} is no record, as it was cut or damaged: remove that line ({error})"
            ) from None
        if not isinstance(record, dict):
            raise ValueError(f"{path}, line {number}: a record is a JSON object, not {worded(line[:40])}")
        version = record.get("v", self.version)
        if not isinstance(version, int) or version > self.version:
            raise ValueError(
                f"{path}, line {number}: its schema is version {worded(version)}, and this Penstock reads up to "
                f"{self.version}; read it with the Penstock that wrote it, or a newer one"
            )
        return record


def _chunks(lines: GzipFile | BufferedReader) -> Iterator[bytes]:
    """Yield the contents of a file, up to the end of a truncated compressed file."""
    pieces: list[bytes] = []
    size = 0
    with contextlib.suppress(EOFError):
        while piece := lines.read1(CHUNK_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size >= CHUNK_BYTES:
                yield b"".join(pieces)
                pieces, size = [], 0
    yield b"".join(pieces)


def _outer_lines(lines: bytes) -> set[tuple[int, int]]:
    """Return begin and end of the first and of the last of whole lines."""
    return {(0, lines.find(b"\n")), (lines.rfind(b"\n", 0, -1) + 1, len(lines) - 1)}


def _lines_with(lines: bytes, values: Iterable[bytes]) -> set[tuple[int, int]]:
    """Return begin and end of the whole lines that contain one of the values."""
    places = set()
    for value in values:
        at = lines.find(value)
        while at >= 0:
            end = lines.find(b"\n", at)
            end = len(lines) if end < 0 else end
            places.add((lines.rfind(b"\n", 0, at) + 1, end))
            at = lines.find(value, end)
    return places


def _open(path: Path) -> GzipFile | BufferedReader:
    if path.suffix != COMPRESSED:
        return path.open("rb")
    import gzip  # A broker starts without this module.

    return gzip.open(path)
