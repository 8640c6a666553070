"""A recording of the records that a broker writes: it has the counts of the broker."""

from __future__ import annotations

import pytest

from penstock.management.flow_log_records import Recorder
from penstock_simulation.candidate import Candidate
from penstock_simulation.recording import record
from tests.support.blocked_producers import GATED, BlockedProducers

SECONDS = 30
QUEUE = "orders"


def test_recording_has_the_messages_closings_and_thresholds_of_the_broker() -> None:
    play = BlockedProducers()
    play.driver.recorder = Recorder(play.driver.broker)
    for second in range(SECONDS):
        for producer in (0, 1, 2, 0):
            play.do("publish", producer, QUEUE)
        play.now = second + 0.25
        play.user.listen(play.now)
        play.do("purge", 0, QUEUE)
        play.now = second + 1.0
        play.user.listen(play.now)
        play.driver.tick()
    stats = play.driver.broker.vhosts["/"].queues[QUEUE].gate.stats
    found = record(play.driver.take_records(), QUEUE)
    measures = found.measures()
    assert stats.transitions > SECONDS / 2
    assert measures["crossings"] == stats.transitions
    assert measures["closed"] == pytest.approx(stats.closed_s / SECONDS)
    assert found.messages == sum(sample.left for sample in found.samples) == 4 * SECONDS
    candidate = found.candidate()
    assert candidate == Candidate(None, GATED["capacity_messages"], 60.0, 20.0, candidate.hold_deadline_s, 1000, None)
    workload = found.workload()
    assert workload.seconds == SECONDS
    assert sum(1 for index in range(len(workload.sources)) for _ in workload.arrivals_of(index)) == found.messages
