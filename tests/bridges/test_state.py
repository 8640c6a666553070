"""State of a bridge."""

from __future__ import annotations

from penstock.bridges.state import HELD, IDLE, MOVING, State


def test_state_has_the_time_since_it_changed() -> None:
    state = State()
    assert (state.name, state.sentence(5.0)) == (IDLE, "idle")
    state.change(HELD, "queue a has no room", 10.0)
    state.change(HELD, "queue a has no room for 40 messages", 12.0)
    assert state.sentence(15.0) == "held for 5 s: queue a has no room for 40 messages"
    state.change(MOVING, "", 16.0)
    assert (state.sentence(20.0), state.since) == ("moving", 16.0)
