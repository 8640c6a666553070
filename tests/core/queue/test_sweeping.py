"""Sweeps of ready messages: a queue with very many tombstones is swept in later turns, a share each."""

from __future__ import annotations

from penstock.core.message import Envelope
from penstock.flow.timers import NEVER
from penstock.flow.work import UNITS_A_TURN
from tests.support.broker_fixture import a_queue

MANY = 12_000


def test_sweep_after_a_mass_expiry_keeps_turns_within_their_work_and_leaves_live_messages() -> None:
    house, queue = a_queue()
    for number in range(MANY):
        envelope = Envelope("", "a", ttl_s=1.0 if number % 3 == 1 else NEVER)
        queue.enqueue(envelope, b"x", 100, house.broker.now)
    work, most = house.broker.work, 0
    line = queue.ready_queue
    for _ in range(100):
        done = int(work.done)
        house.later(2.0)
        most = max(most, int(work.done) - done)
        if queue.messages == MANY * 2 // 3 and line.tombstones * 4 <= len(line.ready):
            break
    assert (queue.messages, line.available()) == (MANY * 2 // 3, MANY * 2 // 3)
    assert line.tombstones * 4 <= len(line.ready)
    assert most <= 4 * UNITS_A_TURN
