"""Damaged stores: a page-level reader of a SQLite file, and the check of its write-ahead log.

Theory of operation. All records of all tables are in *leaves*, pages of one type. Every leaf in use is read, whether
another page refers to it or not. The table of a record follows from its form and its checksum; a changed record fails
its checksum. Free pages are skipped, because they still contain deleted records.

The format is https://www.sqlite.org/fileformat2.html, sections 1 and 2.
"""

from __future__ import annotations

import contextlib
import mmap
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

from penstock.errors import StoreError
from penstock.store.directory import synchronise
from penstock.store.schema import MAGIC, PAGE_SIZE

HEADER: Final = struct.Struct(">8I")
FRAME: Final = struct.Struct(">6I")
BIG_ENDIAN: Final = 0x377F0683
LITTLE_ENDIAN: Final = 0x377F0682

Checksum = tuple[int, int]


class Frame(NamedTuple):
    """Header of a frame."""

    page: int
    """Number of the page in the frame."""
    pages: int
    """Size of the database in pages after the transaction that the frame ends; 0 if it ends none."""
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
        """Return the page in a frame."""
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
        """Return the end of the last complete transaction, if that is behind the end that SQLite accepts."""
        if not self.frames:
            return None
        salts = self._header_salts() if self._is_headed else self.frame(1).salts
        for number in range(self.frames - 1, accepted, -1):
            frame = self.frame(number)
            if frame.pages and frame.salts == salts and self.follows(number + 1):
                return number
        return None

    def follows(self, number: int) -> bool:
        """Return whether a frame is valid and continues the previous frame, or the log's header."""
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
            f"was committed up to frame {lost:,} would be forgotten; 'penstock store repair' saves what can be read"
        )


