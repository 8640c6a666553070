"""Gates: open and closed, with their waiters and blocked producers; and the reason of a refused publish."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ContentTooLarge
from penstock.flow.gate import DEADLINE, DELETED, NEVER_FITS, Gate, GateTransition, Refusal, earlier
from penstock.flow.turns import Turns
from tests.support.flow_waiters import Walker


def test_gate_that_closes_twice_is_reported_once() -> None:
    crossings: list[GateTransition] = []
    gate = Gate("queue", "q", crossings)
    gate.close(9, 90, 1.0)
    gate.close(10, 100, 2.0)
    gate.reopen(5, 50, 4.0)
    gate.reopen(4, 40, 5.0)
    assert [(each.closed, each.messages, each.bytes, each.now) for each in crossings] == [
        (True, 9, 90, 1.0),
        (False, 5, 50, 4.0),
    ]
    assert gate.stats.transitions == 1
    assert gate.stats.closed_s == 3.0


def test_waiter_that_leaves_keeps_the_order_of_waiters_and_the_ticket() -> None:
    turns = Turns()
    gate = Gate("queue", "q", turns.transitions)
    gate.close(1, 1, 0.0)
    walkers = [Walker(name, turns, [], [gate]) for name in "abcd"]
    for walker in walkers:
        walker.stand()
    gate.leave(walkers[1])
    gate.leave(walkers[0])
    assert sorted(gate.waiters, key=lambda each: each.serial) == walkers[2:]
    assert walkers[1].ticket > 0
    assert walkers[1].gate is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=60))
def test_line_of_a_gate_stays_in_order_under_any_changes(steps: list[tuple[int, int]]) -> None:
    turns = Turns()
    gate = Gate("queue", "q", turns.transitions)
    gate.close(1, 1, 0.0)
    here: list[Walker] = []
    for serial, (kind, number) in enumerate(steps):
        if kind == 0 and here:
            gate.leave(here.pop(number % len(here)))
        else:
            walker = Walker("w", turns, [], [gate])
            walker.ticket, walker.serial = kind, serial
            gate.enter(walker)
            here.append(walker)
        assert [gate.waiters[each.place] for each in here] == here
        first = min(here, key=lambda each: (each.ticket, each.serial), default=None)
        assert first is None or not earlier(first, gate.waiters[0])
    for left in range(len(here), 0, -1):
        gate.leave(gate.waiters[0])
        assert len(gate.waiters) == left - 1
        assert not any(earlier(each, gate.waiters[0]) for each in gate.waiters)


def test_forgotten_waiter_is_neither_in_line_nor_blocked() -> None:
    turns = Turns()
    gate, other = Gate("queue", "q", turns.transitions), Gate("queue", "r", turns.transitions)
    gate.close(1, 1, 0.0)
    walker = Walker("a", turns, [], [gate])
    walker.stand()
    other.block(walker)
    other.expect(walker)
    other.forget(walker)
    assert walker.gate is gate
    assert not other.blocked
    gate.forget(walker)
    assert not gate.waiters
    assert not gate.blocked


def test_blocked_are_taken_all_at_once_and_may_come_back_meanwhile() -> None:
    turns = Turns()
    gate = Gate("queue", "q", turns.transitions)
    first, second = Walker("a", turns, [], [gate]), Walker("b", turns, [], [gate])
    gate.expect(first)
    gate.expect(first)
    gate.expect(second)
    taken = gate.take_to_release(100)
    gate.expect(first)
    assert taken == [first, second]
    assert list(gate.to_release.values()) == [first]


def test_gate_without_an_owner_is_moved_by_hand_and_unchanged_by_a_review() -> None:
    gate = Gate("alarm", "memory", [])
    gate.close(0, 0, 0.0)
    gate.review(1.0)
    assert not gate.open


def test_line_for_credit_is_beside_that_of_publishes_and_counts_only_at_an_open_gate() -> None:
    turns = Turns()
    gate = Gate("queue", "q", turns.transitions)
    gate.close(1, 1, 0.0)
    link, walker = Walker("a", turns, [], [gate]), Walker("b", turns, [], [gate])
    link.asks_for_credit = True
    link.stand()
    assert (gate.in_line(), gate.has_line(), gate.next_in_line()) == (1, False, None)
    walker.stand()
    first = gate.next_in_line()
    assert (first, gate.has_line()) == (walker, True)
    gate.reopen(0, 0, 0.0)
    first = gate.next_in_line()
    assert first is link, "it was the first to come"
    gate.leave(link)
    gate.leave(walker)
    assert (gate.in_line(), gate.has_line(), gate.next_in_line()) == (0, False, None)


def test_reason_made_on_request_names_the_gate() -> None:
    gate = Gate("queue", "q", [])
    assert Refusal("reject", gate).describe() == "queue 'q' lets nothing pass"
    assert Refusal(DELETED, gate).describe() == "queue 'q' was deleted"
    assert Refusal("reject", None).describe() == "the message was refused"


def test_text_that_was_given_comes_before_the_error_and_the_gate() -> None:
    error = ContentTooLarge("too large")
    assert Refusal(NEVER_FITS, Gate("queue", "q", []), error=error).describe() == "too large"
    assert Refusal(DEADLINE, None, "refused after 5 s", True, error).describe() == "refused after 5 s"
