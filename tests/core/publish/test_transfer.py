"""Transfers: order, gates, slices, and the ends of a transfer."""

from __future__ import annotations

import copy

import pytest

from penstock.core.consume.scan import MessageFilter
from penstock.core.publish.transfer import (
    LEFT_KINDS_MOST,
    MOVED_WORK,
    OTHER_REASONS,
    SLICE_BYTES,
    SLICE_MESSAGES,
    Transfer,
)
from penstock.core.publish.transfer_source import TransferSource
from penstock.core.publish.transfer_targets import ToNowhere, ToQueue, staying
from penstock.core.queue.expiry import expire
from penstock.errors import Cancelled, NotFound
from penstock.flow.progress import WorkProgress
from tests.support.broker_fixture import House, told
from tests.support.memory_store import Shelf
from tests.support.paging_broker import FEW, PagedHouse
from tests.support.transfers import Moving, contents, put, to_queue


def test_move_keeps_the_order_and_the_charges() -> None:
    house = House("a", "b")
    put(house, "a", b"1", b"2", b"3", charge=77)
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    assert moving.ended
    source, target = house.vhost.queues["a"], house.vhost.queues["b"]
    assert (int(source.messages), int(source.bytes)) == (0, 0)
    assert (int(target.messages), int(target.bytes)) == (3, 231)
    assert contents(house, "b") == [b"1", b"2", b"3"]


def test_moved_message_keeps_its_exchange_and_routing_key() -> None:
    house = House("a", "b")
    put(house, "a", b"1")
    Moving(house, "a", to_queue(house, "b")).run()
    message = house.vhost.queues["b"].ready_queue.next()
    assert message is not None
    assert (message.envelope.exchange, message.envelope.routing_key) == ("in", "key")


def test_copy_leaves_the_source_as_it_was() -> None:
    house = House("a", "b")
    put(house, "a", b"1", b"2")
    moving = Moving(house, "a", to_queue(house, "b"), copies=True)
    moving.run()
    assert int(moving.transfer.moved) == 2
    assert contents(house, "b") == [b"1", b"2"]
    assert contents(house, "a") == [b"1", b"2"]
    assert int(house.vhost.queues["a"].bytes) == 200


def test_move_of_a_number_takes_the_oldest_messages() -> None:
    house = House("a", "b")
    put(house, "a", b"1", b"2", b"3")
    Moving(house, "a", to_queue(house, "b"), most=2).run()
    assert contents(house, "b") == [b"1", b"2"]
    assert contents(house, "a") == [b"3"]


def test_move_between_producers_ends_at_the_tail_of_its_beginning() -> None:
    house = House("a", "b")
    put(house, "a", *[b"old"] * (SLICE_MESSAGES + 1))
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.step()
    put(house, "a", b"new")
    moving.run()
    assert moving.ended
    assert contents(house, "a") == [b"new"]


def test_unacknowledged_messages_stay_with_their_consumer() -> None:
    house = House("a", "b")
    put(house, "a", b"1", b"2")
    house.session.get(house.vhost.queues["a"], False, house.broker.now)
    Moving(house, "a", to_queue(house, "b")).run()
    assert contents(house, "b") == [b"2"]
    assert (int(house.vhost.queues["a"].messages), int(house.vhost.queues["a"].unacked_messages)) == (1, 1)


def test_move_from_priorities_takes_the_highest_priority_first() -> None:
    house = House("b")
    house.queue("a", x_max_priority=5)
    put(house, "a", b"low", priority=1)
    put(house, "a", b"high", priority=5)
    Moving(house, "a", to_queue(house, "b")).run()
    assert contents(house, "b") == [b"high", b"low"]


def test_full_target_holds_the_move_until_there_is_room() -> None:
    house = House("a")
    house.queue("b", capacity_messages=2, stop_messages=2, resume_messages=1)
    put(house, "a", b"1", b"2", b"3")
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    assert not moving.ended
    assert "queue 'b'" in moving.progress.held_by
    assert house.depth("b") == 2
    assert house.depth("a") == 1
    house.take("b")
    assert not moving.progress.held_by
    moving.run()
    assert moving.ended
    assert contents(house, "b") == [b"2", b"3"]


