"""Refusals of strangers in the log: one line a second of each kind, the others counted."""

from penstock.protocols.common.log_line import HTTP, LOGIN, LimitedLines, LogLine


def line(text: str) -> LogLine:
    return LogLine(text, {"id": LOGIN})


def test_the_first_refusal_is_told_at_once_and_the_others_are_counted() -> None:
    refusals = LimitedLines()
    assert refusals.admit(LOGIN, line("first"), 10.0)
    assert not any(refusals.admit(LOGIN, line(f"number {number}"), 10.0) for number in range(1800))
    assert refusals.take(10.9) == []
    assert [each.text for each in refusals.take(11.0)] == ["number 1799 (and 1,799 more since the last such line)"]


def test_a_flood_has_one_line_a_second_for_as_long_as_it_lasts() -> None:
    refusals = LimitedLines()
    lines = 0
    for tenth in range(100):
        now = tenth / 10
        lines += refusals.admit(LOGIN, line("again"), now)
        lines += len(refusals.take(now))
    assert lines == 10


def test_a_second_without_any_lets_the_next_one_be_told_at_once() -> None:
    refusals = LimitedLines()
    assert refusals.admit(LOGIN, line("one"), 0.0)
    assert refusals.take(1.0) == []
    assert refusals.admit(LOGIN, line("two"), 1.0)


def test_kinds_are_counted_apart() -> None:
    refusals = LimitedLines()
    assert refusals.admit(LOGIN, line("one"), 0.0)
    assert refusals.admit(HTTP, line("two"), 0.0)


def test_some_lines_a_second_are_told_of_a_kind_that_may_have_more() -> None:
    lines = LimitedLines()
    assert [lines.admit(HTTP, line(str(number)), 0.0, 3) for number in range(5)] == [True, True, True, False, False]
    (told,) = lines.take(1.0)
    assert (told.text, told.fields["more"]) == ("4 (and 1 more since the last such line)", 1)
    assert [lines.admit(HTTP, line(str(number)), 1.0, 3) for number in range(3)] == [True, True, False], "it was one"
