"""A gate judged by a counted depth."""

from __future__ import annotations

from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.flow.shared_limit import CountedDepth
from penstock.flow.timers import Timers
from penstock.flow.turns import Turns


def depth() -> CountedDepth:
    thresholds = Thresholds(Level(10, UNLIMITED), Level(8, UNLIMITED), Level(5, UNLIMITED))
    return CountedDepth("address", "news", thresholds, Turns(Timers()))


def judged(found: CountedDepth, messages: int) -> bool:
    """Set the depth; return whether the gate is open then."""
    found.messages = messages
    found.judge(1.0)
    return found.gate.open


def test_counted_depth_closes_above_stop_and_opens_at_resume() -> None:
    found = depth()
    assert [judged(found, messages) for messages in (8, 9, 8, 6, 5, 6)] == [True, False, False, False, True, True]


def test_counted_depth_takes_what_its_capacity_covers() -> None:
    found = depth()
    assert found.could_ever_take(10, 1_000_000)
    assert not found.could_ever_take(11, 1)


def test_counted_depth_says_why_its_gate_is_closed_with_its_kind_and_name() -> None:
    found = depth()
    judged(found, 9)
    assert found.describe_cause(1.0) == "9 messages > stop 8 (opens at 5)"
    assert found.describe_refusal().startswith("address 'news' ")
