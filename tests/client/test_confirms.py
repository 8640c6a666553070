"""Counting confirms: single ones, multiple ones, in any order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.confirms import Confirms


def published(count: int) -> Confirms:
    confirms = Confirms()
    confirms.published(count)
    return confirms


def test_confirm_counts_for_one_message_and_a_multiple_one_for_all_before_it() -> None:
    confirms = published(10)
    confirms.settle(3, False, True)
    assert (confirms.outstanding, confirms.acked) == (9, 1)
    confirms.settle(5, True, True)
    assert (confirms.outstanding, confirms.acked) == (5, 5)


def test_withheld_confirm_is_overtaken_by_those_after_it() -> None:
    confirms = published(3)
    confirms.settle(3, False, True)
    confirms.settle(2, False, True)
    assert confirms.outstanding == 1
    confirms.settle(1, False, True)
    assert confirms.outstanding == 0


def test_refused_messages_are_told_once_by_number() -> None:
    confirms = published(6)
    confirms.settle(2, False, False)
    confirms.settle(1, False, True)
    confirms.settle(4, True, False)
    assert confirms.take_nacked() == [2, 3, 4]
    assert confirms.take_nacked() == []
    assert (confirms.acked, confirms.nacked_count, confirms.outstanding) == (1, 3, 2)


def test_zero_with_multiple_answers_everything() -> None:
    confirms = published(4)
    confirms.settle(0, True, True)
    assert (confirms.outstanding, confirms.acked) == (0, 4)


def test_answers_that_were_given_already_or_to_nothing_change_nothing() -> None:
    confirms = published(2)
    for number, multiple in ((1, False), (1, False), (1, True), (3, False), (0, False)):
        confirms.settle(number, multiple, True)
    assert (confirms.outstanding, confirms.acked) == (1, 1)
    confirms.settle(99, True, True)
    assert (confirms.outstanding, confirms.acked) == (0, 2)
    confirms.published(1)
    assert confirms.outstanding == 1


answers = st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.booleans(), st.integers(0, 5)), max_size=60)


@given(answers)
def test_any_sequence_of_answers_is_counted_as_a_plain_set_would(steps: list[tuple[int, bool, bool, int]]) -> None:
    confirms = Confirms()
    waiting: set[int] = set()
    acked = 0
    nacked: list[int] = []
    for number, multiple, positive, more in steps:
        waiting |= set(range(confirms.next, confirms.next + more))
        confirms.published(more)
        top = max(waiting, default=0) if multiple and number == 0 else number
        fresh = sorted(each for each in waiting if each == number or (multiple and each <= top))
        waiting -= set(fresh)
        confirms.settle(number, multiple, positive)
        if positive:
            acked += len(fresh)
        else:
            nacked += fresh
        assert (confirms.outstanding, confirms.acked) == (len(waiting), acked)
    assert confirms.take_nacked() == nacked
    assert confirms.nacked_count == len(nacked)
