"""Lag of a cursor: messages, octets and age, whatever lies before its position."""

from __future__ import annotations

from penstock.core.queue.cursor_state import REACHED_AT_ONCE, Lag, holds_back, lag_of
from penstock.core.queue.indexed_ready_queue import CHUNK
from penstock.ranges.cursors import Cursor
from tests.support import attached_cursors


class Desk(attached_cursors.Desk):
    """The same with messages that arrive a second apart."""

    def put(self, count: int, charge: int = 10) -> None:
        for _ in range(count):
            self.now += 1
            super().put(1, charge)

    def lag(self, cursor: Cursor) -> Lag | None:
        return lag_of(cursor.position("q"), self.broker.work)


def seen(lag: Lag | None, now: float) -> tuple[int, int, float | None]:
    return int(lag.messages), int(lag.bytes), lag.oldest_s(now)


def test_lag_is_the_queue_beyond_the_settled_position() -> None:
    desk = Desk()
    first, last = desk.attach("first"), desk.attach("last")
    assert seen(desk.lag(first), 5.0) == (0, 0, 0.0)
    desk.put(1000)
    assert seen(desk.lag(first), desk.now) == (1000, 10_000, 999.0)
    first.plan("q", 0, 600, 1 << 40, 1 << 40)
    assert seen(desk.lag(first), desk.now) == (1000, 10_000, 999.0), "planned is not settled"
    first.settle("q", 600, desk.now)
    assert seen(desk.lag(first), desk.now) == (400, 4000, 399.0)
    assert seen(desk.lag(last), desk.now) == (1000, 10_000, 999.0)
    assert [holds_back(each.position("q")) for each in (first, last)] == [False, True]
    last.settle("q", 1000, desk.now)
    assert seen(desk.lag(first), desk.now) == (400, 4000, 399.0), "the messages before its position are gone"
    assert seen(desk.lag(last), desk.now) == (0, 0, 0.0)


def test_gaps_in_the_sequences_are_no_lag() -> None:
    desk = Desk()
    cursor = desk.attach("c")
    desk.put(3)
    desk.queue.raise_tail(5000)
    desk.put(2)
    cursor.settle("q", 1, desk.now)
    assert desk.queue.tail == 5002
    assert seen(desk.lag(cursor), desk.now) == (4, 40, 3.0)


def test_position_far_beyond_the_index_is_counted_at_a_later_look() -> None:
    desk = Desk()
    desk.attach("slow")
    desk.put(CHUNK * REACHED_AT_ONCE * 2)
    cursor = desk.attach("ahead", CHUNK * REACHED_AT_ONCE + 1)
    before = desk.broker.work.done
    assert desk.lag(cursor) is None
    assert desk.broker.work.done > before, "what one look does is counted, and bounded"
    assert seen(desk.lag(cursor), desk.now)[0] == CHUNK * REACHED_AT_ONCE - 1
    assert seen(desk.lag(desk.attach("newest", "latest")), desk.now) == (0, 0, 0.0)


def test_deleted_queue_has_no_lag() -> None:
    desk = Desk()
    cursor = desk.attach("c")
    desk.put(3)
    position = cursor.position("q")
    desk.queue.deleted = True
    assert seen(lag_of(position, desk.broker.work), desk.now) == (0, 0, 0.0)
    assert not holds_back(position)
