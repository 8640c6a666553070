"""A purge or deletion of many durable messages leaves the store in slices, and is answered at its end."""

from __future__ import annotations

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.flow.work import AT_ONCE
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue
from tests.support.durable_queue import MANY, PURGE, SLICE, DurableQueue

pytestmark = pytest.mark.once

DELETE = method_frame(1, spec.QUEUE_DELETE, queue="q")


@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 3}], ids=["plain", "priorities"])
@pytest.mark.parametrize("how", [PURGE, DELETE], ids=["purge", "delete"])
def test_durable_messages_leave_the_queue_at_once_and_the_store_in_slices(
    how: bytes, arguments: dict[str, object]
) -> None:
    kept = DurableQueue(**arguments)
    kept.ask(how)
    assert (kept.q.messages, kept.q.bytes, kept.q.available()) == (0, 0, 0)
    left = kept.stored()
    assert left == MANY
    turns = 0
    while left > 0:
        kept.turn()
        assert 0 < left - kept.stored() <= SLICE
        left = kept.stored()
        turns += 1
    assert turns >= MANY // SLICE
    kept.write()
    assert not kept.declared.shelf.rows
    assert not kept.declared.shelf.notes
    assert not kept.journal.rows
    assert kept.broker.gates.disk.vhost_usage("/").bytes() == 0
    assert not kept.journal.removals.pending()


def test_durable_messages_that_are_few_are_purged_at_once() -> None:
    kept = DurableQueue(AT_ONCE)
    kept.ask(PURGE)
    assert kept.stored() == 0
    assert not kept.journal.removals.pending()
    kept.write()
    assert kept.replies() == ["queue.purge-ok"]


@pytest.fixture
def kept() -> DurableQueue:
    return DurableQueue()


def test_purge_is_answered_when_all_of_it_is_on_the_disk_and_later_methods_after_it(kept: DurableQueue) -> None:
    kept.ask(PURGE + method_frame(1, spec.QUEUE_DECLARE, queue="q", passive=True) + DELETE)
    kept.write()
    while kept.journal.removals.pending():
        assert kept.replies() == []
        kept.turn()
        kept.write()
    assert kept.replies() == ["queue.purge-ok", "queue.declare-ok", "queue.delete-ok"]
    assert kept.after_a_kill() == []


def test_purge_that_has_left_the_store_is_not_answered_before_that_is_written(kept: DurableQueue) -> None:
    kept.ask(PURGE)
    kept.write()
    while kept.journal.removals.pending():
        kept.turn()
    assert kept.replies() == []
    kept.write()
    assert kept.replies() == ["queue.purge-ok"]


def test_deletion_waits_only_until_it_is_written(kept: DurableQueue) -> None:
    kept.ask(DELETE)
    assert kept.replies() == []
    kept.write()
    assert kept.replies() == ["queue.delete-ok"]
    assert kept.stored() == MANY


def test_change_of_another_connection_does_not_wait_for_a_purge(kept: DurableQueue) -> None:
    other = Dialogue(kept.driver)
    kept.ask(PURGE)
    other.connection.receive(method_frame(1, spec.QUEUE_DECLARE, queue="r", durable=True))
    assert other.connection.output.waits_for_disk()
    kept.write()
    assert not other.connection.output.waits_for_disk()
    assert kept.journal.removals.pending()
    assert kept.replies() == []


@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 3}], ids=["plain", "priorities"])
def test_kill_during_a_purge_brings_back_the_unpurged_rest_only(
    arguments: dict[str, object],
) -> None:
    kept = DurableQueue(**arguments)
    kept.ask(PURGE)
    kept.fill(MANY, MANY + 10)
    after = list(range(MANY, MANY + 10))
    came_back = []
    while kept.journal.removals.pending():
        kept.turn()
        kept.write()
        found = kept.after_a_kill()
        assert found[-10:] == after, "what came after the purge is not lost"
        came_back.append(len(found) - 10)
    assert came_back == sorted(came_back, reverse=True)
    assert 0 < came_back[0] < MANY
    assert kept.replies() == ["queue.purge-ok"]
    assert kept.after_a_kill() == after


def test_kill_during_a_deletion_that_was_answered_brings_nothing_back(kept: DurableQueue) -> None:
    kept.ask(DELETE + method_frame(1, spec.QUEUE_DECLARE, queue="q", durable=True))
    kept.write()
    assert kept.replies() == ["queue.delete-ok", "queue.declare-ok"]
    gone, kept.q = kept.q, kept.broker.vhosts["/"].queues["q"]
    kept.fill(MANY, MANY + 10)
    while gone.storage is not None and gone.storage.rows > 0:
        kept.write()
        assert kept.after_a_kill() == list(range(MANY, MANY + 10))
        kept.turn()
    kept.write()
    assert len(kept.declared.shelf.rows) == 1


def test_unacknowledged_messages_survive_a_purge_in_slices_and_a_kill(kept: DurableQueue) -> None:
    session = Session()
    kept.broker.consume(session, Consumer("c", session, kept.q, False, False, 100))
    while kept.broker.next_batch() is not None:
        pass
    held = list(range(int(kept.q.unacked_messages)))
    assert held
    kept.ask(PURGE)
    while kept.journal.removals.pending():
        kept.turn()
    kept.write()
    assert kept.after_a_kill() == held


def test_messages_returning_during_a_purge_leave_in_slices_too(kept: DurableQueue) -> None:
    session = Session()
    kept.broker.consume(session, Consumer("c", session, kept.q, False, False, 0))
    while kept.broker.next_batch() is not None:
        pass
    assert kept.q.unacked_messages == MANY
    kept.broker.end_session(session)
    assert kept.q.coming_back > 0
    kept.ask(PURGE)
    assert (kept.q.messages, kept.q.coming_back, kept.q.unacked_messages) == (0, 0, 0)
    left = kept.stored()
    assert left == MANY
    while left > 0:
        kept.turn()
        assert left - kept.stored() <= 2 * SLICE
        left = kept.stored()
    kept.write()
    assert kept.replies() == ["queue.purge-ok"]
    assert kept.after_a_kill() == []
