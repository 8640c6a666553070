"""Format of segments: a head with the schema, then frames, each a record batch in Arrow's IPC encoding.

Head: ``PSPOOL\\0\\1``, CRC-32 and length of the schema (u32 each), the spool's id (32 letters), the schema. Frame:
``PSF1``, CRC-32 of all that follows in it, first number (u64), rows (u32), length of the batch (u64), the batch.
Everything is little-endian and begins at a multiple of 64 octets, so that Arrow reads a batch in place. A frame has the
numbers ``first`` to ``first + rows - 1``.
"""

import mmap
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark_amqp.spool.errors import SpoolError

if TYPE_CHECKING:
    import pyarrow as pa

ALIGNMENT: Final = 64
SEGMENT_MAGIC: Final = b"PSPOOL\0\1"
FRAME_MAGIC: Final = b"PSF1"
_SEGMENT: Final = struct.Struct("<8sII32s")
_FRAME: Final = struct.Struct("<4sIQIQ")
_CHECKED: Final = 8
"""Octet of a frame from which the checksum counts."""

Octets = bytes | bytearray | memoryview | mmap.mmap


@dataclass(frozen=True, slots=True)
class Frame:
    """Place of a frame: the first number of its segment, and its offset there."""

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
    """Return the frame at an offset; None if there is no whole and undamaged one."""
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
    """Yield the frames of a segment from an offset on, up to the first that is not whole or not the next one."""
    expected: int | None = None
    while (frame := read_frame(data, segment, offset)) is not None and expected in (None, frame.first):
        yield frame
        expected, offset = frame.last + 1, frame.end


def holds_frame(data: Octets, offset: int) -> bool:
    """Tell whether an undamaged frame begins at or after an offset."""
    return any(read_frame(data, 0, place) is not None for place in range(offset, len(data), ALIGNMENT))


def read_batch(data: Octets, frame: Frame, schema: "pa.Schema") -> "pa.RecordBatch":
    """Return the messages of a frame, sharing the memory of its segment."""
    import pyarrow as pa

    whole = pa.py_buffer(data)
    return pa.ipc.read_record_batch(whole.slice(frame.offset + ALIGNMENT, frame.octets), schema)
