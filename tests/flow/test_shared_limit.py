"""A limit on the sum of many members: slack, exactness near the thresholds, and guaranteed shares.

A gate judged by a counted depth.
"""

from __future__ import annotations

from mypy_extensions import i64

from penstock.flow.gate import NO_GUARANTEE
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.flow.shared_limit import SHARE_BYTES_MAX, CountedDepth, LimitMember, SharedLimit
from penstock.flow.timers import Timers
from penstock.flow.turns import Turns
from tests.support.setting_values import in_bytes

MIB = 1024 * 1024


class Member(LimitMember):
    """A member that counts some slack besides its depth."""

    def __init__(self, limit: SharedLimit, slack: int) -> None:
        self.limit = limit
        self.slack = slack

    def grow(self, size: i64) -> None:
        self.limit.count(self, 1, size + self.slack, self.slack > 0, 1.0)

    def reclaim_slack(self) -> None:
        slack, self.slack = self.slack, 0
        self.limit.count(self, 0, -slack, False, 1.0)


def limit(capacity: int = 10 * MIB) -> SharedLimit:
    thresholds = in_bytes(capacity, capacity * 8 // 10, capacity // 2)
    return SharedLimit("vhost", "/", thresholds, Turns(Timers()))


def test_shared_limit_grants_slack_far_from_the_thresholds_and_none_near() -> None:
    found = limit()
    assert found.slack().bytes > 0
    Member(found, 0).grow(4 * MIB)
    assert found.exact
    assert found.slack() == Level(0, 0)


def test_shared_limit_recalls_slack_before_reporting_that_there_is_no_room() -> None:
    found = limit()
    member = Member(found, 3 * MIB)
    member.grow(1)
    assert found.bytes == 3 * MIB + 1
    assert found.has_room(1, 9 * MIB, 1.0)
    assert (found.bytes, member.slack) == (1, 0)
    assert not found.has_room(1, 10 * MIB, 1.0)


def test_shared_limit_closes_the_gate_by_the_exact_sum() -> None:
    found = limit()
    member = Member(found, 3 * MIB)
    member.grow(6 * MIB)
    assert found.gate.open, "six of ten are stored; the rest was slack"
    member.grow(3 * MIB)
    assert not found.gate.open
    assert found.highest_bytes == 9 * MIB
    found.count(member, -1, -4 * MIB, False, 1.0)
    assert found.gate.open


def test_shared_limit_without_a_reserve_guarantees_no_share() -> None:
    found = limit()
    Member(found, 0).grow(9 * MIB)
    assert found.gate.guaranteed_bytes == NO_GUARANTEE


def test_shared_limit_divides_the_reserve_among_the_members_up_to_a_bound() -> None:
    found = limit()
    found.reserve = 2 * MIB
    member = Member(found, 0)
    for _ in range(4):
        found.join()
    member.grow(9 * MIB)
    assert found.gate.guaranteed_bytes == MIB // 2
    found.reserve = 100 * MIB
    found.update_gate(1.0)
    assert found.gate.guaranteed_bytes == SHARE_BYTES_MAX
    found.part(member)
    assert found.members == 3


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


def test_counted_depth_admits_all_that_the_capacity_covers() -> None:
    found = depth()
    assert found.could_ever_take(10, 1_000_000)
    assert not found.could_ever_take(11, 1)


def test_counted_depth_reports_why_the_gate_is_closed_with_kind_and_name() -> None:
    found = depth()
    judged(found, 9)
    assert found.describe_cause(1.0) == "9 messages > stop 8 (opens at 5)"
    assert found.describe_refusal().startswith("address 'news' ")
