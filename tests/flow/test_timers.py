"""One timer for many parties: each is called when it is due, and no later."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.flow.timers import NEVER, TimerHandler, Timers
from penstock.flow.work import UNITS_A_TURN, WorkMeter
from tests.profiles import examples


class Clocked(TimerHandler):
    """Notes when it is looked at, and asks for the next time from a list."""

    def __init__(self, *following: float) -> None:
        super().__init__()
        self.looks: list[float] = []
        self.following = list(following)

    def on_deadline(self, now: float) -> float:
        self.looks.append(now)
        return self.following.pop(0) if self.following else NEVER


def test_earlier_time_replaces_a_later_time_and_a_later_time_is_ignored() -> None:
    deadlines, party = Timers(), Clocked()
    deadlines.add(party, 10.0)
    deadlines.add(party, 5.0)
    deadlines.add(party, 7.0)
    assert deadlines.next() == 5.0
    deadlines.run(20.0)
    assert party.looks == [20.0]
    assert deadlines.next() is None


class Busy(TimerHandler):
    """Counts the work of half a turn at its deadline."""

    def __init__(self, meter: WorkMeter) -> None:
        super().__init__()
        self.meter = meter

    def on_deadline(self, now: float) -> float:
        self.meter.count(UNITS_A_TURN // 2)
        return NEVER


def test_turn_ends_with_the_work_for_any_number_of_due_timers() -> None:
    meter = WorkMeter()
    deadlines = Timers(meter)
    parties = [Busy(meter) for _ in range(5)]
    for party in parties:
        deadlines.add(party, 1.0)
    assert [deadlines.run(1.0) for _ in range(4)] == [2, 2, 1, 0]
    assert not deadlines.is_due(1.0)


def test_party_that_went_away_is_not_looked_at() -> None:
    deadlines, party = Timers(), Clocked()
    deadlines.add(party, 5.0)
    deadlines.drop(party)
    assert deadlines.next() is None
    deadlines.run(10.0)
    assert party.looks == []


def test_party_that_asks_for_a_time_that_has_passed_does_not_spin() -> None:
    deadlines, party = Timers(), Clocked(1.0, 1.0, 1.0)
    deadlines.add(party, 5.0)
    deadlines.run(5.0)
    assert party.looks == [5.0]
    following = deadlines.next()
    assert following is not None
    assert 5.0 < following < 5.1


def test_deadline_moved_often_does_not_fill_the_heap() -> None:
    deadlines = Timers()
    parties = [Clocked() for _ in range(10)]
    for step in range(10_000):
        for party in parties:
            deadlines.drop(party)
            deadlines.add(party, 1e6 + step)
    assert len(deadlines) < 1000


@settings(max_examples=examples(300), derandomize=True, database=None)
@given(st.lists(st.tuples(st.sampled_from(["add", "drop", "run"]), st.integers(0, 4), st.integers(1, 20)), max_size=60))
def test_timer_calls_the_handler_when_the_earliest_time_has_come(steps: list[tuple[str, int, int]]) -> None:
    deadlines, now = Timers(), 0.0
    parties = [Clocked() for _ in range(5)]
    due: dict[int, float] = {}
    for what, index, seconds in steps:
        if what == "add":
            deadlines.add(parties[index], now + seconds)
            due[index] = min(due.get(index, NEVER), now + seconds)
        elif what == "drop":
            deadlines.drop(parties[index])
            due.pop(index, None)
        else:
            now += seconds
            expected = {each for each, when in due.items() if when <= now}
            before = [len(party.looks) for party in parties]
            deadlines.run(now)
            looked = {each for each, party in enumerate(parties) if len(party.looks) > before[each]}
            assert looked == expected
            due = {each: when for each, when in due.items() if each not in expected}
        assert deadlines.next() == min(due.values(), default=None)
