"""Copies of a recorded flow log: an analysis finds the counts of the broker in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.flowlog import copies
from penstock.logs import flowlog
from penstock.management.flow_log_records import Recorder
from penstock.management.gate_lines import CLOSINGS_AT_ONCE
from tests.support.blocked_producers import BlockedProducers

COPIES, PERIODS = 2, 3


def test_counts_of_a_recording_have_closings_and_blocks_that_are_summed(tmp_path: Path) -> None:
    play = BlockedProducers()
    play.driver.recorder = Recorder(play.driver.broker)
    for _ in range(2 * CLOSINGS_AT_ONCE):
        for _ in range(5):
            play.do("publish", 0, "orders")
        play.now += 0.05
        play.user.listen(play.now)
        play.do("purge", 0, "orders")
        play.do("purge", 0, "orders")
    play.driver.tick()
    records = play.driver.take_records()
    assert {"brief-closings", "brief-blocks"} <= {record["event"] for record in records}
    flowlog.FILES.path(tmp_path, 1).write_text("".join(f"{json.dumps(record)}\n" for record in records))
    period = copies.period_of(tmp_path)
    stats = play.driver.broker.vhosts["/"].queues["orders"].gate.stats
    found = copies.expected(period, COPIES, PERIODS, 1)
    for name in ("orders", "orders-1"):
        seconds, crossings = found["gates"][f"queue {name}"]
        assert (seconds, crossings) == (pytest.approx(PERIODS * stats.closed_s), PERIODS * stats.transitions)
    sums = stats.sums(play.now)
    assert found["blocks"] == COPIES * PERIODS * sum(block.times for block in stats.blocks.values())
    assert found["blocked_seconds"] == pytest.approx(COPIES * PERIODS * sums.blocked_s)
    lines = b"".join(copies.blocks(period, COPIES, PERIODS)).splitlines()
    assert len(lines) == found["records"]
    assert {json.loads(line).get("queue") for line in lines} == {None, "orders", "orders-1"}
