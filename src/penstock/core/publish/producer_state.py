"""The states of a producer, from its session's beginning until its last held publish is decided."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from penstock.flow.states import StateTable


class ProducerState(IntEnum):
    """States of a producer."""

    OPEN = 0
    """It takes publishes."""
    CLOSING = 1
    """The broker closes its session with an error (`closing`): it takes no publishes, and its held ones stay held."""
    LINGERING = 2
    """Its session closed normally: its held publishes pass in turn, or reach their deadline."""
    CLOSED = 3
    """It is in no gate and holds nothing."""


PRODUCER_STATES: Final = StateTable(
    "producer",
    ProducerState.OPEN,
    {
        ProducerState.OPEN: {
            ProducerState.CLOSING: "publish refused without a confirm",
            ProducerState.LINGERING: "session closed normally, with held publishes",
            ProducerState.CLOSED: "session ended",
        },
        ProducerState.CLOSING: {
            ProducerState.CLOSING: "another publish refused",
            ProducerState.CLOSED: "session ended",
        },
        ProducerState.LINGERING: {ProducerState.CLOSED: "last held publish decided"},
    },
)
