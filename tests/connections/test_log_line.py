"""Rate-limited log lines: one line a second of each kind, the others counted."""

import pytest

from penstock.connections.log_line import HTTP, LOGIN, LimitedLines, LogLine
from penstock.logs.ids import CATALOGUE, GATE_LINES, LINES, OPENED, LogId


def line(text: str, log_id: str = LOGIN) -> LogLine:
    return LogLine(text, {"id": log_id})


def test_first_line_is_logged_at_once_and_later_lines_are_counted() -> None:
    refusals = LimitedLines()
    assert refusals.admit(line("first"), 10.0)
    assert not any(refusals.admit(line(f"number {number}"), 10.0) for number in range(1800))
    assert refusals.take(10.9) == []
    assert [each.text for each in refusals.take(11.0)] == ["number 1799 (and 1,799 more since the last such line)"]


def test_repeated_line_is_logged_once_a_second() -> None:
    refusals = LimitedLines()
    lines = 0
    for tenth in range(100):
        now = tenth / 10
        lines += refusals.admit(line("again"), now)
        lines += len(refusals.take(now))
    assert lines == 10


def test_line_after_a_second_of_silence_is_logged_at_once() -> None:
    refusals = LimitedLines()
    assert refusals.admit(line("one"), 0.0)
    assert refusals.take(1.0) == []
    assert refusals.admit(line("two"), 1.0)


def test_kinds_are_counted_apart() -> None:
    refusals = LimitedLines()
    assert refusals.admit(line("one"), 0.0)
    assert refusals.admit(line("two", HTTP), 0.0)


def test_lines_of_a_kind_with_a_higher_limit_are_logged_up_to_that_limit() -> None:
    lines = LimitedLines()
    assert sum(lines.admit(line(str(number), OPENED), 0.0) for number in range(LINES + 2)) == LINES
    (told,) = lines.take(1.0)
    assert (told.text, told.fields["more"]) == (f"{LINES + 1} (and 1 more since the last such line)", 1)
    assert sum(lines.admit(line(str(number), OPENED), 1.0) for number in range(LINES)) == LINES - 1, "it was one"


@pytest.mark.parametrize("log_id", CATALOGUE, ids=lambda log_id: log_id.name)
def test_log_id_has_a_limit_of_lines_or_a_reason(log_id: LogId) -> None:
    limited, flood = LimitedLines(), 1_000
    admitted = sum(limited.admit(line("again", log_id.name), 0.0) for _ in range(flood))
    if log_id.unlimited:
        assert admitted == flood
        assert len(log_id.unlimited.split()) >= 3
    else:
        assert admitted == log_id.lines <= GATE_LINES
        (last,) = limited.take(1.0)
        assert last.fields["more"] == flood - admitted - 1


def test_line_with_an_unknown_id_is_limited() -> None:
    limited = LimitedLines()
    assert sum(limited.admit(line("again", "PST-9999"), 0.0) for _ in range(100)) == LINES
