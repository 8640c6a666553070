"""A queue: its depth, its gate, and the bounds of the fast path."""

from __future__ import annotations

from penstock.core.queue.queue import queue_of
from tests.support.broker_fixture import a_queue


def test_queue_counts_unacknowledged_messages_in_the_depth_until_settled() -> None:
    house, found = a_queue()
    for charge in (100, 200):
        house.publish_now("a", charge)
    house.session.get(found, False, 100.0)
    assert (int(found.messages), int(found.bytes)) == (2, 300)
    assert (int(found.unacked_messages), int(found.available())) == (1, 1)
    house.session.unsettled.acknowledge(1, False, 100.0)
    assert (int(found.messages), int(found.bytes), int(found.unacked_messages)) == (1, 200, 0)


def test_queue_closes_the_gate_above_stop_and_opens_the_gate_at_resume() -> None:
    house, found = a_queue(capacity_messages=10, stop_messages=3, resume_messages=1)
    states = []
    for _ in range(4):
        house.publish_now("a", 100)
        states.append(found.gate.open)
    for _ in range(3):
        house.take("a")
        states.append(found.gate.open)
    assert states == [True, True, True, False, False, False, True]


def test_queue_has_a_fast_path_up_to_the_stop_threshold_while_the_gate_is_open() -> None:
    house, found = a_queue(capacity_messages=10, stop_messages=3, resume_messages=1)
    assert found.fast_path_max_messages == 3
    house.publish_now("a", 100, count=4)
    assert found.fast_path_max_messages < 0
    assert found.withheld_max_messages == 10


def test_purged_queue_keeps_unacknowledged_messages() -> None:
    house, found = a_queue()
    house.publish_now("a", 100, count=3)
    house.session.get(found, False, 100.0)
    assert found.purge(100.0) == 2
    assert (int(found.messages), int(found.available())) == (1, 0)


def test_queue_remembers_the_highest_depth() -> None:
    house, found = a_queue()
    for charge in (500, 100):
        house.publish_now("a", charge)
    house.take("a", count=2)
    house.publish_now("a", 50)
    assert found.highest() == (2, 600)


def test_queue_is_found_by_the_own_gate_only() -> None:
    house, found = a_queue()
    assert queue_of(found.gate) is found
    house.broker.gates.block("vhost", "/", "/", "")
    (gate,) = (gate for gate in found.gates if gate is not found.gate)
    assert queue_of(gate) is None