def test_held_move_waits_in_line_behind_earlier_producers() -> None:
    house = House("a")
    house.queue("b", capacity_messages=1)
    producer = house.published("p", "b", 100, count=2)
    put(house, "a", b"moved")
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    house.take("b")
    assert contents(house, "b") == [b"x"]
    assert told(producer)
    assert house.depth("a") == 1
    assert moving.progress.held_by


def test_producer_does_not_overtake_a_held_move() -> None:
    house = House("a")
    house.queue("b", capacity_messages=2)
    put(house, "b", b"0", b"0")
    put(house, "a", b"moved")
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    house.published("p", "b", 100)
    house.take("b", 2)
    assert house.depth("a") == 0
    assert house.vhost.queues["b"].ready_queue.next().content == b"moved"


def test_closed_gate_holds_the_move_below_the_capacity() -> None:
    house = House("a")
    house.queue("b", capacity_messages=100, stop_messages=2, resume_messages=1)
    put(house, "a", *[b"x"] * 10)
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    assert moving.progress.held_by
    assert house.depth("b") == 3


@pytest.mark.parametrize("overflow", ["drop-head", "reject", "drop-new"])
def test_overflow_policy_of_the_target_loses_no_moved_message(overflow: str) -> None:
    house = House("a")
    house.queue("b", capacity_messages=2, overflow=overflow)
    put(house, "a", b"1", b"2", b"3")
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    assert not moving.ended
    assert (house.depth("a"), house.depth("b")) == (1, 2)
    house.take("b")
    moving.run()
    assert moving.ended
    assert contents(house, "b") == [b"2", b"3"]
    assert int(house.vhost.queues["b"].counters.dropped) == 0


def test_length_limit_of_the_target_drops_no_message() -> None:
    house = House("a")
    house.queue("b", x_max_length=2)
    put(house, "a", b"1", b"2", b"3")
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    assert moving.progress.held_by
    assert (house.depth("a"), house.depth("b")) == (1, 2)
    house.take("b")
    moving.retry()
    moving.run()
    assert contents(house, "b") == [b"2", b"3"]


def test_message_that_never_fits_stays_and_is_counted() -> None:
    house = House("a")
    house.queue("b", capacity_bytes=500)
    put(house, "a", b"small")
    put(house, "a", b"large", charge=600)
    put(house, "a", b"small too")
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    assert moving.ended
    assert contents(house, "b") == [b"small", b"small too"]
    assert contents(house, "a") == [b"large"]
    [(reason, count)] = [(key[0], count) for key, count in moving.left().items()]
    assert count == 1
    assert "can never fit into queue 'b'" in reason


def test_vhost_sum_does_not_stop_a_move_inside_it() -> None:
    house = House("a", "b")
    house.set("vhost", "/", capacity_messages=4)
    put(house, "a", b"1", b"2", b"3", b"4")
    house.broker.apply_gate_transitions()
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    assert moving.ended
    assert contents(house, "b") == [b"1", b"2", b"3", b"4"]


def test_vhost_sum_holds_a_copy() -> None:
    house = House("a", "b")
    house.set("vhost", "/", capacity_messages=4)
    put(house, "a", b"1", b"2", b"3", b"4")
    moving = Moving(house, "a", to_queue(house, "b"), copies=True)
    moving.run()
    assert not moving.ended
    assert "vhost" in moving.progress.held_by


def test_blocked_queue_holds_the_move() -> None:
    house = House("a", "b")
    put(house, "a", b"1")
    house.broker.gates.block("queue", "/", "b", "maintenance")
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    assert "maintenance" in moving.progress.held_by
    assert house.depth("a") == 1


