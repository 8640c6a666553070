"""Check of SQLite's write-ahead log for damage that SQLite takes for the end of the log.

After a crash SQLite accepts the longest valid beginning of the log and drops the rest. That is right if the rest was
being written during the crash. After a flipped bit in the middle, it silently drops confirmed transactions. The check
uses two facts: each frame has a checksum that continues the previous one, and a transaction is written only when the
previous one is durable. So if a complete transaction follows after the end that SQLite sees, and another frame
continues that one, the cause is damage and not a crash. (The last transaction cannot be judged: its damage looks like
an interruption.)

The format is https://www.sqlite.org/fileformat2.html, section 4.
"""

from __future__ import annotations

import contextlib
import mmap
import sqlite3
import struct
from pathlib import Path
from typing import Final, NamedTuple

from penstock.errors import StoreError
from penstock.store.directory import synchronise

HEADER: Final = struct.Struct(">8I")
FRAME: Final = struct.Struct(">6I")
BIG_ENDIAN: Final = 0x377F0683
LITTLE_ENDIAN: Final = 0x377F0682

Checksum = tuple[int, int]


class Frame(NamedTuple):
    """Header of a frame."""

    page: int
    """Number of the page that it holds."""
    pages: int
    """Size of the database in pages after the transaction that it ends; 0 if it ends none."""
    salts: tuple[int, int]
    """Salt values, equal in all frames of one log."""
    checksum: Checksum


class Log:
    """Log beside a database file; without frames if there is none. Raises OSError if it cannot be read."""

    def __init__(self, path: Path, page_size: int) -> None:
        self.path = path
        self.page_size = page_size
        self._data: bytes | mmap.mmap = b""
        if path.exists() and path.stat().st_size:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.frames = max(0, len(self._data) - HEADER.size) // (FRAME.size + page_size)
        """Number of frames that fit into the file, valid or not; the first is number 1."""
        self._order = ">" if self._data[:4] == BIG_ENDIAN.to_bytes(4, "big") else "<"
        self._is_headed = self._has_header()

    def close(self) -> None:
        """Close the file."""
        if isinstance(self._data, mmap.mmap):
            self._data.close()

    def frame(self, number: int) -> Frame:
        """Return the header of a frame."""
        page, pages, *rest = FRAME.unpack_from(self._data, self._at(number))
        return Frame(page, pages, (rest[0], rest[1]), (rest[2], rest[3]))

    def content(self, number: int) -> bytes:
        """Return the page that a frame holds."""
        begin = self._at(number) + FRAME.size
        return self._data[begin : begin + self.page_size]

    def end(self) -> int:
        """Return the last frame that belongs to the log, damaged or not; 0 if there is none."""
        accepted = self.reached(0) if self._is_headed else 0
        lost = self.lost(accepted)
        return accepted if lost is None else self.reached(lost)

    def reached(self, start: int) -> int:
        """Return the last frame that ends a transaction in an unbroken sequence from a first frame."""
        last = start
        for number in range(start + 1, self.frames + 1):
            if not self.follows(number):
                break
            if self.frame(number).pages:
                last = number
        return last

    def lost(self, accepted: int) -> int | None:
        """Return the end of the last complete transaction, if it is behind the end that SQLite accepts."""
        if not self.frames:
            return None
        salts = self._header_salts() if self._is_headed else self.frame(1).salts
        for number in range(self.frames - 1, accepted, -1):
            frame = self.frame(number)
            if frame.pages and frame.salts == salts and self.follows(number + 1):
                return number
        return None

    def follows(self, number: int) -> bool:
        """Tell whether a frame is valid and continues the one before, or the log's header."""
        frame = self.frame(number)
        if number == 1:
            salts, checksum = self._header_salts(), self._header_checksum()
        else:
            _, _, salts, checksum = self.frame(number - 1)
        if frame.salts != salts or not frame.page:
            return False
        begin = self._at(number)
        so_far = self._sum(self._data[begin : begin + 8], checksum)
        return self._sum(self.content(number), so_far) == frame.checksum

    def _at(self, number: int) -> int:
        return HEADER.size + (number - 1) * (FRAME.size + self.page_size)

    def _header_salts(self) -> tuple[int, int]:
        *_, first, second, _, _ = HEADER.unpack_from(self._data)
        return first, second

    def _header_checksum(self) -> Checksum:
        *_, first, second = HEADER.unpack_from(self._data)
        return first, second

    def _has_header(self) -> bool:
        if len(self._data) < HEADER.size:
            return False
        magic, _, page_size, *_ = HEADER.unpack_from(self._data)
        known = magic in (BIG_ENDIAN, LITTLE_ENDIAN) and page_size == self.page_size
        return known and self._sum(self._data[:24], (0, 0)) == self._header_checksum()

    def _sum(self, octets: bytes, so_far: Checksum) -> Checksum:
        one, two = so_far
        for first, second in struct.iter_unpack(self._order + "II", octets):
            one = (one + first + two) & 0xFFFFFFFF
            two = (two + second + one) & 0xFFFFFFFF
        return one, two


def judge(path: Path) -> None:
    """Check whether SQLite would drop confirmed transactions of the log beside a database.

    Raises StoreError if so, sqlite3.Error or OSError if that is unknown. Nothing is changed.
    """
    beside = path.with_name(path.name + "-wal")
    if not beside.exists() or not beside.stat().st_size:
        return
    with path.open("rb") as file:
        page_size = int.from_bytes(file.read(18)[16:], "big")
    accepted = _accepted(path)
    log = Log(beside, page_size)
    try:
        lost = log.lost(accepted)
    finally:
        log.close()
    if lost is not None:
        raise StoreError(
            f"cannot open the store '{path}': its log '{beside.name}' is damaged behind frame {accepted:,}, and what "
            f"was committed up to frame {lost:,} would be forgotten; 'penstock repair' saves what can be read"
        )


def secure(path: Path) -> None:
    """Synchronise the log beside a database before anything is appended.

    SQLite assumes that it is durable. But a killed process may have written a transaction without synchronising it. The
    next process appends its own. After a power failure the disk may then have the second and not the first, which looks
    like a flipped bit in the middle. Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        synchronise(path.with_name(path.name + "-wal"))


def _accepted(path: Path) -> int:
    """Return the last frame that SQLite itself accepts.

    A read-only connection changes neither file nor log, and leaves the answer in the log's index
    (https://www.sqlite.org/walformat.html, section 2.1).
    """
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    with path.with_name(path.name + "-shm").open("rb") as file:
        (frames,) = struct.unpack_from("=I", file.read(20), 16)
    return int(frames)
