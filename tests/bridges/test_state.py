"""State of a bridge."""

from __future__ import annotations

from penstock.bridges.state import HELD, IDLE, MOVING, REASONS_MOST, State


def test_state_has_the_time_since_it_changed() -> None:
    state = State()
    assert (state.name, state.sentence(5.0)) == (IDLE, "idle")
    state.change(HELD, "queue a has no room", 10.0)
    state.change(HELD, "queue a has no room for 40 messages", 12.0)
    assert state.sentence(15.0) == "held for 5 s: queue a has no room for 40 messages"
    state.change(MOVING, "", 16.0)
    assert (state.sentence(20.0), state.since) == ("moving", 16.0)


def test_state_keeps_the_first_different_reasons_of_refusals() -> None:
    state = State()
    for number in range(3 * REASONS_MOST):
        state.refuse(f"reason {number // 2}")
    assert state.refused == 3 * REASONS_MOST
    assert state.reasons == [f"reason {number}" for number in range(REASONS_MOST)]