def test_cancelled_move_keeps_what_has_passed() -> None:
    house = House("a")
    house.queue("b", capacity_messages=2)
    put(house, "a", b"1", b"2", b"3")
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    moving.progress.cancelled_by = "anna"
    moving.progress.go_on()
    with pytest.raises(Cancelled, match="anna"):
        moving.step()
    assert (house.depth("a"), house.depth("b")) == (1, 2)
    gate = house.vhost.queues["b"].gate
    assert (gate.in_line(), gate.blocked) == (0, {})
    assert contents(house, "a") == [b"3"]


def test_deleted_target_ends_a_held_move() -> None:
    house = House("a")
    house.queue("b", capacity_messages=1)
    put(house, "a", b"1", b"2")
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    house.broker.delete_queue(house.vhost.queues["b"])
    house.later(0.0)
    assert not moving.progress.held_by
    with pytest.raises(NotFound, match="queue 'b' was deleted meanwhile"):
        moving.step()
    assert contents(house, "a") == [b"2"]


def test_deleted_source_ends_a_held_move() -> None:
    house = House("a")
    house.queue("b", capacity_messages=1)
    put(house, "a", b"1", b"2")
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    house.broker.delete_queue(house.vhost.queues["a"])
    with pytest.raises(NotFound, match="queue 'a' was deleted meanwhile"):
        moving.retry()
    assert house.vhost.queues["b"].gate.in_line() == 0


def test_waiting_message_that_was_consumed_is_not_moved() -> None:
    house = House("a")
    house.queue("b", capacity_messages=1)
    put(house, "a", b"1", b"2", b"3")
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    house.take("a")
    house.take("b")
    moving.run()
    assert contents(house, "b") == [b"3"]
    assert house.depth("a") == 0


def test_slice_passes_a_bounded_number_of_messages() -> None:
    house = House("a", "b")
    put(house, "a", *[b"x"] * (SLICE_MESSAGES + 5))
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.step()
    assert int(moving.transfer.moved) == SLICE_MESSAGES


