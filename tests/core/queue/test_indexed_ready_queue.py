"""Ready messages with an index: readable and removable at any position."""

from __future__ import annotations

import gc
import heapq
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.message import Envelope, Message, TrackedMessage
from penstock.core.queue.deferred_free import DeferredFree
from penstock.core.queue.indexed_ready_queue import (
    CHUNK,
    MISSED_MAX,
    SEEN_MAX,
    IndexedReadyQueue,
    Place,
    indexed,
    lines_of,
)
from penstock.core.queue.ready_queue import Priorities, ReadyQueue
from tests.profiles import examples

ENVELOPE = Envelope("", "q")
BRIEF = Envelope("", "q", 0, 5.0)


def message(sequence: int, priority: int = 0) -> Message:
    return Message(ENVELOPE if priority == 0 else Envelope("", "q", priority), b"x", 10, sequence, 0.0)


def filled(count: int) -> IndexedReadyQueue:
    plain = ReadyQueue()
    for sequence in range(1, count + 1):
        plain.append(message(sequence))
    line = indexed(plain)
    assert isinstance(line, IndexedReadyQueue)
    return line


def lists() -> int:
    gc.collect()
    return sum(type(each) is list for each in gc.get_objects())


def test_line_that_gets_an_index_and_is_dropped_leaves_no_reference() -> None:
    """Compiled, two lists stayed for each."""
    before = lists()
    for _ in range(100):
        filled(1)
    assert lists() < before + 100


def walked(line: IndexedReadyQueue, after: int = 0) -> list[int]:
    """Return the sequences from a position on."""
    found = []
    while not line.reach(after):
        pass
    while (each := line.step()) is not None:
        found.append(int(each.sequence))
    return found


def take(line: IndexedReadyQueue, sequence: int) -> Message:
    while not line.reach(sequence - 1):
        pass
    found = line.step()
    assert found.sequence == sequence
    line.take_stepped()
    return found


def test_index_is_filled_as_far_as_cursors_read() -> None:
    line = filled(1000)
    assert line.indexed == 0
    assert line.reach(0)
    assert line.step() is not None
    assert line.indexed == CHUNK
    assert line.available() == 1000
    assert walked(line, 995) == [996, 997, 998, 999, 1000]
    assert line.indexed == 1000
    assert not line.contiguous(), "what is in the index comes first"


def test_routes_append_to_the_same_deque() -> None:
    plain = ReadyQueue()
    deque_of_routes = plain.ready_for(0)
    line = indexed(plain)
    assert isinstance(line, IndexedReadyQueue)
    deque_of_routes.append(message(1))
    assert walked(line) == [1]
    assert line.ready_for(0) is deque_of_routes
    assert indexed(line) is line


def test_message_taken_from_the_middle_returns_to_the_old_position() -> None:
    line = filled(600)
    assert len(walked(line)) == 600
    taken = [take(line, sequence) for sequence in range(200, 500)]
    assert walked(line, 198) == [199, *range(500, 601)]
    for each in reversed(taken):
        line.put_back(each)
    assert walked(line) == list(range(1, 601))
    assert [int(line.pull().sequence) for _ in range(600)] == list(range(1, 601))
    assert line.available() == 0


def test_chunks_are_split() -> None:
    line = filled(CHUNK * 2)
    assert len(walked(line)) == CHUNK * 2
    taken = [take(line, sequence) for sequence in range(2, CHUNK * 2)]
    for each in taken:
        line.put_back(each)
    assert all(0 < len(chunk.messages) < 2 * CHUNK for chunk in line.chunks)
    assert all(chunk.bytes == sum(each.charge for each in chunk.messages) for chunk in line.chunks)
    assert walked(line) == list(range(1, CHUNK * 2 + 1))


