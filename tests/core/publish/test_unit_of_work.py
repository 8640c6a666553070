"""Units of work over several sessions and producers of one connection: all or nothing, in one turn."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.effects import Returned
from penstock.core.publish.commit_delta import QUEUE_SIZE, RETURN_SIZE, SIZE_MOST, TIMED_SIZE
from penstock.core.publish.unit_commit import UnitCommit
from penstock.core.publish.unit_of_work import COMMITS_HELD_MOST, Coordinator, UnitOfWork
from penstock.core.routing.route import TARGETS_MAX
from penstock.errors import ContentTooLarge, PreconditionFailed, ResourceError, TransactionRolledBack
from penstock.settings.read import read_settings
from tests.profiles import examples
from tests.support import at_once
from tests.support.broker_fixture import House, told


class Rig:
    """A connection with two sessions, two producers, and a coordinator in confirm mode."""

    def __init__(self) -> None:
        self.house = House()
        self.sessions = [Session(), Session()]
        self.control = self.house.producer("control")
        self.producers = [self.house.producer("first"), self.house.producer("second")]
        for producer in self.producers:
            producer.hold_budget = self.control.hold_budget
        self.coordinator = Coordinator(self.control)

    def publish(self, unit: UnitOfWork, who: int, key: str, charge: int, mandatory: bool = False) -> None:
        route = self.house.vhost.route("", key, mandatory)
        self.house.vhost.resolve(route, {})
        unit.add_publish(self.producers[who], route, b"x", charge)

    def get(self, who: int, queue: str) -> int:
        """Take a message in one of the sessions; returns its tag."""
        batch = self.sessions[who].get(self.house.vhost.queues[queue], False, self.house.broker.now)
        return int(batch.first)

    def unit_over_both(self) -> UnitOfWork:
        """A unit with a delivery of each session and a publish of each producer; a has 2 messages out, b none."""
        self.house.publish_now("a", 10)
        self.house.publish_now("a", 10)
        unit = self.coordinator.begin()
        for who in (0, 1):
            unit.settle(self.sessions[who], self.get(who, "a"), False, Outcome.ACCEPTED)
            self.publish(unit, who, "b", 10)
        return unit

    def depths(self) -> tuple[int, int]:
        return self.house.depth("a"), self.house.depth("b")

    def traces(self) -> tuple[int, int, int]:
        """Messages in the hold budget, entries in the outbox, and open units."""
        return int(self.control.hold_budget.messages), len(self.control.outbox), len(self.coordinator.units)


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.house.queue("a", capacity_messages=4)
    made.house.queue("b", capacity_messages=4, stop_messages=4, resume_messages=3)
    return made


def test_unit_of_two_sessions_and_two_producers_is_applied_as_a_whole(rig: Rig) -> None:
    unit = rig.unit_over_both()
    assert rig.depths() == (2, 0)
    assert (int(rig.control.hold_budget.messages), int(rig.control.hold_budget.bytes)) == (2, 20)
    assert unit.commit()
    assert rig.depths() == (0, 2)
    assert [session.unsettled.count() for session in rig.sessions] == [0, 0]
    assert told(rig.control) == [(1, 1, True)]
    assert rig.traces() == (0, 0, 0)


def test_unit_is_held_as_a_whole_and_passes_in_a_single_turn(rig: Rig) -> None:
    rig.house.publish_now("b", 1, count=3)
    unit = rig.unit_over_both()
    unit.commit()
    assert rig.depths() == (2, 3), "one of its messages would have room, both have not"
    assert rig.control.outbox
    assert rig.producers[0].fast_path
    assert rig.producers[1].fast_path
    assert told(rig.control) == []
    rig.house.take("b")
    assert rig.depths() == (0, 4)
    assert told(rig.control) == [(1, 1, True)]
    assert rig.traces() == (0, 0, 0)


def test_rollback_leaves_the_deliveries_of_both_sessions_to_be_settled_again(rig: Rig) -> None:
    unit = rig.unit_over_both()
    unit.rollback()
    assert told(rig.control) == [(1, 1, True)]
    assert rig.depths() == (2, 0)
    assert rig.traces() == (0, 0, 0)
    again = rig.coordinator.begin()
    for session in rig.sessions:
        again.settle(session, 0, True, Outcome.ACCEPTED)
    again.commit()
    assert rig.depths() == (0, 0)


def test_delivery_is_settled_by_a_single_open_unit_only_and_tags_count_by_session(rig: Rig) -> None:
    rig.house.publish_now("a", 1, count=2)
    tags = [rig.get(who, "a") for who in (0, 1)]
    assert tags == [1, 1]
    first, second = rig.coordinator.begin(), rig.coordinator.begin()
    first.settle(rig.sessions[0], 1, False, Outcome.ACCEPTED)
    second.settle(rig.sessions[1], 1, False, Outcome.FAILED)
    for unit in (first, second):
        with pytest.raises(PreconditionFailed, match="unknown delivery tag 1"):
            unit.settle(rig.sessions[0], 1, False, Outcome.ACCEPTED)
    second.settle_range(rig.sessions[0], 1, 5, Outcome.FAILED)
    assert len(second.settlements) == 1, "a range leaves out what another unit has settled"
    second.commit()
    first.commit()
    assert rig.house.depth("a") == 1
    assert rig.house.vhost.queues["a"].available() == 1


@pytest.mark.parametrize("end", ["commit", "rollback", "fail"])
def test_publishes_of_open_units_are_known_as_such(rig: Rig, end: str) -> None:
    unit, budget = rig.unit_over_both(), rig.control.hold_budget
    assert int(budget.uncommitted) == int(budget.bytes) > 0
    if end == "commit":
        unit.commit()
    elif end == "rollback":
        unit.rollback()
    else:
        unit.fail(TransactionRolledBack("too late"))
    assert (int(budget.uncommitted), int(budget.bytes)) == (0, 0)


def test_held_commit_is_not_of_an_open_unit(rig: Rig) -> None:
    rig.house.publish_now("b", 1, count=4)
    unit, budget = rig.unit_over_both(), rig.control.hold_budget
    unit.commit()
    assert int(budget.bytes) > 0
    assert int(budget.uncommitted) == 0


def test_units_of_work_may_all_be_rolled_back_for_a_reason(rig: Rig) -> None:
    rig.house.publish_now("b", 1, count=4)
    held, open_unit = rig.unit_over_both(), rig.coordinator.begin()
    held.commit()
    rig.publish(open_unit, 1, "a", 1)
    error = TransactionRolledBack("too late")
    rig.coordinator.roll_back_all(error)
    assert (held.error, open_unit.error) == (error, error)
    open_unit.commit()
    assert told(rig.control) == [(1, 1, False), (2, 2, False)]
    assert rig.depths() == (2, 4)
    assert rig.traces() == (0, 0, 0)


def test_end_of_the_coordinator_rolls_back_open_units_and_held_commits(rig: Rig) -> None:
    rig.house.publish_now("b", 1, count=4)
    rig.unit_over_both().commit()
    for who in (0, 1):
        rig.publish(rig.coordinator.begin(), who, "a", 1)
    rig.coordinator.end()
    rig.control.abort()
    rig.house.take("b")
    assert rig.depths() == (2, 3)
    assert rig.traces() == (0, 0, 0)
    assert rig.control.gate is None


def test_commit_in_confirm_mode_is_refused_alone_at_the_deadline(rig: Rig) -> None:
    rig.house.queue("c", capacity_messages=1, hold_deadline=5)
    rig.house.publish_now("c", 1)
    unit = rig.unit_over_both()
    rig.publish(unit, 1, "c", 1)
    unit.commit()
    rig.house.broker.begin(rig.house.broker.now + 5.1)
    rig.house.broker.run(1000)
    assert told(rig.control) == [(1, 1, False)]
    assert isinstance(unit.error, ResourceError)
    assert "hold deadline of 5 s" in str(unit.error)
    assert rig.control.closing is None
    assert rig.depths() == (2, 0)
    retried = rig.coordinator.begin()
    for session in rig.sessions:
        retried.settle(session, 1, False, Outcome.ACCEPTED)
    retried.commit()
    assert rig.depths() == (0, 0)
    assert told(rig.control) == [(2, 2, True)]


def test_refusals_of_a_unit_name_the_reason_and_apply_no_part(rig: Rig) -> None:
    rig.house.queue("full", capacity_messages=1, overflow="reject")
    rig.house.publish_now("full", 1)
    unit = rig.unit_over_both()
    rig.publish(unit, 0, "full", 1)
    unit.commit()
    assert isinstance(unit.error, ResourceError)
    assert "queue 'full'" in str(unit.error)
    large = rig.coordinator.begin()
    for _ in range(5):
        rig.publish(large, 1, "b", 1)
    large.commit()
    assert isinstance(large.error, ContentTooLarge)
    assert told(rig.control) == [(1, 1, False), (2, 2, False)]
    assert rig.depths() == (2, 0)
    assert rig.control.closing is None
    assert rig.traces() == (0, 0, 0)


def test_refused_publish_leaves_the_unit_unchanged(rig: Rig) -> None:
    rig.control.hold_budget.bound = 100
    rig.house.queue("small", capacity_bytes=50)
    unit = rig.coordinator.begin()
    rig.publish(unit, 0, "b", 60)
    with pytest.raises(ResourceError, match="held for this connection already"):
        rig.publish(unit, 1, "b", 41)
    with pytest.raises(ContentTooLarge):
        rig.publish(unit, 1, "small", 51)
    rig.publish(unit, 1, "b", 40)
    unit.commit()
    assert rig.house.depth("b") == 2


def test_size_of_a_unit_counts_copies_queues_and_settlements(rig: Rig) -> None:
    unit = rig.coordinator.begin()
    rig.publish(unit, 0, "b", 1)
    assert unit.size == 1 + QUEUE_SIZE
    rig.publish(unit, 1, "b", 1)
    assert unit.size == 2 + QUEUE_SIZE
    rig.publish(unit, 0, "nowhere", 1)
    assert unit.size == 3 + QUEUE_SIZE
    rig.house.publish_now("a", 1, count=3)
    for outcome in (Outcome.ACCEPTED, Outcome.REJECTED, Outcome.FAILED):
        unit.settle(rig.sessions[0], rig.get(0, "a"), False, outcome)
    assert unit.size == 3 + QUEUE_SIZE + 1 + 2 * RETURN_SIZE
    assert rig.coordinator.size == unit.size
    unit.commit()
    assert rig.coordinator.size == 0


@pytest.mark.once
@pytest.mark.parametrize("outcome", [Outcome.ACCEPTED, Outcome.REJECTED, Outcome.FAILED])
@pytest.mark.parametrize("multiple", [False, True])
def test_settlements_of_the_largest_commit_are_applied_and_any_more_is_refused(
    rig: Rig, multiple: bool, outcome: Outcome
) -> None:
    most = SIZE_MOST // (1 if outcome is Outcome.ACCEPTED else RETURN_SIZE)
    rig.house.queue("many", capacity_messages=2 * most)
    rig.house.publish_now("many", 1, count=most + 1)
    session = rig.sessions[0]
    tags = [rig.get(0, "many") for _ in range(most + 1)]
    unit = rig.coordinator.begin()
    for tag in tags[:-1]:
        unit.settle(session, tag, False, outcome)
    with pytest.raises(
        ResourceError, match=r"its size is 32,768 with held commits, and \d more would pass the limit of 32,768"
    ):
        unit.settle(session, tags[-1], multiple, outcome)
    unit.drop()
    again = rig.coordinator.begin()
    again.settle(session, tags[-2], True, outcome)
    again.commit()
    assert rig.house.vhost.queues["many"].unacked_messages == 1
    assert rig.coordinator.size == 0


def test_publishes_of_the_largest_commit_are_applied_and_any_more_is_refused(rig: Rig) -> None:
    count = (SIZE_MOST - 100 * QUEUE_SIZE) // 100
    names = [f"copy{number}" for number in range(100)]
    rig.house.queue(*names, capacity_messages=count)
    for name in names:
        rig.house.vhost.bind("amq.fanout", rig.house.vhost.queues[name], None, "", {})
    route = rig.house.vhost.route("amq.fanout", "", False)
    rig.house.vhost.resolve(route, {})
    unit = rig.coordinator.begin()
    for _ in range(count):
        unit.add_publish(rig.producers[0], route, b"x", 1)
    with pytest.raises(ResourceError, match=r"publish to 100 queues in a transaction refused: .* and 100 more"):
        unit.add_publish(rig.producers[0], route, b"x", 1)
    unit.commit()
    assert {rig.house.depth(name) for name in names} == {count}


def test_publish_to_the_most_queues_fits_into_a_commit() -> None:
    assert TARGETS_MAX * (TIMED_SIZE + QUEUE_SIZE) <= SIZE_MOST


def test_held_commits_count_in_the_size_of_the_next_commit(rig: Rig) -> None:
    rig.house.publish_now("b", 1, count=4)
    held = rig.coordinator.begin()
    rig.publish(held, 0, "b", 1)
    held.commit()
    unit = rig.coordinator.begin()
    for _ in range(SIZE_MOST - 1 - QUEUE_SIZE):
        rig.publish(unit, 0, "nowhere", 1)
    with pytest.raises(ResourceError, match="its size is 32,768 with held commits"):
        rig.publish(unit, 0, "nowhere", 1)
    rig.house.take("b", count=2)
    rig.publish(unit, 0, "nowhere", 1)
    unit.drop()
    assert rig.coordinator.size == 0


def test_commits_that_may_be_held_at_a_time_are_bounded(rig: Rig) -> None:
    rig.house.publish_now("b", 1, count=4)
    first = rig.coordinator.begin()
    rig.publish(first, 0, "b", 1)
    first.commit()
    for _ in range(COMMITS_HELD_MOST - 1):
        rig.coordinator.begin().commit()
    assert len(rig.control.outbox) == COMMITS_HELD_MOST
    refused = rig.coordinator.begin()
    refused.commit()
    assert "the limit is 4,096" in str(refused.error)
    rig.house.take("b", count=2)
    assert told(rig.control)[-1] == (1, COMMITS_HELD_MOST, True)


def test_rates_of_each_producer_count_the_own_publishes(rig: Rig) -> None:
    limits = read_settings("producer", "alice", {"rate-messages": 10, "burst-messages": 2})
    at_once.set_settings(rig.house.broker, "producer", "alice", limits)
    for who in (0, 1):
        unit = rig.coordinator.begin()
        rig.publish(unit, who, "b", 1)
        rig.publish(unit, who, "b", 1)
        unit.commit()
    assert rig.house.depth("b") == 4, "each has its own burst"
    rig.house.take("b", count=4)
    both = rig.coordinator.begin()
    rig.publish(both, 0, "b", 1)
    rig.publish(both, 1, "b", 1)
    both.commit()
    assert rig.house.depth("b") == 0
    rig.house.broker.begin(rig.house.broker.now + 0.2)
    rig.house.broker.run(1000)
    assert rig.house.depth("b") == 2


def test_mandatory_publish_returns_to_the_publishing_producer(rig: Rig) -> None:
    unit = rig.coordinator.begin()
    rig.publish(unit, 0, "b", 1)
    rig.publish(unit, 1, "nowhere", 1, mandatory=True)
    unit.commit()
    returns = [effect.producer for effect in rig.house.broker.effects() if isinstance(effect, Returned)]
    assert returns == [rig.producers[1]]


def test_producer_that_closes_before_the_commit_leaves_the_publishes_in_the_unit(rig: Rig) -> None:
    unit = rig.unit_over_both()
    rig.producers[1].close_gracefully()
    unit.commit()
    assert rig.depths() == (0, 2)


STEPS = st.tuples(
    st.sampled_from(
        ["publish", "publish", "settle", "settle", "commit", "commit", "rollback", "take", "fill", "fill", "end"]
    ),
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from(["a", "b"]),
)
"""A step: what, which of two open units, which of two sessions and producers, which queue."""


@settings(max_examples=examples(300), deadline=None)
@given(steps=st.lists(STEPS, max_size=60))
def test_units_in_any_order_are_applied_as_a_whole_or_not_at_all(steps: list[tuple[str, int, int, str]]) -> None:
    rig = Rig()
    for name in "ab":
        rig.house.queue(name, capacity_messages=4, stop_messages=4, resume_messages=3)
    queues = rig.house.vhost.queues
    units = [rig.coordinator.begin(), rig.coordinator.begin()]
    committed: list[tuple[UnitOfWork, int, int]] = []
    """Each committed unit, with its numbers of publishes and settlements."""
    added, taken = 0, 0
    for what, at, who, name in steps:
        unit = units[at]
        if what == "publish" and unit.error is None:
            for _ in range(3):
                rig.publish(unit, who, name, 1)
        elif what == "settle" and unit.error is None and queues[name].available():
            unit.settle(rig.sessions[who], rig.get(who, name), False, Outcome.ACCEPTED)
        elif what == "fill" and queues[name].fits(1):
            rig.house.publish_now(name, 1)
            added += 1
        elif what == "take":
            taken += rig.house.take(name)
        elif what == "end":
            rig.coordinator.roll_back_all(TransactionRolledBack("a session has ended"))
            rig.house.broker.end_session(rig.sessions[who])
            rig.sessions[who] = Session()
        elif what in ("commit", "rollback"):
            if what == "commit":
                committed.append((unit, len(unit.publishes), len(unit.settlements)))
                unit.commit()
            else:
                unit.rollback()
            units[at] = rig.coordinator.begin()
        rig.house.broker.run(1000)
        held = [commit.unit for commit in rig.control.outbox if isinstance(commit, UnitCommit)]
        done = [each for each in committed if each[0] not in held and each[0].error is None]
        expected = added - taken + sum(publishes - settlements for _, publishes, settlements in done)
        assert sum(rig.depths()) == expected, "a part of a unit was applied, or left out"
        assert max(rig.depths()) <= 4
        kept = sum(len(each.publishes) for each in [*units, *held])
        assert int(rig.control.hold_budget.messages) == kept
        for session in rig.sessions:
            tags = {s.tag for each in [*units, *held] for s in each.settlements if s.session is session}
            assert rig.coordinator.settled_tags(session).tags == tags