def test_slice_passes_a_bounded_number_of_bytes() -> None:
    house = House("a", "b")
    put(house, "a", *[b"x"] * 5, charge=SLICE_BYTES // 2)
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.step()
    assert int(moving.transfer.moved) == 2


def test_expired_message_is_not_moved() -> None:
    house = House("b")
    house.queue("a", message_ttl=1000)
    put(house, "a", b"old")
    house.broker.begin(house.broker.now + 2)
    put(house, "a", b"new")
    Moving(house, "a", to_queue(house, "b")).run()
    assert contents(house, "b") == [b"new"]


def test_moved_message_begins_its_time_to_live_again() -> None:
    house = House("a")
    house.queue("b", message_ttl=1000)
    put(house, "a", b"1")
    house.broker.begin(house.broker.now + 5)
    Moving(house, "a", to_queue(house, "b")).run()
    queue, now = house.vhost.queues["b"], house.broker.now
    expire(queue, now + 0.9, now + 0.9)
    assert house.depth("b") == 1
    expire(queue, now + 1.1, now + 1.1)
    assert house.depth("b") == 0


def test_reasons_beyond_the_most_are_counted_together() -> None:
    house = House("a", "b")
    moving = Moving(house, "a", to_queue(house, "b"))
    put(house, "a", b"1")
    message = house.vhost.queues["a"].ready_queue.next()
    assert message is not None
    for number in range(LEFT_KINDS_MOST + 3):
        moving.transfer._leave(staying(message, f"reason {number}"))
    assert moving.left()[OTHER_REASONS, ""] == 3
    assert len(moving.left()) == LEFT_KINDS_MOST + 1


DURABLE = 40


def test_crash_after_any_write_neither_loses_nor_doubles_a_message() -> None:
    shelf = Shelf()
    queues: dict[str, tuple[dict[str, object], bool]] = {"a": ({}, True), "b": (dict(FEW), True)}
    house = PagedHouse(shelf, queues)
    wanted = [str(number).encode() for number in range(DURABLE)]
    for content in wanted:
        house.publish("a", content)
    house.settle()
    progress = WorkProgress()
    source = TransferSource(house.broker, house.queues["a"], True, progress)
    filter = MessageFilter(house.broker.formats)
    steps = Transfer(house.broker, "a move", source, ToQueue(house.queues["b"]), filter).steps()
    lives = 0
    ended = False
    while not ended:
        house.broker.work.limit = house.broker.work.done + 5 * MOVED_WORK
        progress.go_on()
        try:
            next(steps)
        except StopIteration:
            ended = True
        house.begin_write()
        lives += 1
        other = PagedHouse(copy.deepcopy(shelf), queues)
        found = [other.drain("b"), other.drain("a")]
        assert [content for part in found for content in part] == wanted
        house.journal.written()
        house.settle()
    assert lives > 5


@pytest.mark.parametrize("stored", [True, False])
def test_delivery_of_a_moved_message_waits_for_the_group_that_moves_it(stored: bool) -> None:
    """A kill before that brings the message back into its source, where no mark says that it was delivered."""
    house = PagedHouse(Shelf(), {"a": ({}, True), "b": ({}, True)})
    for content in (b"1", b"2"):
        house.publish("a", content)
    if stored:
        house.settle()
    progress = WorkProgress()
    source = TransferSource(house.broker, house.queues["a"], True, progress)
    filter = MessageFilter(house.broker.formats)
    for _ in Transfer(house.broker, "a move", source, ToQueue(house.queues["b"]), filter).steps():
        progress.go_on()
    storage = house.queues["b"].storage
    assert storage is not None
    storage.redelivery_mark = 10  # Ahead of the deliveries: the mark says nothing of messages that come back.
    for content in (b"1", b"2"):
        batch = house.session.get(house.queues["b"], False, house.now)
        assert batch.messages[0] is not None
        assert batch.messages[0].content == content
        assert batch.waits_for_disk is stored


def test_delivery_waits_for_no_group_once_a_move_is_on_the_disk() -> None:
    house = PagedHouse(Shelf(), {"a": ({}, True), "b": ({}, True)})
    house.publish("a", b"1")
    house.settle()
    source = TransferSource(house.broker, house.queues["a"], True, WorkProgress())
    for _ in Transfer(
        house.broker, "a move", source, ToQueue(house.queues["b"]), MessageFilter(house.broker.formats)
    ).steps():
        pass
    assert house.journal.last_move > 0
    house.settle()
    assert house.journal.last_move == 0


def test_rate_holds_the_transfer_and_a_look_each_second_goes_on() -> None:
    house = House("a", "b")
    put(house, "a", *[b"x"] * 30)
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.transfer.limit_rate(10)
    moving.run()
    assert (int(moving.transfer.moved), moving.progress.held_by) == (0, "it passes at most 10 messages a second")
    found = []
    while not moving.ended:
        house.later(1.0)
        moving.retry()
        if not moving.ended:
            moving.run()
        found.append(int(moving.transfer.moved))
    assert found == [10, 20, 30]


def test_rate_saves_up_no_more_than_a_second_and_a_quarter() -> None:
    house = House("a", "b")
    put(house, "a", *[b"x"] * 30)
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.transfer.limit_rate(8)
    moving.run()
    house.later(60.0)
    moving.retry()
    moving.run()
    assert int(moving.transfer.moved) == 10


def test_chosen_positions_are_reached_without_a_look_at_others() -> None:
    house = House("a", "b")
    put(house, "a", *[b"%d" % number for number in range(100)])
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.transfer.choose({50, 52})
    moving.run()
    assert contents(house, "b") == [b"49", b"51"]
    assert moving.ended
    assert int(moving.source.tail) == 52


def test_deleted_messages_leave_the_queue_and_its_charge() -> None:
    house = House("a")
    put(house, "a", b"1", b"2", b"3", charge=70)
    moving = Moving(house, "a", ToNowhere())
    moving.transfer.choose({1, 3})
    moving.run()
    assert (contents(house, "a"), house.depth("a"), int(house.vhost.queues["a"].bytes)) == ([b"2"], 1, 70)