def test_expired_message_leaves_the_index_without_a_tombstone() -> None:
    line = filled(2)
    dying = TrackedMessage(BRIEF, b"x", 10, 3, 0.0, None)
    line.append(dying)
    line.append(message(4))
    assert walked(line) == [1, 2, 3, 4]
    assert line.due(float("inf")) == 5.0
    assert line.take_due(4.0, float("inf"), 4.0) is None
    assert line.take_due(6.0, float("inf"), 6.0) is dying
    assert line.take_due(6.0, float("inf"), 6.0) is None
    assert (walked(line), line.available(), line.tombstones) == ([1, 2, 4], 3, 0)


def test_tombstones_before_the_index_are_skipped() -> None:
    line = filled(1)
    line.append(TrackedMessage(BRIEF, b"x", 10, 2, 0.0, None))
    line.append(message(3))
    gone = line.take_due(6.0, float("inf"), 6.0)
    assert gone.sequence == 2
    assert line.available() == 2
    assert walked(line) == [1, 3]
    assert (line.available(), line.tombstones) == (2, 0)


def test_delivered_message_leaves_the_expiry_behind() -> None:
    line = filled(0)
    dying = TrackedMessage(BRIEF, b"x", 10, 1, 0.0, None)
    line.append(dying)
    assert walked(line) == [1]
    assert line.pull() is dying
    assert line.take_due(9.0, float("inf"), 9.0) is None
    line.put_back(dying)
    assert line.take_due(9.0, float("inf"), 9.0) is dying


def test_purge_hands_everything_over() -> None:
    line = filled(CHUNK + 10)
    assert line.reach(0)
    line.step()
    leftovers = DeferredFree()
    line.hand_over(leftovers, False)
    assert line.available() == 0
    assert walked(line) == []
    assert sum(len(each) for each in leftovers.batches) + sum(len(each) for each in leftovers.lines) == CHUNK + 10
    line = filled(10)
    assert len(walked(line)) == 10
    line.clear()
    assert (line.available(), line.next()) == (0, None)


def test_lines_of_priorities_have_an_index_each() -> None:
    plain = Priorities(9)
    for sequence, priority in enumerate((0, 5, 5, 0), 1):
        plain.append(message(sequence, priority))
    assert lines_of(plain) == []
    assert indexed(plain) is plain
    assert [walked(line) for line in lines_of(plain)] == [[2, 3], [1, 4]]
    plain.append(message(5, 9))
    assert [walked(line) for line in lines_of(plain)] == [[5], [2, 3], [1, 4]]
    assert [int(plain.pull().sequence) for _ in range(5)] == [5, 2, 3, 1, 4]


def test_position_misses_messages_that_were_away_at_the_pass() -> None:
    line = filled(5)
    place, other = Place(), Place()
    line.add_place(place)
    line.add_place(other)
    away = take(line, 3)
    place.position = 5
    line.put_back(away)
    assert (place.missed, other.missed) == ([3], [])
    assert not place.has_seen(3)
    line.put_back(take(line, 3))
    assert place.missed == [3], "it has not seen it meanwhile"
    place.missed.clear()
    line.put_back(take(line, 3))
    assert place.missed == [], "it had seen it when it was taken"
    line.remove_place(place)
    assert line.places == [other]


def test_bit_of_a_removed_place_is_reused_without_the_past() -> None:
    line = filled(3)
    first = Place()
    line.add_place(first)
    assert len(walked(line)) == 3
    first.position = 3
    away = take(line, 2)
    line.remove_place(first)
    second = Place()
    line.add_place(second)
    second.position = 3
    line.put_back(away)
    assert second.missed == [2]


def test_indexed_ready_queue_and_the_positions_remember_a_bounded_number() -> None:
    line = filled(3000)
    place = Place()
    line.add_place(place)
    assert len(walked(line)) == 3000
    place.position = 3000
    taken = [take(line, sequence) for sequence in range(1, 3001)]
    assert len(line.seen) == SEEN_MAX
    for each in taken:
        line.put_back(each)
    assert len(place.missed) <= MISSED_MAX
    seen = [sequence for sequence in range(1, 3001) if place.has_seen(sequence)]
    assert set(seen) <= set(range(3000 - SEEN_MAX + 1, 3001))