def secure(path: Path) -> None:
    """Synchronise the log beside a database before anything is appended.

    SQLite assumes that the log is durable. But a killed process may have written a transaction without synchronising
    it, and the next process appends another. After a power failure the disk may then have the second and not the first,
    which looks like a flipped bit in the middle. Raises OSError.
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


LEAF: Final = 0x0D
MAP_ENTRY: Final = 5
"""Bytes per page in the pointer map (section 1.8): type and parent."""
MAPPED_FREE: Final = 2
RECORD_MOST: Final = 1_000_000_000
"""Largest record in bytes, as in SQLite."""
WIDTHS: Final = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0)
"""Bytes of a value of each kind; higher kinds are texts and blobs of any length."""
Columns = tuple[Any, ...]


class Broken(Exception):
    """Error for bytes that are not a record."""


class DatabaseImage:
    """File and log of a database as one state; read-only. Raises OSError if neither can be read."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self.page_size = self._find_page_size()
        self._log = Log(path.with_name(path.name + "-wal"), self.page_size)
        self._newer: dict[int, int] = {}
        """Pages in the log, with the frame of their latest version."""
        self.pages = path.stat().st_size // self.page_size
        end = self._log.end()
        for number in range(1, end + 1):
            self._newer[self._log.frame(number).page] = number
        if end:
            self.pages = min(self._log.frame(end).pages or self.pages, self.pages + end)
        self._free = self._find_free()

    def __enter__(self) -> DatabaseImage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()
        self._log.close()

    def page(self, number: int) -> bytes:
        """Return a page; empty if it is missing or unreadable."""
        frame = self._newer.get(number)
        if frame is not None:
            return self._log.content(frame)
        try:
            self._file.seek((number - 1) * self.page_size)
            octets = self._file.read(self.page_size)
        except OSError:
            return b""
        return octets if len(octets) == self.page_size else b""

    def records(self) -> Iterator[Columns]:
        """Return the columns of every record of tables whose first column is the key; None for unreadable records."""
        for number in range(1, self.pages + 1):
            if self._free[number]:
                continue
            page = self.page(number)
            begin = 100 if number == 1 else 0
            if not page or page[begin] != LEAF:
                continue
            for cell in range(int.from_bytes(page[begin + 3 : begin + 5], "big")):
                with contextlib.suppress(Broken, IndexError):  # Damaged records show up as missing in the sums.
                    yield self._record(page, begin + 8 + 2 * cell)

    def _record(self, page: bytes, pointer: int) -> Columns:
        at = int.from_bytes(page[pointer : pointer + 2], "big")
        size, at = _varint(page, at)
        key, at = _varint(page, at)
        local = _local(size, self.page_size)
        payload = page[at : at + local]
        if local < size:
            payload += self._long(int.from_bytes(page[at + local : at + local + 4], "big"), size - local)
        columns = _columns(payload)
        if not columns or columns[0] is not None:
            raise Broken  # SQLite's own schema table; a key precedes the record and is not part of the record.
        return (key, *columns[1:])

    def _long(self, number: int, size: int) -> bytes:
        """Return the part of a record outside its leaf; less if the chain of overflow pages is broken."""
        if size > RECORD_MOST:
            raise Broken
        parts, seen = [], set()
        while size > 0 and number and number not in seen:
            seen.add(number)
            page = self.page(number)
            number = int.from_bytes(page[:4], "big")
            parts.append(page[4 : 4 + size])
            size -= self.page_size - 4
        return b"".join(parts)

    def _find_page_size(self) -> int:
        head = self._file.read(18)
        size = int.from_bytes(head[16:18], "big")
        if head.startswith(MAGIC) and size in (512, 1024, 2048, 4096, 8192, 16384, 32768):
            return size
        return PAGE_SIZE

    def _find_free(self) -> bytearray:
        """Return for each page whether it is free: from the free list, or from the pointer map if the list is
        damaged.
        """
        free = bytearray(self.pages + 1)
        listed = 0
        for number in self._listed():
            if not 0 < number <= self.pages or free[number]:
                break
            free[number] = 1
            listed += 1
        if listed == int.from_bytes(self.page(1)[36:40], "big"):
            return free
        free = bytearray(self.pages + 1)
        mapped = self.page_size // MAP_ENTRY
        for at in range(2, self.pages + 1, mapped + 1):
            kinds = self.page(at)[: mapped * MAP_ENTRY : MAP_ENTRY]
            for number, kind in enumerate(kinds[: self.pages - at], at + 1):
                free[number] = kind == MAPPED_FREE
        return free

    def _listed(self) -> Iterator[int]:
        """Return the pages of the free list, with a 0 where it is broken (section 1.5)."""
        trunk = int.from_bytes(self.page(1)[32:36], "big")
        while trunk:
            yield trunk
            page = self.page(trunk)
            count = int.from_bytes(page[4:8], "big")
            if not page or count > self.page_size // 4 - 2:
                yield 0
                return
            yield from (number for (number,) in struct.iter_unpack(">I", page[8 : 8 + 4 * count]))
            trunk = int.from_bytes(page[:4], "big")


def _local(size: int, page_size: int) -> int:
    """Return how many bytes of a record are in its leaf (section 1.6)."""
    most = page_size - 35
    if size <= most:
        return size
    least = (page_size - 12) * 32 // 255 - 23
    some = least + (size - least) % (page_size - 4)
    return some if some <= most else least


def _varint(octets: bytes, at: int) -> tuple[int, int]:
    value = 0
    for _ in range(8):
        octet = octets[at]
        at += 1
        value = value << 7 | octet & 0x7F
        if octet < 0x80:
            return value, at
    return value << 8 | octets[at], at + 1


def _columns(payload: bytes) -> list[Any]:
    """Return the values of a record (section 2.1); values beyond its end are None."""
    head, at = _varint(payload, 0)
    if head > len(payload):
        raise Broken
    kinds = []
    while at < head:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values = []
    for kind in kinds:
        width = (kind - 12) // 2 if kind > 11 else WIDTHS[kind]
        values.append(_value(kind, payload[at : at + width], width))
        at += width
    return values


def _value(kind: int, octets: bytes, width: int) -> int | bytes | None:
    if len(octets) < width or kind in (0, 7, 10, 11):
        return None  # Floating-point numbers and reserved types: Penstock writes neither.
    if kind in (8, 9):
        return kind - 8
    return octets if kind > 11 else int.from_bytes(octets, "big", signed=True)
