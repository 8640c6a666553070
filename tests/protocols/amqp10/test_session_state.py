"""States of a session: the table has each of them, and permits no way back."""

from __future__ import annotations

import pytest

from penstock.errors import InternalError
from penstock.protocols.amqp10.session_state import SESSION_STATES, SessionState


def test_ended_session_stays_ended() -> None:
    for state in SessionState:
        with pytest.raises(InternalError):
            SESSION_STATES.move(SessionState.ENDED, state)


def test_session_may_end_from_every_other_state() -> None:
    for state in (SessionState.MAPPED, SessionState.END_SENT, SessionState.END_RECEIVED):
        assert SESSION_STATES.move(state, SessionState.ENDED) is SessionState.ENDED
