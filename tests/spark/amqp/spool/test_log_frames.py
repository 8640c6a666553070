"""Frames of a segment: read as written, and damage is detected."""

import pyarrow as pa
import pytest

from pyspark_amqp.spool.errors import SpoolError
from pyspark_amqp.spool.log import (
    ALIGNMENT,
    encode_frame,
    frames_in,
    holds_frame,
    read_batch,
    read_frame,
    read_segment_head,
    segment_head,
)

SCHEMA = pa.schema([("value", pa.int64())])
BATCH = pa.record_batch([pa.array([1, 2])], schema=SCHEMA).serialize().to_pybytes()


def test_head_of_a_segment_is_read_as_written():
    head = segment_head("a" * 32, SCHEMA)
    assert len(head) % ALIGNMENT == 0
    assert read_segment_head(head, "x") == ("a" * 32, SCHEMA, len(head))
    with pytest.raises(SpoolError, match="segment x of the spool has no head of this version"):
        read_segment_head(head[:-70], "x")


def test_frame_is_read_as_written_and_refused_with_any_byte_changed():
    head, zeros = encode_frame(7, 2, BATCH)
    data = head + BATCH + zeros
    frame = read_frame(data, 7, 0)
    assert (frame.first, frame.last, frame.end) == (7, 8, len(data))
    assert read_batch(data, frame, SCHEMA).column("value").to_pylist() == [1, 2]
    for place in [*range(32), *range(ALIGNMENT, ALIGNMENT + len(BATCH))]:
        if 28 <= place < 32:
            continue  # Zeros behind the head's fields.
        damaged = bytearray(data)
        damaged[place] ^= 0x40
        assert read_frame(damaged, 7, 0) is None, place
    assert read_frame(data[:-1], 7, 0) is None


def test_frames_end_where_the_numbers_do_not_go_on():
    first, again = (b"".join((head, BATCH, zeros)) for head, zeros in (encode_frame(1, 2, BATCH),) * 2)
    assert [frame.first for frame in frames_in(first + again, 1, 0)] == [1]
    head, zeros = encode_frame(3, 2, BATCH)
    assert [frame.first for frame in frames_in(first + head + BATCH + zeros, 1, 0)] == [1, 3]
    assert holds_frame(bytes(ALIGNMENT) + first, 0)
    assert not holds_frame(first[:-1], ALIGNMENT)
