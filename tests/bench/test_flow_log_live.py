"""A recording of a live broker for its flow log ends drained, and has the records that an analysis needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.brokers import INTERPRETED
from bench.flowlog import live


@pytest.mark.long
def test_recording_ends_drained_and_has_gates_queries_and_settings(tmp_path: Path) -> None:
    folder = live.record(INTERPRETED, tmp_path, 4.0, lambda _: None)
    lines = [line for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
    assert {"gate-closed", "gate-opened", "query", "setting"} <= {json.loads(line)["event"] for line in lines}
