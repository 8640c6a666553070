"""Confirmations: each exactly once, in order, withheld while the road is closed."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.flow.confirms import Confirms, PendingConfirm
from penstock.flow.gate import Gate, Refusal
from tests.profiles import examples

FULL = Refusal("reject", None)


def told(withheld: Confirms) -> list[tuple[int, int, bool]]:
    return [(int(each.first), int(each.last), each.confirmed) for each in withheld.take()]


def test_publishes_on_an_open_road_are_confirmed_as_a_single_range() -> None:
    withheld = Confirms()
    withheld.published = 5
    assert withheld.ready()
    assert told(withheld) == [(1, 5, True)]
    assert not withheld.ready()
    assert told(withheld) == []


def test_confirmation_behind_a_withheld_confirmation_is_sent_together() -> None:
    gate, withheld = Gate("queue", "q", []), Confirms()
    gate.close(1, 1, 0.0)
    withheld.withhold([gate], 10.0)
    withheld.withhold([], 10.0)
    assert withheld.release() is gate
    assert told(withheld) == []
    gate.reopen(0, 0, 0.0)
    assert withheld.release() is None
    assert told(withheld) == [(1, 2, True)]


def test_refusal_is_sent_at_once_and_later_ranges_omit_the_refused_number() -> None:
    gate, withheld = Gate("queue", "q", []), Confirms()
    gate.close(1, 1, 0.0)
    withheld.withhold([gate], 10.0)
    withheld.refuse(withheld.hold(10.0), FULL)
    withheld.withhold([], 10.0)
    assert told(withheld) == [(2, 2, False)]
    gate.reopen(0, 0, 0.0)
    withheld.release()
    assert told(withheld) == [(1, 1, True), (3, 3, True)]


def test_held_publish_keeps_back_later_confirmations() -> None:
    withheld = Confirms()
    held = withheld.hold(10.0)
    withheld.withhold([], 10.0)
    assert withheld.release() is None
    assert told(withheld) == []
    withheld.accepted(held, [])
    withheld.release()
    assert told(withheld) == [(1, 2, True)]


def test_confirmation_due_at_a_closed_gate_is_sent_with_earlier_ones() -> None:
    gate, withheld = Gate("queue", "q", []), Confirms()
    gate.close(1, 1, 0.0)
    withheld.withhold([gate], 30.0)
    withheld.withhold([gate], 10.0)
    withheld.withhold([gate], 30.0)
    assert withheld.due() == 10.0
    withheld.expire(10.0)
    assert told(withheld) == [(1, 2, True)]
    assert withheld.due() == 30.0


class AnyOrder(RuleBasedStateMachine):
    """Publishes with every fate, gates that move, looks at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = [Gate("queue", name, []) for name in "qr"]
        self.withheld = Confirms()
        self.held: list[PendingConfirm] = []
        self.fate: dict[int, str] = {}
        self.roads: dict[int, list[Gate]] = {}
        self.told: dict[int, bool] = {}

    def road(self, to: int) -> list[Gate]:
        return [gate for at, gate in enumerate(self.gates) if to >> at & 1 and not gate.open]

    @rule(to=st.integers(0, 3), times=st.integers(1, 3))
    def accept(self, to: int, times: int) -> None:
        for _ in range(times):
            road = self.road(to)
            if road or self.withheld.pending:
                self.withheld.withhold(road, 1e9)
            else:
                self.withheld.published += 1
            number = int(self.withheld.published)
            self.fate[number], self.roads[number] = "in", road

    @rule()
    def hold(self) -> None:
        self.held.append(self.withheld.hold(1e9))
        self.fate[int(self.withheld.published)] = "held"

    @rule()
    def refuse_new(self) -> None:
        self.withheld.refuse(self.withheld.hold(1e9), FULL)
        self.fate[int(self.withheld.published)] = "refused"

    @precondition(lambda self: self.held)
    @rule(to=st.integers(0, 3))
    def let_in(self, to: int) -> None:
        pending = self.held.pop(0)
        road = self.road(to)
        self.withheld.accepted(pending, road)
        self.fate[int(pending.number)], self.roads[int(pending.number)] = "in", road
        self.withheld.release()

    @precondition(lambda self: self.held)
    @rule(at=st.integers(0, 5))
    def refuse_held(self, at: int) -> None:
        pending = self.held.pop(at % len(self.held))
        self.withheld.refuse(pending, FULL)
        self.withheld.release()
        self.fate[int(pending.number)] = "refused"

    @rule(at=st.integers(0, 1), open_it=st.booleans())
    def move(self, at: int, open_it: bool) -> None:
        gate = self.gates[at]
        gate.reopen(0, 0, 0.0) if open_it else gate.close(1, 1, 0.0)
        self.withheld.release()
        if open_it:
            for road in self.roads.values():
                road[:] = [each for each in road if each is not gate]

    @invariant()
    def look(self) -> None:
        ready = self.withheld.ready()
        outcomes = told(self.withheld)
        assert ready or not outcomes
        for first, last, confirmed in outcomes:
            for number in range(first, last + 1):
                assert number not in self.told, f"{number} was told twice"
                assert self.fate[number] == ("in" if confirmed else "refused")
                self.told[number] = confirmed
                if confirmed:
                    assert all(n in self.told for n in range(1, number)), f"{number} was told out of order"
        assert all(number in self.told for number, fate in self.fate.items() if fate == "refused")

    def teardown(self) -> None:
        for gate in self.gates:
            gate.reopen(0, 0, 0.0)
        while self.held:
            self.let_in(0)
        self.withheld.release()
        self.look()
        assert sorted(self.told) == list(range(1, int(self.withheld.published) + 1)), "some were never told"


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=examples(200), stateful_step_count=30, derandomize=True, database=None, deadline=None
)
