"""States of a link endpoint, from attach to detach (section 2.6)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from penstock.flow.states import StateTable

LINK_ATTACHED: Final = 0
"""The number of `LinkState.ATTACHED`, for the hot path."""


class LinkState(IntEnum):
    """State of a link. Frames of a link that is not attached are ignored, except its detach."""

    ATTACHED = LINK_ATTACHED
    DETACH_SENT = 1
    """Our detach was sent, and the peer's is awaited."""
    DETACHED = 2
    """The link is no longer among those of its session."""


LINK_STATES: Final = StateTable(
    "link of AMQP 1.0",
    LinkState.ATTACHED,
    {
        LinkState.ATTACHED: {
            LinkState.DETACH_SENT: "error of the link",
            LinkState.DETACHED: "peer's detach, or end of its session",
        },
        LinkState.DETACH_SENT: {LinkState.DETACHED: "peer's detach, or end of its session"},
    },
)
