"""States of a session, from begin to the end of both sides (section 2.5.5)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from penstock.flow.states import StateTable

SESSION_MAPPED: Final = 0
"""The number of `SessionState.MAPPED`, for the hot path."""


class SessionState(IntEnum):
    """State of a session. Frames of a session that is not mapped are ignored, except its end."""

    MAPPED = SESSION_MAPPED
    END_SENT = 1
    """Our end was sent with an error, and the peer's is awaited."""
    END_RECEIVED = 2
    """The peer's end is carried out; ours follows the teardown."""
    ENDED = 3
    """The session is no longer among those of its connection."""


SESSION_STATES: Final = StateTable(
    "session of AMQP 1.0",
    SessionState.MAPPED,
    {
        SessionState.MAPPED: {
            SessionState.END_SENT: "error of the session",
            SessionState.END_RECEIVED: "peer's end",
            SessionState.ENDED: "teardown of the connection",
        },
        SessionState.END_SENT: {SessionState.ENDED: "peer's end, or teardown of the connection"},
        SessionState.END_RECEIVED: {SessionState.ENDED: "end sent, or teardown of the connection"},
    },
)
