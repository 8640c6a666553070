"""Changes that a commit makes to a queue and at a gate."""

from __future__ import annotations

import pytest

from penstock.core.publish.commit_delta import GateDelta, QueueDelta, adds, delta_of
from tests.support.broker_fixture import a_queue


def queue_delta(**arguments: object) -> QueueDelta:
    return QueueDelta(a_queue(**arguments)[1])


def test_commit_delta_of_a_queue_sums_publishes_and_settlements() -> None:
    delta = queue_delta()
    for charge in (100, 300):
        delta.bring(charge, b"")
    delta.settle(50, frees=True)
    delta.settle(70, frees=False)
    assert (delta.messages, delta.bytes, delta.largest) == (2, 400, 300)
    assert (delta.freed, delta.freed_bytes) == (1, 50)
    assert (delta.back, delta.back_bytes) == (2, 120)


def test_commit_delta_at_a_gate_is_publishes_minus_freed_messages() -> None:
    delta = queue_delta(capacity_messages=10)
    delta.bring(100, b"")
    delta.settle(100, frees=True)
    at_gate = GateDelta(delta.queue.gate)
    delta.add_to(at_gate)
    assert (at_gate.messages, at_gate.more_messages, at_gate.more_bytes) == (1, 0, 0)
    assert at_gate.has_room(100.0)


def test_commit_delta_adds_no_message_to_a_queue_that_was_deleted() -> None:
    delta = queue_delta()
    delta.bring(100, b"")
    delta.queue.deleted = True
    at_gate = GateDelta(delta.queue.gate)
    delta.add_to(at_gate)
    assert not delta.enters()
    assert (at_gate.messages, at_gate.more_messages) == (0, 0)


@pytest.mark.parametrize(("count", "refused"), [(2, False), (3, True)])
def test_commit_delta_is_refused_where_the_policy_refuses_a_part(count: int, refused: bool) -> None:
    delta = queue_delta(capacity_messages=2, overflow="reject")
    for _ in range(count):
        delta.bring(100, b"")
    assert (delta.refusing(100.0) is not None) is refused


def test_commit_delta_that_can_never_fit_names_the_capacity() -> None:
    delta = queue_delta(capacity_messages=2)
    at_gate = GateDelta(delta.queue.gate)
    at_gate.bring(2, 200)
    assert at_gate.never_fits() == ""
    at_gate.bring(1, 100)
    assert at_gate.never_fits() == "queue 'a' with its capacity of 2 messages"


def test_commit_delta_exists_once_for_each_queue() -> None:
    delta = queue_delta()
    deltas = {id(delta.queue): delta}
    assert delta_of(deltas, delta.queue) is delta
    assert adds(1, 100) == "the transaction adds 1 message, 100 bytes"
