"""Message groups: one consumer at a time, in order, moved when free, and bounds of what waits."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.content.properties import Properties
from penstock.core.consume.consumer import UNMATCHED
from penstock.core.consume.groups import KEY_MAX, MessageGroups
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.scan import SLICE
from penstock.core.message import Envelope
from penstock.core.queue.delays import delays_of
from tests.profiles import examples
from tests.support.selecting_bench import PLENTY, TOY, SelectingBench

BY_COLOR = {"group-by": "color"}
NOBODY = ""
"""A message without a group: an empty name is none."""


def a_bench(*colors: str) -> SelectingBench:
    return SelectingBench(*colors, **BY_COLOR)


def groups_in(bench: SelectingBench) -> MessageGroups:
    groups = bench.queue.grouping
    assert isinstance(groups, MessageGroups)
    return groups


def test_group_goes_to_one_consumer_until_its_messages_are_settled() -> None:
    bench = a_bench("red", "red", "blue", "red", "blue")
    bench.attach("a", credit=1)
    bench.attach("b")
    bench.deliver()
    assert bench.got == {"a": [1], "b": [3, 5]}, "2 and 4 wait for consumer a"
    bench.accept("a")
    bench.deliver()
    assert bench.got == {"a": [1], "b": [3, 5, 2, 4]}, "a has no credit left, so the free group moves"
    assert bench.ready() == []


def test_group_in_one_consumers_hands_stays_with_that_consumer() -> None:
    bench = a_bench("red")
    first = bench.attach("a", credit=1)
    bench.attach("b")
    bench.deliver()
    bench.put("red", "red")
    bench.deliver()
    assert bench.got == {"a": [1], "b": []}
    bench.grant(first, 5)
    bench.deliver()
    assert bench.got == {"a": [1, 2, 3], "b": []}


def test_messages_without_a_group_go_to_any_consumer() -> None:
    bench = a_bench(*[NOBODY] * 6)
    bench.attach("a")
    bench.attach("b")
    bench.deliver()
    assert sorted(bench.got["a"] + bench.got["b"]) == [1, 2, 3, 4, 5, 6]
    assert bench.got["a"]
    assert bench.got["b"]


def test_consumer_without_credit_delays_only_its_own_groups() -> None:
    bench = a_bench("red", *["red", "blue", "green"] * 10)
    bench.attach("a", credit=1)
    other = bench.attach("b")
    bench.deliver()
    assert bench.got["a"] == [1]
    assert len(bench.got["b"]) == 20, "all of the other groups"
    assert other.state == UNMATCHED
    assert other.obstacles(1.0) == [
        "10 messages wait for their groups, which other consumers hold: 10 for group 'red', of which consumer 'a' has "
        "1 unacknowledged"
    ]
    assert not bench.broker.has_dirty(), "nobody is asked again before something changes"


def test_returned_message_comes_before_later_ones_of_its_group() -> None:
    bench = a_bench("red", "red", "red", "blue")
    bench.attach("a", credit=2)
    bench.deliver()
    assert bench.got["a"] == [1, 2]
    bench.attach("b", credit=1)
    bench.deliver()
    assert bench.got["b"] == [4]
    bench.release("a", 1, 1)
    bench.deliver()
    assert bench.got == {"a": [1, 2], "b": [4]}, "a still has 2 of the group"
    bench.sessions["a"].unsettled.settle(2, 2, Outcome.ACCEPTED, 1.0)
    bench.accept("b")
    bench.attach("c")
    bench.deliver()
    assert bench.got["c"] == [1, 3]


def test_group_of_a_cancelled_consumer_moves_when_its_deliveries_are_settled() -> None:
    bench = a_bench("red", "red")
    bench.attach("a", credit=1)
    bench.deliver()
    bench.attach("b")
    bench.broker.cancel(bench.sessions["a"], "a")
    bench.deliver()
    assert bench.got == {"a": [1], "b": []}, "the channel of the cancelled consumer still has message 1"
    bench.accept("a")
    bench.deliver()
    assert bench.got["b"] == [2]


def test_groups_of_a_closed_session_move_in_order() -> None:
    bench = a_bench(*["red", "blue"] * 50)
    bench.attach("a", credit=30)
    bench.deliver()
    bench.attach("b")
    bench.broker.end_session(bench.sessions["a"])
    while bench.broker.has_dirty() or bench.queue.returning is not None:
        bench.turn()
    assert [number for number in bench.got["b"] if number % 2] == list(range(1, 100, 2))
    assert [number for number in bench.got["b"] if number % 2 == 0] == list(range(2, 101, 2))


def test_delivery_that_is_settled_when_sent_holds_no_group() -> None:
    bench = a_bench("red", "red", "red")
    bench.attach("a", settled=True)
    bench.attach("b", settled=True)
    bench.deliver()
    assert sorted(bench.got["a"] + bench.got["b"]) == [1, 2, 3]
    assert groups_in(bench).held() == 0


def test_rejected_message_frees_its_group() -> None:
    bench = SelectingBench("red", "red", **BY_COLOR, **{"dead-letter-exchange": "amq.fanout"})
    bench.attach("a", credit=1)
    bench.attach("b")
    bench.deliver()
    bench.sessions["a"].unsettled.settle(1, 1, Outcome.REJECTED, 1.0)
    bench.turn()
    assert bench.got["b"] == [2]
    assert groups_in(bench).held() == 1


def test_group_waits_while_a_failed_message_is_delayed() -> None:
    bench = SelectingBench("red", "red", "red", "blue", **BY_COLOR, **{"retry-delay": "5s"})
    bench.attach("a", credit=1)
    bench.deliver()
    bench.attach("b")
    bench.deliver()
    assert bench.got["b"] == [4]
    for queue in bench.sessions["a"].unsettled.settle(1, 1, Outcome.FAILED, 1.0):
        bench.broker.schedule_delivery(queue)
    bench.deliver()
    assert bench.got["b"] == [4], "2 and 3 come after the next attempt of 1"
    assert groups_in(bench).held() == 1
    bench.broker.begin(7.0)
    bench.turn()
    assert bench.got["b"] == [4, 1, 2, 3]


def test_group_goes_on_when_its_delayed_message_is_cancelled() -> None:
    bench = SelectingBench("red", "red", **BY_COLOR, **{"retry-delay": "5s"})
    bench.attach("a", credit=1)
    bench.deliver()
    bench.sessions["a"].unsettled.settle(1, 1, Outcome.FAILED, 1.0)
    bench.attach("b")
    bench.deliver()
    assert bench.got["b"] == []
    delays = delays_of(bench.queue)
    assert delays is not None
    assert delays.cancel(delays.messages[0], 1.0)
    bench.deliver()
    assert bench.got["b"] == [2]


def test_basic_get_takes_no_message_of_a_held_group() -> None:
    bench = a_bench("red", "red", "blue")
    bench.attach("a", credit=1)
    bench.deliver()
    session = bench.sessions["a"]
    batch = session.get(bench.queue, False, 1.0)
    assert batch is not None
    bench.got["get"] = [3]
    assert [int(message.sequence) for message in batch.messages if message is not None] == [3]
    assert session.get(bench.queue, False, 1.0) is None
    bench.accept("a")
    batch = session.get(bench.queue, True, 1.0)
    assert batch is not None
    assert bench.ready() == []


def test_undeliverable_message_and_its_group_are_for_others() -> None:
    bench = a_bench("red", "red")
    bench.attach("a")
    bench.deliver()
    assert bench.got["a"] == [1, 2]
    session = bench.sessions["a"]
    bench.broker.schedule_delivery(bench.queue)
    session.unsettled.settle(1, 2, Outcome.UNDELIVERABLE, 1.0)
    bench.deliver()
    assert bench.got["a"] == [1, 2]
    bench.attach("b")
    bench.deliver()
    assert bench.got["b"] == [1, 2]


def test_message_beyond_a_byte_window_waits_and_the_group_keeps_its_order() -> None:
    bench = a_bench()
    bench.attach("a", window_bytes=100)
    for charge in (60, 60, 10):
        bench.put("red", charge=charge)
    bench.deliver()
    assert bench.got["a"] == [1]
    bench.accept("a")
    bench.deliver()
    assert bench.got["a"] == [1, 2, 3]


def test_purged_expired_and_dropped_messages_are_passed_over() -> None:
    bench = a_bench(*["red"] * 10)
    bench.attach("a", credit=1)
    bench.attach("b")
    bench.deliver()
    assert groups_in(bench).waiting == 9
    bench.queue.purge(1.0)
    assert groups_in(bench).waiting == 0
    bench.put("red", "blue")
    bench.deliver()
    assert bench.got == {"a": [1], "b": [12]}
    bench.queue.drop_oldest(1.0)
    bench.accept("a")
    bench.put("red")
    bench.deliver()
    assert bench.got["b"] == [12, 13]


def test_walk_reads_each_message_once_and_in_slices() -> None:
    bench = a_bench("red", *["red"] * 3000, "blue")
    bench.attach("a", credit=1)
    bench.deliver()
    consumers = [bench.attach(f"c{number}") for number in range(5)]
    longest = 0
    for _ in range(200):
        if not bench.broker.has_dirty():
            break
        longest = max(longest, bench.deliver(SLICE // 2))
    assert [number for each in consumers for number in bench.got[each.tag]] == [3002]
    assert longest < 3 * SLICE
    before = int(bench.broker.work.done)
    bench.put("green")
    bench.deliver()
    assert bench.broker.work.done - before < SLICE, "no consumer reads the waiting messages again"


def test_waiting_messages_are_bounded_and_the_walk_goes_on_when_fewer_wait() -> None:
    bench = a_bench(*["red"] * 30, "blue")
    groups_in(bench).most = 20
    first = bench.attach("a", credit=1)
    other = bench.attach("b")
    bench.deliver()
    assert groups_in(bench).waiting == 20
    assert bench.got["b"] == [], "blue is behind the bound"
    assert "these are the most, and later messages of all groups wait as well" in other.obstacles(1.0)[0]
    bench.grant(first, 15)
    bench.deliver()
    assert bench.got["a"] == list(range(1, 17))
    assert bench.got["b"] == [31]


def test_walk_at_the_bound_begins_again_when_waiting_messages_have_expired() -> None:
    bench = a_bench(*["red"] * 30, "blue")
    groups_in(bench).most = 20
    bench.attach("a", credit=1)
    bench.attach("b")
    bench.deliver()
    for _ in range(15):
        bench.queue.drop_oldest(1.0)
    bench.put("green")
    bench.deliver()
    assert bench.got["b"] == [31, 32]


def test_unsettled_messages_of_groups_are_bounded() -> None:
    bench = a_bench(*[f"group-{number}" for number in range(30)])
    groups_in(bench).most_unsettled = 20
    consumer = bench.attach("a")
    bench.deliver()
    assert bench.got["a"] == list(range(1, 21))
    assert not bench.broker.has_dirty()
    assert consumer.obstacles(1.0) == ["waits: 20 messages of groups are unacknowledged, the most (group-by=color)"]
    for queue in bench.sessions["a"].unsettled.settle(1, 2, Outcome.ACCEPTED, 1.0):
        assert queue is bench.queue
    bench.deliver()
    assert bench.got["a"] == list(range(1, 23))
    bench.accept("a")
    bench.deliver()
    assert bench.ready() == []


def test_groups_are_remembered_while_held_or_waiting() -> None:
    bench = a_bench()
    bench.attach("a", credit=10)
    for number in range(1000):
        bench.put(f"group-{number}")
        bench.deliver()
        bench.accept("a")
        if number == 5:
            assert groups_in(bench).held() == 0
        bench.grant(next(iter(bench.sessions["a"].consumers.values())), 10)
    groups = groups_in(bench)
    assert (groups.held(), groups.waiting, len(groups._groups), len(groups._out)) == (0, 0, 0, 0)


def test_long_group_is_remembered_by_a_digest() -> None:
    bench = a_bench("r" * 1_000_000, "r" * 1_000_000, "r" * 999_999)
    bench.attach("a", credit=1)
    bench.attach("b")
    bench.deliver()
    assert bench.got == {"a": [1], "b": [3]}
    assert max(map(len, groups_in(bench)._groups)) <= KEY_MAX


@pytest.mark.parametrize(
    ("value", "is_group"),
    [("x", True), (7, True), (True, True), (1.5, True), ("", False), (None, False), ({"a": 1}, False), ([1, 2], False)],
)
def test_text_number_or_boolean_names_a_group(value: object, is_group: bool) -> None:
    bench = a_bench()
    bench.attach("a", credit=1)
    bench.attach("b")
    for number in (1, 2):
        body = TOY.encode(Properties(headers={"color": value, "n": number}), b"")
        bench.queue.enqueue(Envelope("", "q"), body, 10, 1.0)
    bench.broker.schedule_delivery(bench.queue)
    bench.deliver()
    assert bench.got == {"a": [1], "b": [] if is_group else [2]}


OUTCOMES = {"accept": Outcome.ACCEPTED, "release": Outcome.RELEASED, "reject": Outcome.REJECTED}


class Model:
    """What a group promises: at most one consumer has unsettled messages of it, and each gets them in order."""

    def __init__(self) -> None:
        self.out: dict[int, str] = {}
        self.group: dict[int, str] = {}

    def check(self, bench: SelectingBench, seen: dict[str, int]) -> None:
        holders: dict[str, set[str]] = defaultdict(set)
        for tag, numbers in bench.got.items():
            for number in numbers[seen[tag] :]:
                self.out[number] = tag
                group = self.group[number]
                waiting = [other for other in bench.ready() if self.group[other] == group and group]
                assert not [other for other in waiting if other < number], "an older message of the group is ready"
            seen[tag] = len(numbers)
        for number, tag in self.out.items():
            if self.group[number]:
                holders[self.group[number]].add(tag)
        assert all(len(tags) == 1 for tags in holders.values()), holders


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(["red", "blue", "green", ""])),
        st.tuples(st.sampled_from(["grant", "accept", "release", "reject", "leave", "attach"]), st.sampled_from("abc")),
        st.tuples(st.sampled_from(["drop", "purge"]), st.just("")),
    ),
    max_size=60,
)


@settings(max_examples=examples(60))
@given(STEPS)
def test_random_steps_keep_each_group_with_one_consumer_in_order(steps: list[tuple[str, str]]) -> None:
    bench = a_bench()
    model, seen = Model(), defaultdict[str, int](int)
    for action, name in steps:
        session = bench.sessions.get(name)
        attached = session is not None and name in session.consumers
        if action == "put":
            bench.put(name)
            model.group[bench.published] = name
        elif action == "drop":
            if bench.queue.available():
                bench.queue.drop_oldest(1.0)
        elif action == "purge":
            bench.queue.purge(1.0)
        elif action == "attach" and not attached:
            bench.attach(name, credit=2)
        elif action == "grant" and session is not None and attached:
            bench.grant(session.consumers[name], 2)
        elif session is not None and action == "leave" and attached:
            bench.broker.cancel(session, name)
        elif session is not None and action in OUTCOMES:
            batches = session.unsettled.batches()
            if batches:
                last = int(batches[0].first)
                settled = [number for number, tag in model.out.items() if tag == name]
                gone = [int(each.sequence) for _, _, each in session.unsettled.deliveries(last, last)]
                for queue in session.unsettled.settle(last, last, OUTCOMES[action], 1.0):
                    bench.broker.schedule_delivery(queue)
                assert set(gone) <= set(settled)
                for number in gone:
                    del model.out[number]
        bench.deliver()
        model.check(bench, seen)
    for name, session in list(bench.sessions.items()):
        if name not in session.consumers:
            bench.attach(name)
        else:
            bench.grant(session.consumers[name], PLENTY)
    if bench.sessions:
        for _ in range(len(steps) + 1):
            for name in bench.sessions:
                bench.accept(name)
            model.out.clear()
            bench.deliver()
            model.check(bench, seen)
        assert bench.ready() == [], "nothing is left behind"
