"""Errors that carry a receipt or a reason of the broker."""

from __future__ import annotations

import pickle

import pytest

from penstock.client.engine.outcomes import (
    CREDIT,
    Amounts,
    Blocked,
    ConfirmTimeout,
    ConnectionLost,
    FlowControlTimeout,
    MessageRefused,
)
from penstock.client.errors import ClientError

BLOCKED = Blocked(CREDIT, "no credit", 3.0, "orders", Amounts(2))
ERRORS = [
    (
        FlowControlTimeout(3.0, BLOCKED),
        "the message was not sent: it waited 3 s for room (no credit; queue orders: depth 2 messages)",
    ),
    (
        ConfirmTimeout(3.0, BLOCKED),
        "the message was sent, and its outcome is unknown after 3 s (no credit; queue orders: depth 2 messages)",
    ),
    (MessageRefused("the queue is full"), "the broker refused the message: the queue is full"),
    (MessageRefused(""), "the broker refused the message: it gave no reason"),
    (ConnectionLost(None, "reset"), "the connection is closed: reset"),
    (ConnectionLost(320, "shutdown"), "the connection is closed: shutdown (320)"),
]


@pytest.mark.parametrize(("error", "text"), ERRORS, ids=lambda value: type(value).__name__)
def test_error_is_a_single_sentence_and_can_be_pickled(error: ClientError, text: str) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error) == text


def test_time_outs_are_two_separate_classes() -> None:
    assert not issubclass(ConfirmTimeout, FlowControlTimeout)
    assert not issubclass(FlowControlTimeout, ConfirmTimeout)
