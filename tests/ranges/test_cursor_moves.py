"""Moves of a cursor: forward settles, back ends at the oldest message, refusals change nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import Fenced, NotFound, PreconditionFailed
from penstock.ranges.cursors import Cursor, Move, apply_moves, check_move, count_steps
from tests.profiles import examples
from tests.support import attached_cursors


class Desk(attached_cursors.Desk):
    """The same with cursors that have settled something, and their moves."""

    def attach_at(self, name: str, settled: int) -> Cursor:
        cursor = self.attach(name)
        cursor.settle("q", settled, 0.0)
        return cursor

    def move(self, cursor: Cursor, to: int | str) -> Move:
        move = check_move(cursor, "q", to)
        for _ in count_steps(cursor, move, self.broker.work):
            self.broker.work.done = 0
        apply_moves(cursor, [move], 1.0)
        return move


def test_forward_move_settles_and_reports_messages_that_leave_the_queue() -> None:
    desk = Desk(100)
    cursor, other = desk.attach("c"), desk.attach("other")
    other.settle("q", 30, 0.0)
    move = desk.move(cursor, 50)
    assert (move.messages, move.bytes, move.leaving) == (50, 500, 30)
    assert (desk.queue.messages, cursor.position("q").settled) == (70, 50)
    move = desk.move(other, "latest")
    assert (move.messages, move.leaving) == (70, 20)
    assert desk.queue.messages == 50
    assert desk.move(cursor, "latest").leaving == 50
    assert desk.queue.messages == 0


def test_back_goes_as_far_as_another_cursor_holds_the_messages() -> None:
    desk = Desk(100)
    cursor, other = desk.attach("c"), desk.attach("other")
    cursor.settle("q", 80, 0.0)
    other.settle("q", 30, 0.0)
    with pytest.raises(PreconditionFailed, match=r"cannot be moved to 29.*up to 30 are gone"):
        check_move(cursor, "q", 29)
    move = desk.move(cursor, "earliest")
    assert (move.start, move.target, move.messages, move.leaving) == (80, 30, 50, 0)
    assert [int(each.sequence) for each in cursor.read("q", 30, 33, 9, 1000)] == [31, 32, 33]
    assert desk.queue.messages == 70


def test_single_cursor_of_a_queue_cannot_go_back() -> None:
    desk = Desk(100)
    cursor = desk.attach_at("c", 40)
    assert check_move(cursor, "q", "earliest").target == 40
    with pytest.raises(PreconditionFailed, match="every cursor has settled them"):
        check_move(cursor, "q", 39)


@pytest.mark.parametrize(
    ("to", "text"),
    [(101, "queue 'q' ends at 100; latest is its end"), ("newest", "earliest, latest or a sequence")],
)
def test_invalid_position_is_refused(to: int | str, text: str) -> None:
    cursor = Desk(100).attach("c")
    with pytest.raises(PreconditionFailed, match=text):
        check_move(cursor, "q", to)
    with pytest.raises(NotFound, match="does not read queue 'x'"):
        check_move(cursor, "x", "latest")


def test_moved_cursor_fences_the_reader_and_begins_at_the_new_position() -> None:
    desk = Desk(100)
    cursor = desk.attach("c")
    token = cursor.token
    cursor.plan("q", 0, 20, 1 << 40, 1 << 40)
    desk.move(cursor, 10)
    position = cursor.position("q")
    assert (position.initial, position.settled, position.planned) == (10, 10, 10)
    with pytest.raises(Fenced, match="was moved by an operator"):
        cursor.check(token, 2.0)
    cursor.attach([desk.queue], {"q": "earliest"}, 3.0)
    with pytest.raises(Fenced, match="was taken over by a newer attach"):
        cursor.check(token, 4.0)


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), max_size=20))
def test_queue_has_exactly_the_messages_that_a_cursor_has_not_settled(moves: list[tuple[int, int]]) -> None:
    desk = Desk(60)
    cursors = [desk.attach(name) for name in "abc"]
    for which, to in moves:
        cursor = cursors[which]
        before = [int(each.position("q").settled) for each in cursors]
        there = int(desk.queue.messages)
        try:
            move = desk.move(cursor, to)
        except PreconditionFailed:
            assert to < min(before)
            assert [int(each.position("q").settled) for each in cursors] == before
            continue
        assert move.messages == abs(to - before[which])
        settled = min(int(each.position("q").settled) for each in cursors)
        assert int(desk.queue.messages) == 60 - settled
        assert move.leaving == there - int(desk.queue.messages)
        assert int(desk.queue.bytes) == 10 * (60 - settled)
