"""The commands of the simulation: what they print while simulations run."""

from __future__ import annotations

import pytest

from penstock_simulation import command


def test_progress_without_a_terminal_estimates_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "TOLD_EVERY_S", 0.0)
    with command._progress(4, quiet=False) as report:
        for done in (0, 0, 2, 2, 4):
            report(done, 4)
    total, half, all_done = capsys.readouterr().err.splitlines()
    assert total == "4 simulations"
    assert half.startswith("2 of 4 simulations, about 0:00:0")
    assert all_done == "4 of 4 simulations, about 0:00:00 left"
