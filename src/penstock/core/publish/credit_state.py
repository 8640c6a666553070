"""The credit of a sender: its states, for revoked room and for credit that the sender must return, and its counts."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from mypy_extensions import i64

from penstock.flow.states import StateTable


class CreditState(IntEnum):
    """States of the credit of one link."""

    IN_USE = 0
    """No request to the sender is open, and the sender has sent since its room was last revoked, if ever."""
    DRAINING = 1
    """Some of the room was revoked. The sender must return the credit that it will not use."""
    IDLE = 2
    """All room was revoked, and the sender has sent nothing since."""
    IDLE_DRAINING = 3
    """As `IDLE`, and the sender must return the credit."""
    CLOSED = 4
    """The link has ended, and has no room."""


CREDIT_STATES: Final = StateTable(
    "credit of a sender",
    CreditState.IN_USE,
    {
        CreditState.IN_USE: {
            CreditState.DRAINING: "room of the unused part taken back",
            CreditState.IDLE: "all its room taken back, and the sender answers no drain",
            CreditState.IDLE_DRAINING: "all its room taken back",
            CreditState.CLOSED: "link ended",
        },
        CreditState.DRAINING: {
            CreditState.IN_USE: "drained, or granted more",
            CreditState.IDLE_DRAINING: "all its room taken back",
            CreditState.CLOSED: "link ended",
        },
        CreditState.IDLE: {
            CreditState.IN_USE: "message came, or a part taken back and the sender answers no drain",
            CreditState.DRAINING: "room of the unused part taken back",
            CreditState.IDLE_DRAINING: "all its room taken back again",
            CreditState.CLOSED: "link ended",
        },
        CreditState.IDLE_DRAINING: {
            CreditState.IN_USE: "message came",
            CreditState.DRAINING: "room of the unused part taken back",
            CreditState.IDLE: "drained, or granted more",
            CreditState.CLOSED: "link ended",
        },
    },
)


def is_idle(state: CreditState) -> bool:
    """Return whether all room was revoked, and the sender has sent nothing since."""
    return state is CreditState.IDLE or state is CreditState.IDLE_DRAINING


def is_draining(state: CreditState) -> bool:
    """Return whether the sender must return unused credit, until it does or gets more."""
    return state is CreditState.DRAINING or state is CreditState.IDLE_DRAINING


def after_drain(state: CreditState) -> CreditState:
    """Return the state after the sender has answered a drain, or gets more credit; unchanged without a drain."""
    if state is CreditState.DRAINING:
        return CREDIT_STATES.move(state, CreditState.IN_USE)
    return CREDIT_STATES.move(state, CreditState.IDLE) if state is CreditState.IDLE_DRAINING else state


def after_use(state: CreditState) -> CreditState:
    """Return the state after a message has arrived; a message ends idleness, and a drain of idle credit."""
    return CREDIT_STATES.move(state, CreditState.IN_USE) if is_idle(state) else state


def without_room(state: CreditState, whole: bool, drains: bool) -> CreditState:
    """Return the state after room was revoked: the `whole` room or a part; `drains`: the sender must drain."""
    if whole:
        after = CreditState.IDLE_DRAINING if drains else CreditState.IDLE
    else:
        after = CreditState.DRAINING if drains else CreditState.IN_USE
    return state if after is state else CREDIT_STATES.move(state, after)


class CreditCounts:
    """Messages of one link's credit since its beginning, for display."""

    __slots__ = ("granted", "drained", "moved", "idle")

    def __init__(self) -> None:
        self.granted: i64 = 0
        self.drained: i64 = 0
        """Granted messages that will not arrive, because the sender returned the credit."""
        self.moved: i64 = 0
        """Granted messages that were set aside, because others waited for their room."""
        self.idle: i64 = 0
        """Number of times that the sender was idle while others waited; a sender that can answer is asked to drain."""

    def as_dict(self, unused: i64) -> dict[str, object]:
        """Return the counts as plain data; `unused` is the present credit."""
        return {
            "granted": int(self.granted),
            "used": int(self.granted - self.drained - unused),
            "drained": int(self.drained),
            "moved": int(self.moved),
            "idle": int(self.idle),
        }