@pytest.mark.parametrize("after", [0, 1, 5, 255, 256, 257, 999, 1000])
def test_count_after_a_place(after: int) -> None:
    line = filled(1000)
    place = Place()
    place.position = after
    assert line.count_after(place) == 1000, "an upper bound, as long as nobody has looked"
    assert walked(line)
    assert line.count_after(place) == 1000 - after
    assert line.has_after(place) == (after < 1000)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 300)),
        st.tuples(st.just("brief"), st.integers(1, 3)),
        st.tuples(st.just("walk"), st.integers(0, 900)),
        st.tuples(st.just("take"), st.integers(0, 900)),
        st.tuples(st.just("pull"), st.integers(1, 300)),
        st.tuples(st.just("put back"), st.integers(0, 1000)),
        st.tuples(st.just("expire"), st.just(0)),
        st.tuples(st.just("clear"), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=examples(500))
@given(STEPS)
def test_index_agrees_with_a_sorted_list(steps: list[tuple[str, int]]) -> None:
    line = IndexedReadyQueue(ReadyQueue())
    model: list[int] = []
    away: deque[Message] = deque()
    brief: list[int] = []
    tail = 0
    for kind, number in steps:
        if kind in ("append", "brief"):
            for _ in range(number):
                tail += 1
                line.append(message(tail) if kind == "append" else TrackedMessage(BRIEF, b"x", 10, tail, 0.0, None))
                model.append(tail)
                if kind == "brief":
                    brief.append(tail)
        elif kind == "walk":
            assert walked(line, number) == [each for each in model if each > number]
        elif kind == "take":
            while not line.reach(number):
                pass
            found = line.step()
            wanted = [each for each in model if each > number]
            assert (None if found is None else found.sequence) == (wanted[0] if wanted else None)
            if found is not None:
                line.take_stepped()
                model.remove(int(found.sequence))
                away.append(found)
        elif kind == "pull":
            for _ in range(min(number, len(model))):
                away.append(line.pull())
                assert away[-1].sequence == heapq.heappop(model)
            heapq.heapify(model)
            model.sort()
        elif kind == "put back":
            for _ in range(min(number, len(away))):
                back = away.pop() if number % 2 else away.popleft()
                line.put_back(back)
                model.append(int(back.sequence))
            model.sort()
        elif kind == "expire":
            due = sorted(set(brief) & set(model))
            found = line.take_due(9.0, float("inf"), 9.0)
            assert (None if found is None else found.sequence) == (due[0] if due else None)
            if found is not None:
                model.remove(int(found.sequence))
        else:
            line.clear()
            model.clear()
        assert line.available() == len(model)
        first = line.next()
        assert (None if first is None else first.sequence) == (model[0] if model else None)
        assert sorted(int(each.sequence) for each in line.messages()) == model


def test_messages_up_to_a_sequence_are_counted_after_any_returns() -> None:
    line = filled(3 * CHUNK)
    assert line.count_through(CHUNK) == (0, 0), "what is not in the index comes later"
    assert line.reach(CHUNK) or line.reach(CHUNK)
    assert line.count_through(CHUNK) == (CHUNK, 10 * CHUNK)
    walked(line)
    taken = take(line, CHUNK + 7)
    assert line.count_through(2 * CHUNK) == (2 * CHUNK - 1, 20 * CHUNK - 10)
    line.pull()
    assert line.count_through(2 * CHUNK) == (2 * CHUNK - 2, 20 * CHUNK - 20)
    line.put_back(taken)
    assert line.count_through(2 * CHUNK) == (2 * CHUNK - 1, 20 * CHUNK - 10)
    assert len(line.take_through(CHUNK + 1, 10_000)) == CHUNK
    assert line.count_through(2 * CHUNK) == (CHUNK - 1, 10 * CHUNK - 10)
    assert line.count_through(10_000) == (2 * CHUNK - 1, 20 * CHUNK - 10)


