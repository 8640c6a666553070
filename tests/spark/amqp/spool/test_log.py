"""Segments of a spool: synchronised data survives a crash at any byte, and damage differs from a torn write."""

from __future__ import annotations

import os
import resource
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_amqp.spool.errors import DiskFull, SpoolError
from pyspark_amqp.spool.log import SpoolLog, read_batch, read_file, read_segment_head

SCHEMA = pa.schema([("value", pa.int64())])
ID = "0" * 32


def opened(path: Path, bound: int = 1 << 30) -> SpoolLog:
    log = SpoolLog(path, ID, bound)
    log.recover(SCHEMA)
    return log


def append(log: SpoolLog, count: int) -> None:
    numbers = list(range(log.tail + 1, log.tail + count + 1))
    batch = pa.record_batch([pa.array(numbers)], schema=SCHEMA).serialize()
    frame = log.append(numbers[0], count, memoryview(batch), SCHEMA)
    log.frames.append(frame)
    log.tail = frame.last


def numbers_in(log: SpoolLog) -> list[int]:
    found = []
    for frame in log.frames:
        (path,) = log.path.glob(f"*{frame.segment:020d}.segment")
        data = read_file(path)
        found += read_batch(data, frame, read_segment_head(data, path.name)[1]).column("value").to_pylist()
    return found


def test_frames_are_there_again_after_a_restart(tmp_path):
    log = opened(tmp_path)
    for count in (1, 5, 30):
        append(log, count)
    log.close()
    again = opened(tmp_path)
    assert (again.tail, numbers_in(again), again.octets) == (36, list(range(1, 37)), log.octets)
    append(again, 2)
    assert numbers_in(again) == list(range(1, 39))


def test_torn_write_is_cut_off_at_any_byte(tmp_path):
    (tmp_path / "whole").mkdir()
    log = opened(tmp_path / "whole")
    append(log, 3)
    kept = log.octets
    append(log, 3)
    (segment,) = log.path.glob("*.segment")
    whole = segment.read_bytes()
    for length in range(kept, len(whole)):
        folder = tmp_path / "torn"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / segment.name).write_bytes(whole[:length])
        again = opened(folder)
        assert (again.tail, again.cut, again.octets) == (3, length - kept, kept)
        again.close()


def test_torn_head_of_a_new_segment_is_no_damage(tmp_path):
    log = opened(tmp_path)
    append(log, 3)
    log.renew(3, SCHEMA)
    newest = max(tmp_path.glob("*.segment"))
    whole = newest.read_bytes()
    for length in (0, 1, 40, len(whole) - 70):
        newest.write_bytes(whole[:length])
        again = opened(tmp_path)
        assert again.tail == 3
        append(again, 1)
        assert numbers_in(again) == [1, 2, 3, 4]
        again.close()
        for path in tmp_path.glob("*.segment"):
            if path != min(tmp_path.glob("*.segment")):
                path.unlink()
        os.truncate(min(tmp_path.glob("*.segment")), log.frames[0].end)


def test_damage_before_the_end_is_reported_with_its_place(tmp_path):
    log = opened(tmp_path)
    for _ in range(3):
        append(log, 3)
    (segment,) = tmp_path.glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[log.frames[1].offset + 100] ^= 1
    segment.write_bytes(data)
    with pytest.raises(SpoolError, match=rf"is damaged at {log.frames[1].offset} .*comes again"):
        opened(tmp_path)


def test_missing_segment_is_reported_with_its_messages(tmp_path):
    log = opened(tmp_path, bound=8)
    for _ in range(3):
        append(log, 2)
    sorted(tmp_path.glob("*.segment"))[1].unlink()
    with pytest.raises(SpoolError, match="messages 3 to 4 are missing"):
        opened(tmp_path, bound=8)


def test_segment_of_another_spool_is_refused(tmp_path):
    append(opened(tmp_path), 2)
    with pytest.raises(SpoolError, match="belongs to another spool"):
        SpoolLog(tmp_path, "1" * 32, 1 << 20).recover(SCHEMA)


def test_settled_segments_go_and_the_numbers_go_on(tmp_path):
    log = opened(tmp_path, bound=8)  # A segment for each frame.
    for _ in range(4):
        append(log, 2)
    before = log.octets
    assert log.settled_segments(5) == [1, 3]
    log.delete(log.settled_segments(5))
    assert log.octets < before
    log.renew(8, SCHEMA)
    log.delete(log.settled_segments(8))
    assert len(list(tmp_path.glob("*.segment"))) == 1
    assert opened(tmp_path).tail == 8


def test_disk_without_room_leaves_the_log_unchanged(tmp_path):
    log = opened(tmp_path)
    append(log, 3)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.octets + 100, before[1]))
    try:
        with pytest.raises(DiskFull, match="has no room: File too large"):
            append(log, 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (segment,) = tmp_path.glob("*.segment")
    assert segment.stat().st_size == log.octets
    append(log, 2)
    log.close()
    assert numbers_in(opened(tmp_path)) == [1, 2, 3, 4, 5]
