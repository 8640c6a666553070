"""The paging experiment, small: messages go to the disk, come back in order, and are drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import paging


def test_paged_messages_come_back_and_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "paging.png"
    assert paging.main(["--capacity-mib", "1", "--times", "8", "--rounds", "0", "--output", str(picture)]) == 0
    told = capsys.readouterr().out
    assert "6,620 messages of 1,024 bytes, persistent, 8 times the capacity" in told
    assert "left in the queue: 0" in told
    assert picture.stat().st_size > 10_000