changes = st.lists(
    st.tuples(st.sampled_from(("append", "pull", "take", "return", "settle", "reach")), st.integers(0, 4 * CHUNK)),
    max_size=60,
)


@settings(max_examples=examples(200))
@given(changes)
def test_counts_equal_the_messages_in_the_index_after_any_changes(steps: list[tuple[str, int]]) -> None:
    line = filled(0)
    out: list[Message] = []
    last = 0
    for change, number in steps:
        if change == "append":
            for _ in range(number):
                last += 1
                line.append(Message(ENVELOPE, b"x", last % 7 + 1, last, 0.0))
        elif change == "pull" and line.available():
            out.append(line.pull())
        elif change == "take" and line.available():
            while not line.reach(number):
                pass
            if (found := line.step()) is not None:
                line.take_stepped()
                out.append(found)
        elif change == "return" and out:
            line.put_back(out.pop(number % len(out)))
        elif change == "settle":
            line.take_through(number, 300)
        elif change == "reach":
            line.reach(number)
        there = [each for chunk in line.chunks for each in chunk.messages if each.sequence <= number]
        assert line.count_through(number) == (len(there), sum(each.charge for each in there))


def test_counting_needs_no_way_through_the_chunks() -> None:
    line = filled(200 * CHUNK)
    walked(line)
    assert line.summed == len(line.chunks), "each chunk has its sums since it was made"
    line.take_through(50 * CHUNK + 3, 100_000)
    line.pull()
    assert line.summed == len(line.chunks)
    assert line.count_through(100 * CHUNK) == (50 * CHUNK - 4, 10 * (50 * CHUNK - 4))
    take(line, 100 * CHUNK + 1)
    assert line.summed < len(line.chunks), "a change in the middle is found by the next who counts"
    assert line.count_through(200 * CHUNK) == (150 * CHUNK - 5, 10 * (150 * CHUNK - 5))


def test_take_between_positions_leaves_messages_before_and_behind() -> None:
    line = filled(10 * CHUNK)
    lo, hi = CHUNK + 3, 7 * CHUNK + 9
    taken = [int(each.sequence) for each in line.take_between(lo, hi, 1 << 40)]
    assert taken == list(range(lo + 1, hi + 1))
    assert walked(line) == [*range(1, lo + 1), *range(hi + 1, 10 * CHUNK + 1)]
    assert line.count_through(lo) == line.count_through(hi) == (lo, 10 * lo)
    assert line.take_between(lo, hi, 1 << 40) == [], "nothing is left there"
    assert [int(each.sequence) for each in line.take_between(hi, 1 << 40, 2)] == [hi + 1, hi + 2]


def test_taking_between_positions_finds_messages_that_came_into_the_last_chunk() -> None:
    line = filled(4)
    assert len(line.take_between(2, 4, 1 << 40)) == 2
    for sequence in range(5, 8):
        line.append(message(sequence))
    assert [int(each.sequence) for each in line.take_between(2, 6, 1 << 40)] == [5, 6]
    assert walked(line) == [1, 2, 7]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.integers(1, 3 * CHUNK),
    st.lists(
        st.tuples(st.integers(0, 800), st.integers(0, 800), st.integers(0, 600), st.integers(0, 300)), max_size=12
    ),
)
def test_taking_between_positions_is_that_of_a_plain_list(count: int, steps: list[tuple[int, int, int, int]]) -> None:
    line, model = filled(count), list(range(1, count + 1))
    for lo, hi, most, more in steps:
        expected = [sequence for sequence in model if lo < sequence <= hi][:most]
        assert [int(each.sequence) for each in line.take_between(lo, hi, most)] == expected
        model = [sequence for sequence in model if sequence not in set(expected)]
        for _ in range(more):
            count += 1
            line.append(message(count))
            model.append(count)
        assert line.available() == len(model)
        if model:
            while not line.reach(model[len(model) // 2]):
                pass
            middle = model[len(model) // 2]
            assert line.count_through(middle)[0] == len([each for each in model if each <= middle])
    assert walked(line) == model
