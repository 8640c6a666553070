"""States of a sender's credit: revoked room, drains, and arriving messages."""

from __future__ import annotations

import pytest

from penstock.core.publish.credit_state import (
    CREDIT_STATES,
    CreditState,
    after_drain,
    after_use,
    is_draining,
    is_idle,
    without_room,
)

OPEN = [state for state in CreditState if state is not CreditState.CLOSED]


@pytest.mark.parametrize("state", OPEN)
@pytest.mark.parametrize("whole", [False, True])
def test_credit_whose_room_was_taken_back_is_idle_if_none_is_left_and_drains(state: CreditState, whole: bool) -> None:
    after = without_room(state, whole, True)
    assert (is_idle(after), is_draining(after)) == (whole, True)


@pytest.mark.parametrize("state", [CreditState.IN_USE, CreditState.IDLE])
@pytest.mark.parametrize("whole", [False, True])
def test_credit_of_a_sender_that_answers_no_drain_does_not_drain(state: CreditState, whole: bool) -> None:
    after = without_room(state, whole, False)
    assert (is_idle(after), is_draining(after)) == (whole, False)


@pytest.mark.parametrize("state", CreditState)
def test_answered_drain_ends_and_idleness_stays(state: CreditState) -> None:
    after = after_drain(state)
    assert (is_idle(after), is_draining(after)) == (is_idle(state), False)


@pytest.mark.parametrize("state", OPEN)
def test_message_ends_idleness_and_only_the_drain_of_idle_credit(state: CreditState) -> None:
    after = after_use(state)
    assert (is_idle(after), is_draining(after)) == (False, state is CreditState.DRAINING)


@pytest.mark.parametrize("state", OPEN)
def test_credit_closes_from_every_state_and_stays_closed(state: CreditState) -> None:
    closed = CREDIT_STATES.move(state, CreditState.CLOSED)
    assert (after_drain(closed), after_use(closed)) == (closed, closed)
