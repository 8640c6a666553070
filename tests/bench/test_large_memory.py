"""The memory measurement of one large message: its output and picture, for a small message."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import large_memory
from bench.large_memory import Pace, Progress, chunk, chunks


def test_frames_of_a_message_have_its_size_and_each_its_number() -> None:
    sizes = chunks(200_000, 65_528)
    assert sizes == [65_528, 65_528, 65_528, 3_416]
    assert chunks(65_528, 65_528) == [65_528]
    assert chunk(7, 20) == b"\0\0\0\0\0\0\0\7............"


def test_progress_counts_bytes_and_detects_other_bytes() -> None:
    progress = Progress()
    progress.send(b"abc")
    progress.send(b"def")
    progress.receive(b"abcdef")
    assert (progress.sent, progress.received) == (6, 6)
    assert progress.sent_crc == progress.received_crc
    progress.receive(b"g")
    assert progress.sent_crc != progress.received_crc


def test_pace_does_not_wait_if_it_is_late() -> None:
    Pace(1e12).wait(10)


def test_message_goes_through_a_broker_over_both_protocols_and_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    large_memory.main(["--mib", "6", "--rate", "1000", "--output", str(tmp_path / "large.png")])
    told = capsys.readouterr().out
    assert "AMQP 0-9-1: a message of 6 MiB takes " in told
    assert "AMQP 1.0: a message of 6 MiB takes " in told
    assert (tmp_path / "large.png").stat().st_size > 1000
