"""The source of a transfer: pages on the disk, cursors, and what does not belong to it."""

from __future__ import annotations

import pytest

from penstock.content.selector.selector import parse_selector
from penstock.core.consume.scan import MessageFilter
from penstock.core.publish.transfer import Transfer
from penstock.core.publish.transfer_source import TransferSource
from penstock.core.publish.transfer_targets import ToQueue
from penstock.core.queue.cursor_state import CursorState, shared_of
from penstock.errors import PreconditionFailed
from penstock.flow.progress import WorkProgress
from tests.support.broker_fixture import House
from tests.support.memory_store import Shelf
from tests.support.paging_broker import FEW, PagedHouse
from tests.support.transfers import Moving, contents, put, to_queue

MESSAGES = 20


class PagedMove:
    """A transfer from queue a, which pages, into queue b."""

    def __init__(
        self, removes: bool, selector: str = "", most: int = MESSAGES, arguments: dict[str, object] | None = None
    ) -> None:
        self.house = PagedHouse(Shelf(), {"a": (arguments or dict(FEW), True), "b": ({}, True)})
        for number in range(MESSAGES):
            self.house.publish("a", str(number).encode())
        self.house.settle()
        self.progress = WorkProgress()
        broker = self.house.broker
        self.source = TransferSource(broker, self.house.queues["a"], removes, self.progress)
        filter = MessageFilter(broker.formats, parse_selector(selector))
        self.transfer = Transfer(broker, "a move", self.source, ToQueue(self.house.queues["b"]), filter, most)
        steps = self.transfer.steps()
        for _ in range(1_000):
            try:
                next(steps)
            except StopIteration:
                return
            self.house.settle()
        raise AssertionError(self.progress.held_by)


NUMBERS = [str(number).encode() for number in range(MESSAGES)]


def test_pages_of_the_source_are_loaded_and_moved_in_order() -> None:
    move = PagedMove(True)
    assert int(move.transfer.moved) == MESSAGES
    assert move.house.drain("b") == NUMBERS
    assert int(move.house.queues["a"].depth_messages()) == 0


def test_stream_is_copied_and_no_message_leaves_the_stream() -> None:
    stream: dict[str, object] = {"x-queue-type": "stream"}
    move = PagedMove(False, arguments=stream)
    assert int(move.transfer.moved) == MESSAGES
    assert move.house.drain("b") == NUMBERS
    assert move.house.pages("a").messages == MESSAGES
    with pytest.raises(PreconditionFailed, match=r"^no message leaves queue 'a', a stream: copy its messages$"):
        PagedMove(True, arguments=stream)


def test_pages_of_the_source_are_copied_and_stay_on_the_disk() -> None:
    move = PagedMove(False)
    pager = move.house.queues["a"].pager
    assert pager is not None
    assert int(move.transfer.moved) == MESSAGES
    assert move.house.drain("b") == NUMBERS
    assert int(move.house.queues["a"].depth_messages()) == MESSAGES
    assert pager.messages > 0


def test_messages_behind_a_full_memory_are_counted_as_unread() -> None:
    move = PagedMove(True, "none = 1")
    pager = move.house.queues["a"].pager
    assert pager is not None
    assert int(move.source.unread()) == int(pager.messages) > 0
    assert int(move.transfer.unmatched) + int(pager.messages) == MESSAGES


def test_message_that_arrives_later_is_not_counted_as_unread() -> None:
    move = PagedMove(True, "none = 1")
    unread = int(move.source.unread())
    for number in range(5):
        move.house.publish("a", str(MESSAGES + number).encode())
    move.house.settle()
    pager = move.house.queues["a"].pager
    assert pager is not None
    assert (int(move.source.unread()), int(pager.messages)) == (unread, unread + 5)


def test_copy_with_a_filter_reads_past_a_full_memory() -> None:
    move = PagedMove(False, "none = 1")
    assert (int(move.source.unread()), int(move.transfer.unmatched)) == (0, MESSAGES)


def test_cursor_that_comes_meanwhile_ends_a_move() -> None:
    house = House("a", "b")
    put(house, "a", b"1")
    moving = Moving(house, "a", to_queue(house, "b"))
    queue = house.vhost.queues["a"]
    queue.cursors = [CursorState("/", "c")]
    with pytest.raises(PreconditionFailed, match="no message leaves queue 'a' before cursor 'c' has settled it"):
        moving.step()
    assert house.depth("b") == 0


def test_requeued_message_is_moved_before_younger_ones() -> None:
    house = House("a")
    house.queue("b", capacity_messages=1)
    put(house, "a", b"1", b"2", b"3")
    queue = house.vhost.queues["a"]
    house.session.get(queue, False, house.broker.now)
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    house.broker.end_session(house.session)
    house.take("b")
    moving.retry()
    moving.run()
    assert contents(house, "b") == [b"1"]
    assert contents(house, "a") == [b"3"]


def test_requeued_message_behind_a_message_that_stays_is_not_examined() -> None:
    house = House("a")
    house.queue("b", capacity_bytes=500)
    put(house, "a", b"1")
    put(house, "a", b"large", charge=600)
    put(house, "a", b"2", b"3", b"4", b"5", b"6")
    house.session.get(house.vhost.queues["a"], False, house.broker.now)
    moving = Moving(house, "a", to_queue(house, "b"))
    moving.run()
    house.broker.end_session(house.session)
    house.take("b", 5)
    moving.retry()
    moving.run()
    assert moving.ended
    assert contents(house, "a") == [b"1", b"large"]


def test_change_of_the_order_ends_a_copy() -> None:
    house = House("a")
    house.queue("b", capacity_messages=1)
    put(house, "a", b"1", b"2", b"3")
    moving = Moving(house, "a", to_queue(house, "b"), copies=True)
    moving.run()
    shared_of(house.vhost.queues["a"])
    with pytest.raises(PreconditionFailed, match="the order of queue 'a' changed meanwhile"):
        moving.retry()
