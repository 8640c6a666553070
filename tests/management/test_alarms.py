"""Alarms: raised once, refreshed while their condition holds, cleared once it has been gone for a while; bounded."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from penstock.connections.log_line import LogLine
from penstock.errors import PreconditionFailed
from penstock.management.alarms import (
    ALARMS_MOST,
    CLEARED,
    DISK_LOW,
    GATE,
    KINDS,
    MEMORY,
    RAISED,
    RECENT_S,
    REFUSING_MOST,
    AlarmChange,
    AlarmListener,
    Alarms,
)
from tests.support.broker_fixture import House

CLEAR_S = 30.0


class Listener(AlarmListener):
    """Listener that stores the changes."""

    def __init__(self) -> None:
        self.changes: list[AlarmChange] = []

    @override
    def changed(self, change: AlarmChange) -> None:
        self.changes.append(change)


class Board:
    """Alarms of a broker, whose conditions a test states round by round."""

    def __init__(self) -> None:
        self.house = House()
        self.lines: list[LogLine] = []
        self.alarms = Alarms(self.house.broker, self.lines.append)
        self.listener = Listener()
        self.alarms.listener = self.listener

    def round(self, now: float, *subjects: str, text: str = "it is closed") -> list[Any]:
        """Do a round at a time that finds closed gates of these names; return the raised subjects."""
        self.house.broker.begin(now)
        self.alarms.begin_round()
        for subject in subjects:
            self.alarms.find(GATE, "/", subject, text)
        self.alarms.end_round(CLEAR_S)
        return [row["subject"] for row in self.alarms.rows()]

    def changes(self) -> list[tuple[str, str]]:
        return [(each.change, str(each.alarm["subject"])) for each in self.listener.changes]


def test_condition_raises_its_alarm_once_and_is_logged_once() -> None:
    board = Board()
    for second in range(5):
        assert board.round(100.0 + second, "queue a") == ["queue a"]
    assert board.changes() == [(RAISED, "queue a")]
    assert [line.fields["id"] for line in board.lines] == ["PST-2060"]
    assert board.lines[0].text == f"alarm gate raised: it is closed; {GATE.action}"


def test_alarm_is_cleared_once_its_condition_has_been_gone_for_a_while() -> None:
    board = Board()
    board.round(100.0, "queue a")
    assert board.round(100.0 + CLEAR_S - 1) == ["queue a"]
    assert board.round(100.0 + CLEAR_S) == []
    assert board.round(200.0) == []
    assert board.changes() == [(RAISED, "queue a"), (CLEARED, "queue a")]
    assert board.lines[1].fields["id"] == "PST-2061"
    assert board.lines[1].text == "alarm gate cleared: queue a of vhost /, after 30 s"


def test_condition_that_comes_and_goes_is_one_alarm() -> None:
    board = Board()
    for second in range(0, 600, 20):
        board.round(100.0 + second, "queue a")
        board.round(110.0 + second)
    assert board.changes() == [(RAISED, "queue a")]


def test_alarm_found_in_a_round_longer_than_the_clearing_time_stays() -> None:
    board = Board()
    board.round(100.0, "queue a")
    board.house.broker.begin(200.0)
    board.alarms.begin_round()
    board.alarms.find(GATE, "/", "queue a", "x")
    board.house.broker.begin(300.0)
    board.alarms.end_round(CLEAR_S)
    assert len(board.alarms.rows()) == 1


def test_row_has_the_newest_text_and_the_time_of_raising() -> None:
    board = Board()
    board.round(100.0, "queue a", text="first")
    board.round(104.5, "queue a", text="second")
    (row,) = board.alarms.rows()
    offset = board.house.broker.wall_offset
    assert row == {
        "id": 1, "kind": "gate", "severity": "warning", "vhost": "/", "subject": "queue a", "for_s": 4.5,
        "since": round((100.0 + offset) * 1000), "text": "second", "action": GATE.action,
        "tone": "warn", "noun": "broker", "name": None, "hurts_in_s": None, "left": None, "unit": None,
    }  # fmt: skip


def test_rows_begin_with_critical_alarms() -> None:
    board = Board()
    board.alarms.find(DISK_LOW, "", "disk room", "low")
    board.alarms.find(MEMORY, "", "memory", "full")
    assert [row["kind"] for row in board.alarms.rows()] == ["memory", "disk-low"]
    assert board.alarms.counts() == {kind.name: int(kind in (DISK_LOW, MEMORY)) for kind in KINDS}


def test_conditions_beyond_the_bound_are_counted_and_raised_later() -> None:
    board = Board()
    names = [f"queue {number}" for number in range(ALARMS_MOST + 5)]
    assert len(board.round(100.0, *names)) == ALARMS_MOST
    assert board.alarms.omitted == 5
    board.round(200.0, names[-1])
    assert board.alarms.omitted == 1
    assert board.round(201.0, names[-1]) == [names[-1]]
    assert board.alarms.omitted == 0


def test_refusals_are_counted_by_gate_within_a_bound() -> None:
    board = Board()
    names = [f"q{number}" for number in range(REFUSING_MOST + 3)]
    board.house.queue(*names)
    for name in names:
        board.alarms.refused(board.house.vhost.queue(name).gate, 2)
    board.alarms.refused(board.house.vhost.queue("q0").gate, 3)
    assert len(board.alarms.refusing) == REFUSING_MOST
    assert board.alarms.refusing["/", "queue q0"].count == 5


def test_longest_delay_of_the_loop_counts_for_a_while() -> None:
    board = Board()
    for seconds in (0.5, 2.0, 1.0):
        board.alarms.late(seconds)
    assert board.alarms.late_s() == 2.0
    board.house.broker.begin(board.house.broker.now + RECENT_S + 1)
    assert board.alarms.late_s() == 0.0
    board.alarms.late(0.25)
    assert board.alarms.late_s() == 0.25


def test_broker_without_a_hook_refuses_a_test_and_names_the_setting() -> None:
    with pytest.raises(PreconditionFailed, match=r"set url in \[alarm-hook\]"):
        AlarmListener().test(lambda row: None)
    assert AlarmListener().view() is None
    assert AlarmListener().fates() == {"sent": 0, "merged": 0, "dropped": 0}


def test_names_of_kinds_are_distinct_words() -> None:
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names)
    assert all(name.replace("-", "").isalpha() for name in names)
