"""`penstock bench` at the command line, against a broker on a real port."""

from __future__ import annotations

import json
import signal
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.support.brokers import PATIENCE, BrokerProcess, penstock_command
from tests.support.commands import refused, run, started

SHORT = ("--for", "0.3", "--warm-up", "0", "--quiet")


def test_throughput_is_a_table_and_a_row_for_each_size(broker: BrokerProcess) -> None:
    lines = run(broker, "bench", "throughput", *SHORT, "--size", "50", "--size", "5000").splitlines()
    assert lines[0].startswith("Penstock ")
    assert lines[1].split()[:2] == ["case", "confirmed/s"]
    assert [line.split(",")[0] for line in lines[2:]] == ["50 B", "5"]


def test_latency_has_json_and_a_plot_and_is_compared_with_itself(broker: BrokerProcess, tmp_path: Path) -> None:
    plot, result = tmp_path / "latency.svg", tmp_path / "a.json"
    result.write_text(run(broker, "bench", "latency", "--rate", "200", *SHORT, "--json", "--plot", str(plot)))
    found = json.loads(result.read_text())
    assert found["bench"] == "latency"
    assert found["broker"]["product"] == "Penstock"
    assert [row["messages"] for row in found["rows"][:2]] == [60, 60]
    ElementTree.fromstring(plot.read_text())
    done = penstock_command("bench", "--compare", str(result), str(result))
    assert done.returncode == 0
    assert "+0.0%" in done.stdout


def test_soak_has_the_drift_of_a_run(broker: BrokerProcess) -> None:
    answer = json.loads(run(broker, "bench", "soak", "--rate", "100", *SHORT, "--json"))
    assert [row["case"] for row in answer["rows"]] == ["first tenth", "last tenth", "drift"]
    assert answer["rows"][2]["missing"] == 0


@pytest.mark.slow
def test_flow_prints_the_scorecard_of_the_experiments_that_are_asked_for(broker: BrokerProcess) -> None:
    out = run(broker, "bench", "flow", "--only", "overshoot", "--quiet")
    assert out.splitlines()[1].split()[:2] == ["case", "goal"]
    assert "0 over, 0 refused, 0 lost" in out
    assert out.splitlines()[2].endswith("met")


@pytest.mark.long
def test_flow_plots_the_depth_of_eight_publishers(broker: BrokerProcess, tmp_path: Path) -> None:
    plot = tmp_path / "flow.svg"
    words = ("bench", "flow", "--only", "equal", "--only", "greedy", "--for", "0.3", "--plot", str(plot), "--json")
    done = penstock_command(*words, "--url", f"amqp://guest:guest@127.0.0.1:{broker.port}/")
    assert not any("course" in row for row in json.loads(done.stdout)["rows"])
    for line in ("8 x 50", "8 x 1000", "1000 among 10"):
        assert f">depth, {line}</text>" in plot.read_text()


def test_queues_of_runs_are_deleted(broker: BrokerProcess) -> None:
    run(broker, "bench", "throughput", *SHORT)
    assert "penstock-bench-" not in run(broker, "list", "queues")


@pytest.mark.slow
def test_interrupted_run_ends_at_once_and_deletes_its_queue(broker: BrokerProcess) -> None:
    with started(broker, "bench", "latency", "--for", "600", "--rate", "100") as process:
        assert "100 B, window 1,000, 100/s" in process.stderr.readline()
        assert "received" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    assert "penstock-bench-" not in run(broker, "list", "queues")


def test_bad_input_is_one_sentence(broker: BrokerProcess, tmp_path: Path) -> None:
    assert (
        refused("bench", "latency", "--url", "amqp://broker.example/")
        == "broker.example is another machine, and a bench loads it fully: --yes-really does it all the same"
    )
    assert "amqp:// or amqps://" in refused("bench", "throughput", "--url", "http://127.0.0.1")
    assert "cannot read" in refused("bench", "--compare", str(tmp_path / "a"), str(tmp_path / "b"))
    assert "needs one of the experiments" in run(broker, "bench", "flow", "--only", "resume", "--plot", "x", code=1)
    assert "no-such-queue" in run(broker, "bench", "throughput", *SHORT, "--queue", "no-such-queue", code=1)
    assert "connect" in refused("bench", "latency", "--url", "amqp://127.0.0.1:1/")


def test_help_lists_the_runs() -> None:
    done = penstock_command("bench")
    assert done.returncode == 0
    for name in ("throughput", "latency", "flow", "survive", "soak"):
        assert f"\n  {name}" in done.stdout
