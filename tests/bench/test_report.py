"""The report that compares single measurements."""

import pytest

from bench.report import Measurement, Row, table
from bench.scenarios import SCENARIOS, Scenario

ACKS = Scenario("acks", "acks", ("--ack", "100"), compiled=20, interpreted=3)
LATENCY = Scenario("latency", "latency", ("--rate", "10000"), latency=True)
STEADY = Scenario("steady", "steady", ("--confirms", "5000"), confirmation=True)
CORE = Scenario("core", "core", (), rate=1_000_000, one_core=True)


def measured(
    scenario: str, broker: str, microseconds: float, rate: float = 1.0, p99: float = 100.0, confirm: float | None = None
) -> Measurement:
    return Measurement(scenario, broker, 0, microseconds, rate, 0.1, 0.0, 50.0, p99, 200.0, confirm, confirm, 64.0)


def test_minimum_over_the_repetitions_counts_for_every_broker_alike() -> None:
    found = [measured("acks", "compiled", us) for us in (0.9, 0.5, 0.7)]
    found += [measured("acks", "rabbitmq", us) for us in (30.0, 12.0, 15.0)]
    row = Row.of(ACKS, found)
    assert row.ratio("compiled") == pytest.approx(24.0)
    assert ("compiled 20x", True) in row.goals


def test_ratio_below_the_goal_is_not_met() -> None:
    found = [
        measured("acks", "compiled", 0.7),
        measured("acks", "interpreted", 6.0),
        measured("acks", "rabbitmq", 13.5),
    ]
    assert Row.of(ACKS, found).goals == (("compiled 20x", False), ("interpreted 3x", False))


def test_ratio_without_the_peer_is_neither_met_nor_missed() -> None:
    row = Row.of(ACKS, [measured("acks", "compiled", 0.5)])
    assert row.goals == (("compiled 20x", None), ("interpreted 3x", None))
    assert "not measured" in table([row])


def test_latency_is_compared_with_the_peers_of_the_same_run() -> None:
    found = [measured("latency", "compiled", 30.0, p99=700.0), measured("latency", "rabbitmq", 95.0, p99=5_400.0)]
    assert Row.of(LATENCY, found).goals == (("p99 compiled <= RabbitMQ's", True),)
    worse = [*found[1:], measured("latency", "compiled", 30.0, p99=5_401.0)]
    assert Row.of(LATENCY, worse).goals == (("p99 compiled <= RabbitMQ's", False),)


def test_confirmations_are_compared_with_the_peers_of_the_same_run() -> None:
    found = [measured("steady", "compiled", 30.0, confirm=900.0), measured("steady", "rabbitmq", 95.0, confirm=5_400.0)]
    row = Row.of(STEADY, found)
    assert row.goals == (("p99 of confirmations compiled <= RabbitMQ's", True),)
    assert "5,400" in table([row])
    assert "64" in table([row])
    worse = [*found[1:], measured("steady", "compiled", 30.0, confirm=5_401.0)]
    assert Row.of(STEADY, worse).goals == (("p99 of confirmations compiled <= RabbitMQ's", False),)
    assert Row.of(STEADY, worse[:1]).goals == (("p99 of confirmations compiled <= RabbitMQ's", None),)


def test_rate_of_one_core_needs_no_peer() -> None:
    below, at = (measured("core", "compiled", 0.5, rate=rate) for rate in (999_999.0, 1_000_000.0))
    assert Row.of(CORE, [below]).goals == (("1,000,000/s compiled", False),)
    assert Row.of(CORE, [at]).goals == (("1,000,000/s compiled", True),)


def test_table_names_every_scenario_and_every_missed_goal() -> None:
    found = [measured(s.key, name, 5.0) for s in SCENARIOS for name in ("compiled", "interpreted", "rabbitmq")]
    text = table([Row.of(scenario, found) for scenario in SCENARIOS])
    for scenario in SCENARIOS:
        assert scenario.title in text
    assert "compiled 20x: NOT MET" in text
