"""The fair queue of all waiters: oldest ticket first, one message a turn."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.flow.gate import Gate
from penstock.flow.turns import Turns
from tests.profiles import examples
from tests.support.flow_waiters import Walker, reopen


def at_a_closed_gate() -> tuple[Turns, list[str], Gate]:
    """Return turns, the names of those who pass, and a closed gate."""
    turns = Turns()
    gate = Gate("queue", "q", turns.transitions)
    gate.close(1, 1, 0.0)
    return turns, [], gate


def test_waiters_pass_in_the_order_of_arrival_a_message_a_turn() -> None:
    turns, passed, gate = at_a_closed_gate()
    for name in "abc":
        Walker(name, turns, passed, [gate], [gate]).stand()
    assert turns.run(100, 0.0) == 0
    reopen(turns, gate)
    assert turns.run(100, 0.0) == 6
    assert passed == list("abcabc")
    assert not turns.pending


def test_turns_in_a_row_end_together_and_need_a_single_waiter() -> None:
    turns, passed, gate = at_a_closed_gate()
    a, b = Walker("a", turns, passed, [gate], [gate], [gate]), Walker("b", turns, passed, [gate])
    for walker in (a, b):
        walker.stand()
    reopen(turns, gate)
    assert turns.run(100, 0.0) == 4
    assert passed == list("abaa")
    assert (a.rows, b.rows) == ([1, 4], [2])


def test_bound_on_turns_is_kept_and_the_rest_is_reported() -> None:
    turns, passed, gate = at_a_closed_gate()
    for name in "abc":
        Walker(name, turns, passed, [gate]).stand()
    reopen(turns, gate)
    assert turns.run(2, 0.0) == 2
    assert passed == ["a", "b"]
    assert turns.pending
    turns.run(2, 0.0)
    assert passed == ["a", "b", "c"]
    assert not turns.pending


def test_gate_that_closes_again_keeps_the_rest_waiting_with_the_tickets() -> None:
    turns, passed, gate = at_a_closed_gate()
    walkers = [Walker(name, turns, passed, [gate]) for name in "abc"]
    for walker in walkers:
        walker.stand()
    reopen(turns, gate)
    turns.run(1, 0.0)
    gate.close(1, 1, 0.0)
    assert turns.run(100, 0.0) == 0
    assert walkers[0].ticket == 0
    assert 0 < walkers[1].ticket <= walkers[2].ticket
    reopen(turns, gate)
    turns.run(100, 0.0)
    assert passed == list("abc")


def test_waiter_that_moves_to_another_gate_keeps_the_place() -> None:
    turns, passed = Turns(), list[str]()
    first, second = Gate("queue", "q", turns.transitions), Gate("queue", "r", turns.transitions)
    first.close(1, 1, 0.0)
    second.close(1, 1, 0.0)
    old = Walker("old", turns, passed, [first, second])
    old.stand()
    Walker("young", turns, passed, [second]).stand()
    reopen(turns, first)
    turns.run(100, 0.0)
    assert passed == []
    assert old.gate is second
    reopen(turns, second)
    turns.run(100, 0.0)
    assert passed == ["old", "young"]


def test_oldest_waiter_without_room_keeps_younger_waiters_behind() -> None:
    turns, passed, gate = at_a_closed_gate()
    large = Walker("large", turns, passed, [gate])
    large.too_big_for.add("q")
    large.stand()
    Walker("small", turns, passed, [gate]).stand()
    reopen(turns, gate)
    turns.run(100, 0.0)
    assert passed == []
    assert not turns.pending, "a gate whose oldest cannot go must not spin"
    large.too_big_for.clear()
    turns.schedule(gate)
    turns.run(100, 0.0)
    assert passed == ["large", "small"]


def test_listing_an_open_gate_twice_gives_no_second_turn() -> None:
    turns, passed, gate = at_a_closed_gate()
    Walker("a", turns, passed, [gate]).stand()
    reopen(turns, gate)
    turns.schedule(gate)
    turns.run(100, 0.0)
    assert passed == ["a"]


@settings(max_examples=examples(200), derandomize=True, database=None)
@given(st.lists(st.lists(st.sampled_from(["q", "r", "qr"]), min_size=1, max_size=4), min_size=1, max_size=6), st.data())
def test_waiters_have_all_passed_once_the_gates_stay_open(plans: list[list[str]], data: st.DataObject) -> None:
    turns, passed = Turns(), list[str]()
    gates = {name: Gate("queue", name, turns.transitions) for name in "qr"}
    for gate in gates.values():
        gate.close(1, 1, 0.0)
    for number, plan in enumerate(plans):
        Walker(str(number), turns, passed, *[[gates[name] for name in road] for road in plan]).stand()
    for name, open_it, budget in data.draw(
        st.lists(st.tuples(st.sampled_from("qr"), st.booleans(), st.integers(1, 5)), max_size=20)
    ):
        if open_it:
            reopen(turns, gates[name])
        else:
            gates[name].close(1, 1, 0.0)
        turns.run(budget, 0.0)
    for gate in gates.values():
        reopen(turns, gate)
    turns.run(1000, 0.0)
    assert sorted(passed) == sorted(str(number) for number, plan in enumerate(plans) for _ in plan)
    assert not turns.pending
