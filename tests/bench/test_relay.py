"""The bare relay: it passes what the load generator sends, and is measured at low rates alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench import loadgen, relay
from bench.brokers import Broker, BrokerUnavailable
from bench.report import Measurement, Row, table
from bench.run import Effort, measure, takes_part
from bench.scenarios import SCENARIOS, STORES, Scenario

SHORT = ("--warm-up", "0.1", "--seconds", "0.3")
LATENCY = Scenario("latency", "latency", ("--rate", "10000"), beside_relay=1.5)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        loadgen.build()
        found = relay.start(relay.RELAY, tmp_path_factory.mktemp("relay"))
    except (loadgen.LoadError, BrokerUnavailable) as reason:
        pytest.skip(str(reason))
    yield found
    found.stop()


@pytest.mark.parametrize(
    "options",
    [
        ("--ack", "1", "--rate", "2000"),
        ("--ack", "100"),
        ("--ack", "0", "--pairs", "3"),
        ("--confirms", "100", "--durable", "--delivery-mode", "2", "--sizes", "1024"),
        ("--sizes", "300000", "--batch", "4", "--in-flight", "40", "--ack", "7"),
    ],
    ids=" ".join,
)
def test_relay_passes_messages_once_and_in_order(running: Broker, options: tuple[str, ...]) -> None:
    # The generator itself ends with an error when a sequence number is missing, repeated or out of turn.
    result = loadgen.run(running.port, *SHORT, *options, pids=running.pids())
    assert result["published"] == result["consumed"] > 0
    assert result["nacked"] == result["returned"] == 0


def test_relay_ends_with_a_sentence_at_an_exchange(tmp_path: Path, running: Broker) -> None:
    other = relay.start(relay.RELAY, tmp_path)
    with ExitStack() as stack:
        stack.callback(other.stop)
        with pytest.raises(loadgen.LoadError):
            loadgen.run(other.port, *SHORT, "--exchange", "fanout", "--queues", "2")
        assert other.process.wait() == 1


def test_relay_takes_part_at_low_rates_alone() -> None:
    beside = [scenario.key for scenario in (*SCENARIOS, *STORES) if takes_part(relay.RELAY, scenario)]
    assert beside == ["latency", "steady", "steady"]
    assert takes_part("compiled", SCENARIOS[0])


def test_relay_is_measured_as_a_broker(running: Broker) -> None:
    scenario = next(each for each in SCENARIOS if each.key == "latency")
    found = measure(running, scenario, 0, Effort(1, 0.1, 0.3), loadgen.AMQP091)
    assert (found.broker, found.scenario) == (relay.RELAY, "latency")
    assert found.rate > 0


@pytest.mark.parametrize(("us", "is_met"), [(30.0, True), (30.1, False)])
def test_ratio_to_the_relay_is_judged(us: float, is_met: bool) -> None:
    found = [Measurement("latency", name, 0, each, 1.0, 0.1, 0.0, 50.0, 100.0, 200.0)
             for name, each in (("compiled", us), ("relay", 20.0))]  # fmt: skip
    row = Row.of(LATENCY, found)
    assert row.goals == (("compiled <= 1.5x the bare relay", is_met),)
    assert row.as_data()["beside_relay"] == pytest.approx(us / 20.0)
    assert "beside a bare relay in C" in table([row])


def test_ratio_without_the_relay_is_not_measured() -> None:
    row = Row.of(LATENCY, [Measurement("latency", "compiled", 0, 30.0, 1.0, 0.1, 0.0, 50.0, 100.0, 200.0)])
    assert row.goals == (("compiled <= 1.5x the bare relay", None),)
    assert "bare relay in C" not in table([row])


def test_relay_without_a_compiler_is_left_out_with_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrokerUnavailable, match="The bare relay needs a C compiler"):
        relay.build(tmp_path)
