"""The longest turns, and who cost most in them."""

from __future__ import annotations

from penstock.driver.entry_times import RECENT_S, LongTurn, TurnTimes
from penstock.flow.work import WorkMeter
from tests.support.driven_connection import Dialogue, make_driver


def ended(times: TurnTimes, meter: WorkMeter, seconds: float, now: float, work: int = 10) -> None:
    """End a turn that took so long."""
    meter.done += work
    times.end_turn(seconds, now)


def test_turn_times_have_the_longest_turn_since_the_start_and_of_the_last_minute_or_two() -> None:
    meter = WorkMeter()
    times = TurnTimes(meter)
    ended(times, meter, 0.5, 100.0, work=900)
    ended(times, meter, 0.1, 101.0)
    assert (times.longest.seconds, times.recent().seconds) == (0.5, 0.5)
    assert times.longest.work == 900
    ended(times, meter, 0.2, 100.0 + RECENT_S)
    assert times.recent().seconds == 0.5, "it was in the period before"
    ended(times, meter, 0.1, 100.0 + 2 * RECENT_S)
    assert (times.longest.seconds, times.recent().seconds) == (0.5, 0.2)


def test_turn_times_name_the_connection_whose_input_cost_most_in_that_turn() -> None:
    driver = make_driver()
    busy, idle = Dialogue(driver).connection, Dialogue(driver).connection
    meter = WorkMeter()
    times = TurnTimes(meter)
    times.count(busy, 700)
    times.count(idle, 5)
    ended(times, meter, 0.5, 100.0)
    assert (times.longest.connection, times.longest.connection_work) == (busy.name(), 700)
    ended(times, meter, 0.6, 101.0)
    assert times.longest.connection == "", "nobody had input in the later turn"


def test_turn_times_of_a_turn_are_plain_data() -> None:
    assert LongTurn(0.0125, 900, "con:1", 700).view() == {
        "ms": 12.5, "work": 900, "connection": "con:1", "connection_work": 700,
    }  # fmt: skip
