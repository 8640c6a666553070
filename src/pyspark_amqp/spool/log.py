"""Log of a spool: segments of frames, appended and synchronised, recovered after a crash, deleted once settled.

One thread appends and deletes. `frames` may be read under the lock of its owner (`state.SpoolState`).

Format of segments: a head with the schema, then frames, each a record batch in Arrow's IPC encoding.

Head: ``PSPOOL\\0\\1``, CRC-32 and length of the schema (u32 each), the spool's id (32 characters), the schema. Frame:
``PSF1``, CRC-32 of all that follows in it, first number (u64), rows (u32), length of the batch (u64), the batch. All
numbers are little-endian, and all parts begin at a multiple of 64 bytes, so that Arrow reads a batch in place. A frame
has the numbers ``first`` to ``first + rows - 1``.
"""

import mmap
import os
import struct
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark_amqp.spool.errors import SpoolError, raise_if_full
from pyspark_amqp.spool.folder import sync_folder

if TYPE_CHECKING:
    import pyarrow as pa


ALIGNMENT: Final = 64
SEGMENT_MAGIC: Final = b"PSPOOL\0\1"
FRAME_MAGIC: Final = b"PSF1"
_SEGMENT: Final = struct.Struct("<8sII32s")
_FRAME: Final = struct.Struct("<4sIQIQ")
_CHECKED: Final = 8
"""Byte of a frame from which the checksum counts."""

Octets = bytes | bytearray | memoryview | mmap.mmap


@dataclass(frozen=True, slots=True)
class Frame:
    """Position of a frame: the first number of its segment, and its offset there."""

    first: int
    rows: int
    segment: int
    offset: int
    octets: int
    """Length of the record batch."""

    @property
    def last(self) -> int:
        """Last number."""
        return self.first + self.rows - 1

    @property
    def end(self) -> int:
        """Offset of the next frame in the segment."""
        return self.offset + ALIGNMENT + padded(self.octets)


