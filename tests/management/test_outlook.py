"""The outlook of alarms: what they are about, and when they hurt at a steady rate."""

from __future__ import annotations

import pytest

from penstock.flow.gate import Gate
from penstock.flow.series import MINUTE, SLOT_S
from penstock.management.outlook import Trend, Trends, outlook_of


def gate(kind: str, name: str) -> Gate:
    return Gate(kind, name, [])


@pytest.mark.parametrize(
    ("kind", "name", "noun", "object_"),
    [
        ("queue", "orders", "queue", "orders"),
        ("vhost", "shop", "vhost", "shop"),
        ("address", "logs", "exchange", "logs"),
        ("operator", "queue a b", "queue", "a b"),
        ("operator", "address logs", "exchange", "logs"),
        ("operator", "user eve", "user", "eve"),
        ("memory", "broker", "broker", ""),
    ],
)
def test_closed_gate_names_its_object_and_hurts_now(kind: str, name: str, noun: str, object_: str) -> None:
    outlook = outlook_of(gate(kind, name))
    assert (outlook.noun, outlook.name, outlook.hurts_in_s) == (noun, object_, 0.0)


def test_trend_forecasts_after_a_minute_of_a_steady_rate() -> None:
    trend = Trend()
    for second in range(int(MINUTE * SLOT_S)):
        trend.record(20 * second, float(second))
        assert trend.reaches_in_s(1_000) is None
    trend.record(20 * int(MINUTE * SLOT_S), MINUTE * SLOT_S)
    assert trend.reaches_in_s(1_000) == 50.0
    assert trend.reaches_in_s(-1) == 0.0


def test_trend_that_falls_or_paused_has_no_forecast() -> None:
    trend = Trend()
    for slot in range(2 * MINUTE):
        trend.record(-slot, slot * SLOT_S)
    assert trend.reaches_in_s(10) is None
    for slot in range(10 * MINUTE, 11 * MINUTE):
        trend.record(slot, slot * SLOT_S)
    assert trend.reaches_in_s(10) is None, "the minute after the pause is not whole"


def test_trends_forget_what_a_round_has_not_seen() -> None:
    trends = Trends()
    for slot in range(MINUTE + 1):
        trends.begin_round()
        found = trends.reaches_in_s("memory", 10 * slot, 100, slot * SLOT_S)
    assert found == 50.0
    trends.begin_round()
    trends.begin_round()
    assert trends.reaches_in_s("memory", 10 * (MINUTE + 1), 100, (MINUTE + 1) * SLOT_S) is None
