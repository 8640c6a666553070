"""Cursors of a stream: they settle for themselves, remove nothing, and are told what retention has dropped."""

from __future__ import annotations

import pytest

from penstock.core.queue.cursor_state import lag_of
from penstock.errors import PreconditionFailed
from penstock.flow.work import WorkMeter
from penstock.ranges.cursors import Cursor, check_move, earliest_offset
from tests.support.stream_house import StreamHouse


def cursor_of(house: StreamHouse, name: str = "c", at: int | str = "earliest") -> Cursor:
    cursor = Cursor("/", name)
    cursor.attach([house.stream], {"s": at}, house.now)
    return cursor


def test_settled_messages_stay_for_other_cursors_and_consumers() -> None:
    house = StreamHouse()
    house.append(0, 9)
    one = cursor_of(house)
    one.settle("s", 10, house.now)
    house.settle()
    assert house.log.messages == 10
    other = cursor_of(house, "other")
    assert other.position("s").initial == 0
    house.consume("c")
    house.deliver()
    assert house.offsets("c") == list(range(10))
    other.delete(house.now)
    one.delete(house.now)
    assert house.log.messages == 10


def test_cursor_attaches_beside_consumers_of_a_stream() -> None:
    house = StreamHouse()
    house.append(0, 4)
    house.consume("c", prefetch=2)
    house.deliver()
    assert cursor_of(house).position("s").initial == 0
    house.consume("d")
    house.deliver()
    assert house.offsets("d") == list(range(5))


def test_lag_of_a_cursor_of_a_stream_is_counted_by_sequences() -> None:
    house = StreamHouse(x_max_age="80s")
    house.append(0, 9)
    cursor = cursor_of(house)
    cursor.settle("s", 4, house.now)
    lag = lag_of(cursor.position("s"), WorkMeter())
    assert lag is not None
    assert (lag.messages, lag.bytes) == (6, house.log.bytes * 6 // 10)
    house.step(100)
    house.append(10, 12)
    lag = lag_of(cursor.position("s"), WorkMeter())
    assert lag is not None
    assert lag.messages == 3


def test_cursor_that_retention_has_overtaken_is_told_and_moved_to_earliest() -> None:
    house = StreamHouse(x_max_age="80s")
    house.append(0, 9)
    cursor = cursor_of(house)
    cursor.settle("s", 4, house.now)
    house.step(100)
    house.append(10, 12)
    assert earliest_offset(house.stream) == 10
    sentence = "queue 's' is a stream, and its messages 5 to 10 were dropped before cursor 'c' had read them"
    for call in (lambda: cursor.begin_plan("s", 4), lambda: cursor.read("s", 4, 12, 10, 1000)):
        with pytest.raises(PreconditionFailed, match=sentence):
            call()
    with pytest.raises(PreconditionFailed, match="cannot be moved to 4"):
        check_move(cursor, "s", 4)
    assert check_move(cursor, "s", "earliest").target == 10
    assert cursor.begin_plan("s", 10) is cursor.position("s")
