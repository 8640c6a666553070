"""Bounds: an analysis, a replay and a plan agree where a log is a lower bound of the offered load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli import main
from penstock.logs import flowlog
from penstock_simulation.recording import record
from pyspark_penstock.analysis.job import analyze, summary
from pyspark_penstock.analysis.page import page
from tests.spark.test_analysis import small

pytestmark = pytest.mark.spark
__all__ = ["small"]

START = 1_000_000.0
PRODUCERS = 20
BOUND = "bound: "


def write(folder: Path, closed_s: float) -> Path:
    """Write two runs of 50 s, with a closing of so many seconds, and one more second in sums, in each.

    One of many producers is blocked for all of it, and the others are not there.
    """
    records: list[dict[str, Any]] = []
    about: dict[str, Any] = {"kind": "queue", "gate": "orders", "vhost": "/", "queue": "orders"}
    for run in range(2):
        wall = START + 1000 * run

        def add(event: str, mono: float, *, wall: float = wall, **fields: Any) -> None:
            records.append({"v": 1, "event": event, "wall": wall + mono, "mono": mono, **fields})

        add("start", 0.0, version="0.1.0")
        add("queue", 0.0, **about, capacity_messages=1000)
        blocked = {**about, "producer": f"con:{run}0(u@h:1/)/ch:1"}
        for event, block, mono in (("gate-closed", "blocked", 10.0), ("gate-opened", "unblocked", 10.0 + closed_s)):
            add(event, mono, **about, messages=500, bytes=500_000)
            add(block, mono, **blocked)
        add("brief-closings", 40.0, **about, count=10, brief_s=1.0, messages=500, bytes=500_000)
        add("brief-blocks", 40.0, **blocked, count=10, brief_s=1.0)
        for number in range(PRODUCERS):
            add("producer", 45.0, **about, producer=f"con:{run}{number}(u@h:1/)/ch:1", in_messages=50, seconds=10.0)
        for second in range(1, 51):
            add("depth", float(second), **about, messages=10, bytes=10_000, open=True, seconds=1.0, in_messages=20,
                settled_messages=20, settlements=20, consumers=1, sizes=[0] * 10 + [20])  # fmt: skip
        add("stop", 50.0)
    folder.mkdir()
    (folder / "flow-00000001.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    return folder


@pytest.mark.parametrize(("closed_s", "share"), [(3.0, 0.08), pytest.param(1.0, 0.04, marks=pytest.mark.long)])
def test_bound_is_reported_alike_by_analysis_replay_and_plan(tmp_path: Path, closed_s: float, share: float) -> None:
    log = write(tmp_path / "log", closed_s)
    is_bound = share > flowlog.BOUND
    found = analyze(None, [log], tmp_path / "out")
    (gate,) = found.gates
    recording = record(flowlog.read(log), "orders")
    assert gate["duty"] == recording.measures()["closed"] == share
    assert gate["blocked_share"] == recording.blocked_share == share
    assert any(line.startswith(BOUND) for line in summary(found)) == is_bound
    assert (">bound<" in page(found)) == is_bound

    def said(*words: str) -> tuple[str, bool]:
        answers = [CliRunner().invoke(main, [words[0], str(log), "--queue", "orders", *words[1:], *more]).output
                   for more in ((), ("--json",))]  # fmt: skip
        return answers[0], json.loads(answers[1])["bound"]

    for words in (("replay", "--set", "capacity-messages=500"),
                  ("plan", "--goal", "depth<=1MiB", "--local", "--window", "10", "--prefetch", "10")):  # fmt: skip
        text, bound = said(*words)
        assert (BOUND in text, bound) == (is_bound, is_bound), text
