"""Errors for messages that cannot be sent."""

from __future__ import annotations

import pickle

import pytest

from penstock.client.engine.outcomes import CREDIT, ENFORCED, RATE, REASONS, Amounts, Blocked, amounts_of


def test_blocked_is_false_and_has_the_known_figures() -> None:
    blocked = Blocked(CREDIT, "no credit", 1.5, "orders", Amounts(2, 486), Amounts(1), None, Amounts(2, None))
    assert not blocked
    assert str(blocked) == "no credit; queue orders: depth 2 messages, 486 bytes, stop 1 message, capacity 2 messages"
    assert blocked.thresholds == (Amounts(1), None, Amounts(2))
    assert str(Blocked(CREDIT, "no credit", 0.0)) == "no credit"
    assert str(Blocked(CREDIT, "no credit", 0.0, "orders")) == "no credit; queue orders: depth unknown"


def test_blocked_goes_to_another_process() -> None:
    blocked = Blocked(CREDIT, "no credit", 1.5, "orders", Amounts(2, 486), retry_after=0.5)
    again = pickle.loads(pickle.dumps(blocked))
    assert (str(again), again.cause, again.since, again.retry_after) == (str(blocked), CREDIT, 1.5, 0.5)


@pytest.mark.parametrize(
    ("row", "amounts"),
    [
        ({"messages": 2, "bytes": None}, Amounts(2)),
        ({"bytes": 5}, Amounts(None, 5)),
        ({"messages": "2"}, Amounts()),
        (None, Amounts()),
    ],
)
def test_amounts_are_read_from_an_answer(row: object, amounts: Amounts) -> None:
    assert amounts_of(row) == amounts
    assert hash(amounts_of(row)) == hash(amounts)


def test_rate_of_the_client_is_no_flow_control_of_the_broker() -> None:
    assert RATE not in ENFORCED
    assert set(REASONS) >= ENFORCED
