"""States of a session of a connection; tests of the protocols have its ends (test_channel.py, test_session.py)."""

from __future__ import annotations

import pytest

from penstock.connections.client_session import SESSION_STATES, SessionState
from penstock.errors import InternalError


def test_session_that_has_ended_stays_ended() -> None:
    for state in SessionState:
        with pytest.raises(InternalError):
            SESSION_STATES.move(SessionState.ENDED, state)


def test_session_may_end_from_every_state() -> None:
    for state in SessionState:
        if state is not SessionState.ENDED:
            assert SESSION_STATES.move(state, SessionState.ENDED) is SessionState.ENDED


def test_session_is_answered_only_after_the_clients_close() -> None:
    before = [
        state for state in SessionState if SessionState.CLOSE_RECEIVED in SESSION_STATES.transitions.get(state, {})
    ]
    assert before == [SessionState.OPEN]
