"""`penstock flow plan` on Spark's executors: the same outcomes as in this process, and a command to paste."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from pyspark import cloudpickle

from penstock.cli import main
from penstock_simulation import spark_runner
from penstock_simulation.arrivals import Second
from penstock_simulation.candidate import Candidate
from penstock_simulation.runner import run_trials
from penstock_simulation.workload import Source, Worker, Workload

pytestmark = pytest.mark.spark


def test_executors_simulate_as_one_process(spark) -> None:
    workload = Workload((Source("poisson", 100, (300.0,)),), (Worker("exponential", (250.0,)),), 2.0)
    candidates = [Candidate(capacity_messages=capacity) for capacity in (10, 20, 50)]
    told: list[tuple[int, int]] = []
    found = spark_runner.run_trials(spark, workload, candidates, lambda done, of: told.append((done, of)))
    assert found == run_trials(workload, candidates, lambda done, of: None, cores=1)
    assert all(of == 3 for _, of in told)


def test_tasks_do_not_carry_the_workload_which_is_broadcast(spark) -> None:
    sizes = []
    for seconds in (10, 20_000):
        second = Source("recorded", seconds=tuple(Second(float(at), 3, ((512, 3),)) for at in range(seconds)))
        given = (Workload((second,), (Worker("exponential", (250.0,)),), float(seconds)), (Candidate(),))
        assert len(cloudpickle.dumps(given)) > 10 * seconds
        sizes.append(len(cloudpickle.dumps(spark_runner.outcomes_of(spark.sparkContext.broadcast(given)))))
    spark.sparkContext._pickled_broadcast_vars.clear()  # No job takes them.
    assert max(sizes) - min(sizes) < 16, "the number of the broadcast"


def test_plan_recommends_settings_and_reports_the_nearest_goal(spark) -> None:
    words = ["plan", "--arrivals", "poisson:300", "--services", "exponential:250", "--seconds", "2s", "--json"]
    words += ["--capacity-messages", "20,1000", "--window", "100", "--prefetch", "10"]
    met = CliRunner().invoke(main, [*words, "--goal", "blocked=0,refused=0"])
    assert met.exit_code == 0, met.output
    assert json.loads(met.stdout)["choice"]["settings"]["capacity_messages"] == 1000
    missed = CliRunner().invoke(main, [*words[:-4], "--window", "100", "--goal", "wait_p99<1us"])
    assert missed.exit_code == 1
    assert "the unit 'us'; the unit of wait_p99 is s or ms or m" in missed.output
