"""Peers over AMQP 1.0: an absent one is skipped with a reason, and our load runs in both forms."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from bench import peers10
from bench.report import Measurement, Row, table
from bench.scenarios import SCENARIOS10


def test_peer_that_is_not_there_is_left_out_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv(peers10.ARTEMIS_HOME, raising=False)
    with ExitStack() as stack:
        for name in (peers10.QPIDD, peers10.ARTEMIS):
            assert peers10.start(name, tmp_path, stack, said.append, None) is None
    assert [each.partition(":")[0] for each in said] == ["Without qpidd", "Without artemis"]


def test_ratio_is_that_to_the_best_peer() -> None:
    scenario = SCENARIOS10[0]
    found = [
        Measurement(scenario.key, name, 0, us, 1.0, 0.1, 0.0, 50.0, 100.0, 200.0)
        for name, us in (("compiled", 0.8), ("interpreted", 9.0), ("rabbitmq", 88.0), ("artemis", 3.2))
    ]
    row = Row.of(scenario, found)
    assert row.ratio("compiled") == pytest.approx(4.0)
    assert row.goals == (("compiled 4x", True), ("compiled <= 0.7 us", False), ("interpreted <= 8 us", False))
    assert "Artemis" in table([row])
    assert "qpidd" not in table([row])
