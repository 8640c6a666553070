"""Writer of a log of records (the flow log, the audit log), in a thread: a slow or full disk delays no message.

Records are written to files of whole lines (`penstock.logs.record_files`). A new file is begun before one would
exceed its size limit; beyond the number of files the oldest is deleted. Records that cannot be written (full disk,
missing directory) or exceed the queue are dropped and counted. The count becomes a record of its own as soon as
possible. Only the end of a file may have a partial line, which is truncated when the file is continued.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from penstock import version
from penstock.errors import StartError
from penstock.logs.ids import RECORDS_UNWRITTEN
from penstock.logs.logger import log
from penstock.logs.record_files import COMPRESSED, SUFFIX, RecordFiles
from penstock.server.writer_thread import WriterThread
from penstock.texts import printable_json

RECORDS_WAITING: Final = 50_000
"""Most records that wait for the writer, about 25 MiB; further records are dropped and counted."""
LEAVE_S: Final = 2.0
"""Seconds for writing the rest when the broker stops."""
RETRY_S: Final = 1.0
"""Seconds without writes after a failure, so that a full disk is not tried for each record."""
TAIL_BYTES: Final = 1024 * 1024
"""Bytes searched backwards for the last complete line of a file; no line is that long."""


Record = dict[str, object]


class RecordLog:
    """Files of one log of one broker. The event loop's thread calls `put`; all other methods belong to the writer's
    thread.
    """

    def __init__(
        self,
        files: RecordFiles,
        directory: Path,
        files_most: int,
        file_bytes: int,
        monotonic: Callable[[], float] = time.monotonic,
        waiting_most: int = RECORDS_WAITING,
    ) -> None:
        self.files = files
        self.directory = directory
        self.files_most = files_most
        self.file_bytes = file_bytes
        self._monotonic = monotonic
        self._waiting_most = waiting_most
        self._overrun = 0
        """Total of records dropped because the writer was too slow; counted by the event loop's thread."""
        self._overrun_reported = 0
        self._failed = 0
        """Records that could not be written, and are still to be reported in the files."""
        self._failure = ""
        self._retry_at = 0.0
        self._file: int | None = None
        self._size = 0
        self._number = 0
        name = f"penstock-{files.log.replace(' ', '-')}"
        self._writer: WriterThread[Record] = WriterThread(name, self._write, LEAVE_S)

    def start(self) -> None:
        """Open the directory and start the writer; a full disk is retried later. Raises StartError."""
        try:
            self._go_on()
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self._note_failure(0, error)
            else:
                raise StartError(f"cannot write the {self.files.log} to '{self.directory}': {error.strerror}") from None
        self._writer.add([self._record("start") | {"version": version.VERSION}])
        self._writer.start()

    def put(self, records: list[Record]) -> None:
        """Queue records for the writer, which then owns them. This call never blocks."""
        if len(self._writer.waiting) + len(records) > self._waiting_most:
            self._overrun += len(records)
        else:
            self._writer.add(records)

    def stop(self) -> None:
        """Write the rest, within `LEAVE_S`."""
        if self._writer.is_alive():
            self._retry_at = 0.0
            self._writer.add([self._record("stop")])
            self._writer.end()
            if not self._writer.is_alive():
                self._close()

    # Writer

    def _write(self, records: list[Record]) -> None:
        if self._monotonic() < self._retry_at:
            self._failed += len(records)
            return
        lines = [self._line(record) for record in records]
        done = 0
        try:
            self._write_losses()
            while done < len(lines):
                done += self._append(lines[done:])
        except OSError as error:
            self._note_failure(len(lines) - done, error)

    def _write_losses(self) -> None:
        """Write a record with the number of dropped records; the counts stay until it is written. Raises OSError."""
        overrun = self._overrun
        if overrun > self._overrun_reported:
            lost = self._record("lost", overrun - self._overrun_reported, "the writer could not keep up")
            self._append([self._line(lost)])
            self._overrun_reported = overrun
        if self._failed:
            self._append([self._line(self._record("lost", self._failed, self._failure))])
            self._failed = 0
            self._failure = ""

    def _append(self, lines: list[bytes]) -> int:
        """Append lines, at least one, up to the limit of file and disk; return their number. Raises OSError.

        An error may leave a partial line, which is truncated when the file is opened again.
        """
        if self._file is None or os.fstat(self._file).st_nlink == 0:
            self._go_on()  # Closed after an error, or deleted from outside.
        room = self.file_bytes - self._size
        if len(lines[0]) > room and self._size > 0:
            self._begin(self._number + 1)
            room = self.file_bytes
        count, size = 0, 0
        while count < len(lines) and (count == 0 or size + len(lines[count]) <= room):
            size += len(lines[count])
            count += 1
        assert self._file is not None
        data = b"".join(lines[:count])
        written = 0
        try:
            while written < size:
                written += os.write(self._file, data[written:])
        except OSError:
            written = data.rfind(b"\n", 0, written) + 1
            if written == 0:
                raise
            os.ftruncate(self._file, self._size + written)
        self._size += written
        return data.count(b"\n", 0, written)

    def _note_failure(self, lines: int, error: OSError) -> None:
        """Count unwritten records; logged once until a write succeeds."""
        if self._failure != str(error.strerror):
            log(RECORDS_UNWRITTEN, "the %s in %s cannot be written: %s", self.files.log, self.directory, error.strerror)
        self._failure = str(error.strerror)
        self._failed += lines
        self._retry_at = self._monotonic() + RETRY_S
        self._close()

    # Files

    def _go_on(self) -> None:
        """Continue the last file after its last complete line, or begin a new one. Raises OSError."""
        self.directory.mkdir(
            0o700, parents=not self._writer.is_alive(), exist_ok=True
        )  # Never recreate a removed data directory.
        known = self.files.list(self.directory)
        number = self.files.number_of(known[-1]) or 1 if known else 1
        self._begin(number + 1 if known and known[-1].suffix == COMPRESSED else number)

    def _begin(self, number: int) -> None:
        path = self.files.path(self.directory, number)
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        self._close()
        self._file = opened
        self._number = number
        self._size = os.lseek(opened, 0, os.SEEK_END)
        self._cut_back()
        written = [
            path for path in self.files.list(self.directory) if path.suffix == SUFFIX
        ]  # Archives belong to the program that made them.
        for old in written[: -self.files_most]:
            with contextlib.suppress(OSError):
                old.unlink()

    def _cut_back(self) -> None:
        """Truncate a partial line at the end, left by a crash or a full disk."""
        assert self._file is not None
        start = max(self._size - TAIL_BYTES, 0)
        whole = start + os.pread(self._file, self._size - start, start).rfind(b"\n") + 1
        if whole < self._size:
            os.ftruncate(self._file, whole)
            self._size = whole

    def _close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None

    def _record(self, event: str, count: int = 0, cause: str = "") -> Record:
        record: Record = {"event": event, "wall": round(time.time(), 6), "mono": round(self._monotonic(), 6)}
        return record | {"count": count, "cause": cause} if count else record

    def _line(self, record: Record) -> bytes:
        text = json.dumps({"v": self.files.version, **record}, separators=(",", ":"), ensure_ascii=False)
        return printable_json(text).encode(errors="replace") + b"\n"