def padded(length: int) -> int:
    """Return a length as a multiple of the alignment."""
    return -(-length // ALIGNMENT) * ALIGNMENT


def segment_name(first: int) -> str:
    """Return the file name of the segment that begins with a number."""
    return f"{first:020d}.segment"


def segment_head(spool_id: str, schema: "pa.Schema") -> bytes:
    """Encode the head of a segment."""
    encoded: bytes = schema.serialize().to_pybytes()
    head = _SEGMENT.pack(SEGMENT_MAGIC, zlib.crc32(encoded), len(encoded), spool_id.encode())
    return bytes(head + encoded).ljust(padded(_SEGMENT.size + len(encoded)), b"\0")


def read_segment_head(data: Octets, name: str) -> tuple[str, "pa.Schema", int]:
    """Return the spool's id, the schema and the offset of the first frame.

    Raises `SpoolError` when the head is damaged or from another version.
    """
    import pyarrow as pa

    if len(data) >= _SEGMENT.size:
        magic, checksum, length, spool_id = _SEGMENT.unpack_from(data)
        encoded = bytes(data[_SEGMENT.size : _SEGMENT.size + length])
        if magic == SEGMENT_MAGIC and len(encoded) == length and zlib.crc32(encoded) == checksum:
            return spool_id.decode(), pa.ipc.read_schema(pa.py_buffer(encoded)), padded(_SEGMENT.size + length)
    raise SpoolError("damaged", f"segment {name} of the spool has no head of this version: it is damaged")


def encode_frame(first: int, rows: int, batch: bytes | memoryview) -> tuple[bytes, bytes]:
    """Return the head of a frame, and the zeros after its batch."""
    checked = struct.pack("<QIQ", first, rows, len(batch))
    checksum = zlib.crc32(batch, zlib.crc32(checked))
    head = _FRAME.pack(FRAME_MAGIC, checksum, first, rows, len(batch)).ljust(ALIGNMENT, b"\0")
    return head, bytes(padded(len(batch)) - len(batch))


def read_frame(data: Octets, segment: int, offset: int) -> Frame | None:
    """Return the frame at an offset; None without a whole and undamaged frame."""
    if offset + ALIGNMENT > len(data):
        return None
    magic, checksum, first, rows, length = _FRAME.unpack_from(data, offset)
    start = offset + ALIGNMENT
    if magic != FRAME_MAGIC or not rows or start + padded(length) > len(data):
        return None
    checked = bytes(data[offset + _CHECKED : offset + _FRAME.size])
    with memoryview(data) as view, view[start : start + length] as batch:
        if zlib.crc32(batch, zlib.crc32(checked)) != checksum:
            return None
    return Frame(first, rows, segment, offset, length)


def frames_in(data: Octets, segment: int, offset: int) -> Iterator[Frame]:
    """Yield the frames of a segment from an offset on, up to the first that is incomplete or out of sequence."""
    expected: int | None = None
    while (frame := read_frame(data, segment, offset)) is not None and expected in (None, frame.first):
        yield frame
        expected, offset = frame.last + 1, frame.end


def holds_frame(data: Octets, offset: int) -> bool:
    """Return whether an undamaged frame begins at or after an offset."""
    return any(read_frame(data, 0, place) is not None for place in range(offset, len(data), ALIGNMENT))


def read_batch(data: Octets, frame: Frame, schema: "pa.Schema") -> "pa.RecordBatch":
    """Return the messages of a frame, sharing the memory of its segment."""
    import pyarrow as pa

    whole = pa.py_buffer(data)
    return pa.ipc.read_record_batch(whole.slice(frame.offset + ALIGNMENT, frame.octets), schema)


SEGMENT_OCTETS: Final = 64 << 20
"""Most bytes of a segment, unless the spool's bound requires smaller segments or one frame is larger."""
_SEGMENTS: Final = 8
"""Least segments in a full spool: settled messages are deleted a segment at a time."""
FRAMES_MAX: Final = 200_000
"""Most frames in a spool; each takes about 150 bytes of memory."""


class SpoolLog:
    """Segments in a folder; `octets` is the sum of their sizes, which never exceeds `bound`."""

    def __init__(self, path: Path, spool_id: str, bound: int) -> None:
        self.path = path
        self.bound = bound
        self.frames: deque[Frame] = deque()
        self.tail = 0
        """Last durable number."""
        self.octets = 0
        self.cut = 0
        """Bytes of a torn write that recovery has cut off."""
        self._id = spool_id
        self._segment_octets = min(SEGMENT_OCTETS, max(bound // _SEGMENTS, 1))
        self._sizes: dict[int, int] = {}
        """Sizes of the segments by their first numbers, in order."""
        self._file: int | None = None

    def recover(self, schema: "pa.Schema") -> None:
        """Read all segments, cut off a torn write at the end of the last, and continue after it.

        Raises `SpoolError` for damage that no torn write explains.
        """
        names = sorted(self.path.glob("*.segment"))
        firsts = [int(name.stem) for name in names]
        if firsts and names[-1].stat().st_size == 0:  # Created without any content.
            names.pop().unlink()
            self.tail = firsts.pop() - 1
        for first in firsts:
            self._recover_segment(first, last=first == firsts[-1])
        for before, after in pairwise(self.frames):
            if after.first != before.last + 1:
                text = f"messages {before.last + 1} to {after.first - 1} are missing"
                raise SpoolError("damaged", f"the spool {self.path} is damaged: {text} ({_ADVICE})")
        if not self._sizes:
            self._create(self.tail + 1, schema)
        elif self._file is None:
            self._open(next(reversed(self._sizes)))

    def _recover_segment(self, first: int, last: bool) -> None:
        path = self.path / segment_name(first)
        data = read_file(path)
        try:
            spool_id, _, offset = read_segment_head(data, path.name)
        except SpoolError:
            if not last or holds_frame(data, 0):
                raise
            # A torn head: the segment had no frame yet.
            path.unlink()
            self.cut += len(data)
            self.tail = max(self.tail, first - 1)
            return
        if spool_id != self._id:
            raise SpoolError("foreign", f"segment {path.name} in {self.path} belongs to another spool")
        self.tail = max(self.tail, first - 1)
        for frame in frames_in(data, first, offset):
            self.frames.append(frame)
            self.tail, offset = frame.last, frame.end
        if offset < len(data):
            if not last or holds_frame(data, offset):
                raise SpoolError(
                    "damaged", f"segment {path.name} of the spool {self.path} is damaged at {offset} ({_ADVICE})"
                )
            self.cut += len(data) - offset
            os.truncate(path, offset)
        self._sizes[first] = offset
        self.octets += offset

    def room(self) -> int:
        """Return the bytes up to the bound; none when there are too many frames."""
        return 0 if len(self.frames) >= FRAMES_MAX else self.bound - self.octets

    def append(self, first: int, rows: int, batch: bytes | memoryview, schema: "pa.Schema") -> Frame:
        """Write a frame and synchronise it; the caller adds it to `frames` and moves `tail`.

        Raises `DiskFull` without room, and changes nothing; `SpoolError` if the disk fails, and the spool must be
        recovered.
        """
        head, zeros = encode_frame(first, rows, batch)
        segment = next(reversed(self._sizes))
        if self._sizes[segment] + len(head) + padded(len(batch)) > self._segment_octets and self._holds(segment):
            segment = first
            self._create(first, schema)
        offset = self._sizes[segment]
        self._write(segment, offset, (head, batch, zeros))
        frame = Frame(first, rows, segment, offset, len(batch))
        self._sizes[segment] = frame.end
        self.octets += frame.end - offset
        return frame

    def _holds(self, segment: int) -> bool:
        return bool(self.frames) and self.frames[-1].segment == segment

    def _write(self, segment: int, offset: int, parts: tuple[bytes | memoryview, ...]) -> None:
        assert self._file is not None
        try:
            for part in parts:
                view = memoryview(part)
                while view:
                    view = view[os.write(self._file, view) :]
        except OSError as error:
            os.ftruncate(self._file, offset)
            os.lseek(self._file, offset, os.SEEK_SET)
            raise_if_full(error, self.path)
            raise self._failed(error) from error
        try:
            os.fsync(self._file)
        except OSError as error:
            # The state of the disk is unknown until the next recovery.
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> SpoolError:
        return SpoolError(
            "folder", f"the disk of the spool {self.path} fails: {error.strerror}; start the query again when it works"
        )

    def _create(self, first: int, schema: "pa.Schema") -> None:
        """Create a segment and continue in it."""
        path = self.path / segment_name(first)
        head = segment_head(self._id, schema)
        try:
            with path.open("wb") as file:
                file.write(head)
                file.flush()
                os.fsync(file.fileno())
            sync_folder(self.path)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise_if_full(error, self.path)
            raise self._failed(error) from error
        self._sizes[first] = len(head)
        self.octets += len(head)
        self._open(first)

    def _open(self, segment: int) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = os.open(self.path / segment_name(segment), os.O_WRONLY | os.O_CLOEXEC)
        os.lseek(self._file, self._sizes[segment], os.SEEK_SET)

    def renew(self, settled: int, schema: "pa.Schema") -> None:
        """Continue in a new segment if the last one is settled as a whole, so that it can be deleted.

        Raises `DiskFull`.
        """
        segment = next(reversed(self._sizes))
        if self._holds(segment) and self.tail <= settled:
            self._create(self.tail + 1, schema)

    def settled_segments(self, settled: int) -> list[int]:
        """Return the segments that are settled as a whole, except the last."""
        return [first for first, after in pairwise(self._sizes) if after <= settled + 1]

    def delete(self, segments: list[int]) -> None:
        """Delete segments; the caller has removed their frames from `frames`."""
        for first in segments:
            (self.path / segment_name(first)).unlink(missing_ok=True)
            self.octets -= self._sizes.pop(first)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


_ADVICE: Final = "delete the spool and begin with a new checkpoint; what its broker holds unacknowledged comes again"


def read_file(path: Path) -> bytes | mmap.mmap:
    """Return a file's bytes, mapped into memory; no bytes for an empty file."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
