"""The disk-quota experiment, small: the queue blocks, drains and resumes without loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import quota


def test_quota_experiment_blocks_drains_and_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--overfull", "8", "--underfull", "4", "--messages", "4000", "--picture", str(tmp_path / "quota.png")]
    assert quota.main(words) == 0
    told = capsys.readouterr().out
    assert "[ms(store)] MST-1008 : Store overfull, flow control will be enforced" in told
    assert "[ms(store)] MST-1009 : Store overfull condition cleared" in told
    assert "confirmed 4,000, consumed 4,000 persistent messages of 4,096 bytes" in told
    assert "quota 8 MiB, opens at 4 MiB" in told
