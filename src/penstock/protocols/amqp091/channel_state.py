"""States of a channel, from channel.open to the end of both sides."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from penstock.flow.states import StateTable

CHANNEL_OPEN: Final = 0
"""The number of `ChannelState.OPEN`, for the hot path."""


class ChannelState(IntEnum):
    """State of a channel. Frames of a channel that is not open are ignored, except those that belong to the close."""

    OPEN = CHANNEL_OPEN
    CLOSE_SENT = 1
    """Our channel.close was sent, and close-ok is awaited."""
    CLOSED_BY_BOTH = 2
    """The client sent channel.close before it read ours: its number may be reused."""
    CLOSE_RECEIVED = 3
    """The client's channel.close is carried out; close-ok follows the teardown."""
    ENDED = 4
    """The channel is no longer among those of its connection."""


CHANNEL_STATES: Final = StateTable(
    "channel",
    ChannelState.OPEN,
    {
        ChannelState.OPEN: {
            ChannelState.CLOSE_SENT: "error of the channel",
            ChannelState.CLOSE_RECEIVED: "client's channel.close",
            ChannelState.ENDED: "teardown of the connection",
        },
        ChannelState.CLOSE_SENT: {
            ChannelState.CLOSED_BY_BOTH: "client's channel.close crosses ours",
            ChannelState.ENDED: "close-ok, or teardown of the connection",
        },
        ChannelState.CLOSED_BY_BOTH: {
            ChannelState.CLOSED_BY_BOTH: "another channel.close",
            ChannelState.ENDED: "close-ok, channel.open with its number, or teardown of the connection",
        },
        ChannelState.CLOSE_RECEIVED: {ChannelState.ENDED: "close-ok sent, or teardown of the connection"},
    },
)
