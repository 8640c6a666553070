"""Sweeps of ready messages: a queue with very many tombstones is swept in later turns, a share each."""

from __future__ import annotations

import pytest

from penstock.core.message import Envelope
from penstock.core.queue.sweeping import sweep
from penstock.flow.timers import NEVER
from penstock.flow.work import UNITS_A_TURN
from tests.support.broker_fixture import a_queue

MANY = 60_000


@pytest.mark.once
def test_sweep_of_very_many_tombstones_takes_several_turns_within_the_work_of_a_turn() -> None:
    house, queue = a_queue()
    for number in range(MANY):
        envelope = Envelope("", "a", ttl_s=1.0 if number % 3 == 1 else NEVER)
        queue.enqueue(envelope, b"x", 100, house.broker.now)
    line = queue.ready_queue
    while line.take_due(house.broker.now + 10.0, NEVER, house.broker.now + 10.0) is not None:
        pass
    assert line.tombstones == MANY // 3
    work, costs = house.broker.work, []
    sweep(queue)
    sweep(queue)
    while not line.is_swept():
        done = int(work.done)
        house.broker.run(1000)
        costs.append(int(work.done) - done)
    assert (line.tombstones, len(line.ready)) == (0, MANY - MANY // 3)
    assert len(costs) > 1
    assert max(costs) <= 2 * UNITS_A_TURN
