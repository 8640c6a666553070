"""Figures of a node with shards: their goals, the processes that count, and a crowd that comes back."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import penstock
from bench.brokers import COMPILED, INTERPRETED, BrokerUnavailable
from bench.cluster import deaths
from bench.cluster.costs import login_us
from bench.cluster.figures import Figure, table
from bench.cluster.nodes import ALONE, SHARDED, VHOSTS, Client, spent, start
from bench.run import QUICK

FORM = COMPILED if penstock.compiled() else INTERPRETED


@pytest.mark.parametrize(
    ("figure", "line"),
    [
        (
            Figure.ratio("a login", [2.0, 1.5], [1.0], "us", 2.0),
            "a login  1.50 us in a node, 1.00 alone: 1.50 times (<= 2 times: met)",
        ),
        (
            Figure.gain("two", [1000.0, 1500.0], [1000.0], 1.8),
            "two  1,500 messages a second in a node, 1,000 alone: 1.50 times (>= 1.8 times: NOT MET)",
        ),
        (
            Figure.gain("two", [2000.0], [1000.0], None),
            "two  2,000 messages a second in a node, 1,000 alone: 2.00 times",
        ),
        (Figure.time("kill", [20.0, 301.0], 300.0), "kill  worst 301.0 ms, best 20.0 of 2 (<= 300 ms: NOT MET)"),
    ],
)
def test_figure_has_its_value_and_its_goal(figure: Figure, line: str) -> None:
    assert table([figure]) == line


def test_time_of_a_new_process_counts_whole_and_of_an_old_one_in_part() -> None:
    assert spent({1: 2.0, 2: 1.0}, {1: 2.5, 3: 0.25}) == pytest.approx(0.75)


@pytest.mark.slow
def test_login_at_a_node_costs_parent_and_shard(tmp_path: Path) -> None:
    with ExitStack() as stack:
        node = start(SHARDED, FORM, tmp_path, stack)
        alone = start(ALONE, FORM, tmp_path, stack)
        assert len(alone.cpu_s()) == 1
        before = node.cpu_s()
        assert len(before) >= 4  # The parent, the zygote and two shards.
        assert login_us(node, 20) > 0
        after = node.cpu_s()
        worked = [pid for pid in after if after[pid] > before.get(pid, 0.0)]
        assert {node.broker.process.pid, deaths.pid_of(node, "1")} <= set(worked)


@pytest.mark.slow
def test_crowd_of_a_killed_shard_comes_back(tmp_path: Path) -> None:
    (figure,) = deaths.crowd(FORM, tmp_path, QUICK, 30)
    assert figure.title == "p99 of another client while 30 come back, over before"
    assert "all back in" in figure.text


def test_client_of_a_broker_reports_a_refusal(tmp_path: Path) -> None:
    with ExitStack() as stack:
        served = start(SHARDED, FORM, tmp_path, stack)
        with pytest.raises(ConnectionError, match="vhost nowhere not found"):
            Client(served.port, "nowhere")
        for vhost in VHOSTS:
            client = Client(served.port, vhost)
            client.open_channel("q")
            assert client.look("q") > 0
            client.close()


def test_broker_that_does_not_start_is_named_with_its_log(tmp_path: Path) -> None:
    with ExitStack() as stack, pytest.raises(BrokerUnavailable, match=r"printed '', see .*\.log"):
        start(SHARDED, FORM, tmp_path, stack, "no-such-setting = 1\n")


def test_crowd_without_clients_is_refused() -> None:
    words = [sys.executable, "-m", "bench.cluster", "--clients", "0"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "--clients 0: at least 1 is wanted" in done.stderr
