"""Turns are fair by bytes, whatever the sizes; weights change the shares; newcomers neither barge nor starve others."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.flow.gate import Gate
from penstock.flow.turns import Turns
from tests.support.flow_waiters import Walker, reopen


def crowd(turns: Turns, gate: Gate, passed: list[str], charges: dict[str, int], messages: int = 10_000) -> list[Walker]:
    walkers = []
    for name, charge in charges.items():
        walker = Walker(name, turns, passed, *([gate] for _ in range(messages)))
        walker.charge = charge
        walker.stand()
        walkers.append(walker)
    return walkers


def closed_gate(turns: Turns, name: str = "q") -> Gate:
    gate = Gate("queue", name, turns.transitions)
    gate.close(1, 1, 0.0)
    return gate


@given(charges=st.lists(st.integers(1, 5000), min_size=2, max_size=6), turns_given=st.integers(1, 400))
def test_waiters_differ_by_at_most_the_two_largest_messages(charges: list[int], turns_given: int) -> None:
    turns, passed = Turns(), list[str]()
    gate = closed_gate(turns)
    names = {f"p{number}": charge for number, charge in enumerate(charges)}
    crowd(turns, gate, passed, names, messages=401)
    reopen(turns, gate)
    turns.run(turns_given, 0.0)
    got = {name: passed.count(name) * charge for name, charge in names.items()}
    for one, its in names.items():
        for other, theirs in names.items():
            assert got[one] - got[other] <= its + theirs


def test_weight_of_three_gets_three_times_the_bytes() -> None:
    turns, passed = Turns(), list[str]()
    gate = closed_gate(turns)
    heavy, _ = crowd(turns, gate, passed, {"heavy": 1000, "light": 1000})
    heavy.weight = 3
    reopen(turns, gate)
    turns.run(4000, 0.0)
    counts = Counter(passed)
    assert abs(counts["heavy"] - 3 * counts["light"]) <= 3


def test_waiters_are_reached_however_many_newcomers_come() -> None:
    """Every turn a new producer comes with one small message; the one that has had its turn is not kept back."""
    turns, passed = Turns(), list[str]()
    gate = closed_gate(turns)
    (old,) = crowd(turns, gate, passed, {"old": 1000}, messages=50)
    reopen(turns, gate)
    for number in range(3000):
        newcomer = Walker(f"n{number}", turns, passed, [gate])
        newcomer.charge = 1000
        newcomer.stand()
        turns.run(1, 0.0)
    assert passed.count("old") == 50
    assert not old.roads


def test_waiter_that_waited_long_at_a_closed_gate_does_not_pass_other_waiters_twice() -> None:
    turns, passed = Turns(), list[str]()
    shut, free = closed_gate(turns, "shut"), closed_gate(turns, "free")
    late = Walker("late", turns, passed, *([shut, free] for _ in range(100)))
    late.stand()
    reopen(turns, free)
    crowd(turns, free, passed, {"busy": 1}, messages=500)
    turns.run(200, 0.0)
    assert passed.count("busy") == 200
    reopen(turns, shut)
    turns.run(50, 0.0)
    assert abs(passed[200:].count("late") - passed[200:].count("busy")) <= 2


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40))
def test_newcomer_at_many_gates_is_never_put_far_behind(charges: list[int]) -> None:
    """Each gate has one who waits: the clock must not run away from them."""
    turns, passed = Turns(), list[str]()
    gates = [closed_gate(turns, f"g{number}") for number in range(5)]
    for number, gate in enumerate(gates):
        walker = Walker(f"w{number}", turns, passed, *([gate] for _ in charges))
        walker.charge = charges[number % len(charges)]
        walker.stand()
    for gate in gates:
        reopen(turns, gate)
    turns.run(len(charges) * 2, 0.0)
    newcomer = Walker("new", turns, passed, [gates[0]])
    newcomer.stand()
    before = len(passed)
    turns.run(10_000, 0.0)
    overtaken = passed[before : passed.index("new")]
    assert sum(charges[int(name[1:]) % len(charges)] for name in overtaken) <= 5 * 2 * max(charges)
