"""The crash test with Spark: what chance chooses for a round, and how its outcome is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.crash_spark.judge import expected_of, judge, parquet_rows
from bench.crash_spark.query import COUNT, MAP
from bench.crash_spark.rounds import EXECUTOR, PIPELINES, plan_of


def test_plan_of_a_round_is_that_of_its_seed_and_every_pipeline_has_its_turn() -> None:
    plans = [plan_of(number, 7, 3000, True) for number in range(1, 41)]
    assert plans == [plan_of(number, 7, 3000, True) for number in range(1, 41)]
    assert plans != [plan_of(number, 8, 3000, True) for number in range(1, 41)]
    assert {(plan.sink, plan.kind) for plan in plans} == set(PIPELINES)
    assert {victim for plan in plans for victim, _, _ in plan.kills} == {"driver", "worker", "broker", "executor"}
    for plan in plans:
        has_executor = any(victim == EXECUTOR for victim, _, _ in plan.kills)
        assert plan.master.startswith("local-cluster") == has_executor
        assert all(batch < -(-plan.messages // plan.batch) - 1 for _, batch, _ in plan.kills), "not after the end"


def test_verdict_counts_lost_doubled_and_strange_rows() -> None:
    expected = expected_of(MAP, 4)
    assert judge(expected, ["2", "0", "1", "3"]).describe() == "4 exactly once"
    verdict = judge(expected, ["0", "0", "0", "3", "x"])
    assert (verdict.lost, verdict.doubled, verdict.strange) == (2, 2, 1)
    assert verdict.describe() == "of 4: 2 lost, 2 doubled, 1 strange"
    assert expected_of(COUNT, 300) == ["0 100", "100 100", "200 100"]


def test_rows_of_a_parquet_sink_are_those_of_its_log(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for number in range(5):
        pq.write_table(pa.table({"value": [str(number)]}), tmp_path / f"{number}.parquet")
    entries = [json.dumps({"path": f"file://{tmp_path}/{number}.parquet", "action": "add"}) for number in range(5)]
    for number in (0, 1, 3):
        (log / str(number)).write_text(f"v1\n{entries[number]}")
    assert sorted(parquet_rows(tmp_path)) == ["0", "1", "3"], "a file of a failed task is in no log"
    (log / "1.compact").write_text("\n".join(["v1", entries[0], entries[1]]))
    (log / "10").write_text(f"v1\n{entries[4]}")
    (log / ".10.crc").write_text("not a log")
    assert sorted(parquet_rows(tmp_path)) == ["0", "1", "3", "4"]
