"""Refusals of strangers in the log: one line a second of each kind, the others counted."""

from penstock.protocols.common.refusal_log import HTTP, LOGIN, Refusals


def test_the_first_refusal_is_told_at_once_and_the_others_are_counted() -> None:
    refusals = Refusals()
    assert refusals.admit(LOGIN, "first", 10.0)
    assert not any(refusals.admit(LOGIN, f"number {number}", 10.0) for number in range(1800))
    assert refusals.take(10.9) == []
    assert refusals.take(11.0) == ["number 1799 (and 1,799 more since the last such line)"]


def test_a_flood_has_one_line_a_second_for_as_long_as_it_lasts() -> None:
    refusals = Refusals()
    lines = 0
    for tenth in range(100):
        now = tenth / 10
        lines += refusals.admit(LOGIN, "again", now)
        lines += len(refusals.take(now))
    assert lines == 10


def test_a_second_without_any_lets_the_next_one_be_told_at_once() -> None:
    refusals = Refusals()
    assert refusals.admit(LOGIN, "one", 0.0)
    assert refusals.take(1.0) == []
    assert refusals.admit(LOGIN, "two", 1.0)


def test_kinds_are_counted_apart() -> None:
    refusals = Refusals()
    assert refusals.admit(LOGIN, "one", 0.0)
    assert refusals.admit(HTTP, "two", 0.0)
