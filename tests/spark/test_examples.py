"""The examples with Spark run to their end as their first lines say.

In the session of these tests, and in the long run as programs in a fresh folder.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.profiles import thorough
from tests.spark.conftest import RunningBroker, running
from tests.support.spark_programs import ROOT, run, run_in_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = ROOT / "examples"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "fresh"
    folder.mkdir()
    return folder


def output_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a program has printed, which must have ended well."""
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def bills_of(program: Callable[[str], str], broker: RunningBroker) -> None:
    """Run the example twice on its queues, by a function that runs it on a broker and returns its output."""
    for queue in ("spark-orders", "bills"):
        broker.declare(name=queue)
    for run_of, orders in enumerate((range(10), range(10, 13))):
        broker.publish("spark-orders", [b"order %d" % number for number in orders])
        assert program(broker.address) == f"{len(orders)} orders billed\n", run_of
    assert sorted(broker.drain("bills", 13)) == sorted(b"ORDER %d" % number for number in range(13))


def parquet_of(program: Callable[[str], str], broker: RunningBroker, folder: Path) -> None:
    """Run the job once on its queue, by a function that runs it on a broker and returns its output."""
    broker.declare(name="orders")
    broker.publish("orders", [b'{"id": 1}', b'{"id": 2}'])
    rows = [line.split("|") for line in program(broker.address).splitlines() if line.startswith("|")]
    assert [cells[5].strip() for cells in rows] == ["value", '{"id": 1}', '{"id": 2}']
    assert broker.depth("orders") == 0
    assert {path.name for path in folder.iterdir()} == {"parquet", "checkpoint", "spool"}


@pytest.mark.slow
def test_orders_are_billed_once_over_two_runs(
    spark: SparkSession, second_broker: RunningBroker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKPOINT", str(folder / "checkpoint"))

    def program(address: str) -> str:
        monkeypatch.setenv("PENSTOCK_SERVERS", address)
        return run_in_session(EXAMPLES / "clients" / "spark_orders.py")

    bills_of(program, second_broker)


@pytest.mark.long
def test_program_of_orders_bills_each_once_over_two_processes(folder: Path) -> None:
    def program(address: str) -> str:
        return output_of(run(folder, str(EXAMPLES / "clients" / "spark_orders.py"), PENSTOCK_SERVERS=address))

    with running() as broker:
        bills_of(program, broker)


@pytest.mark.slow
def test_job_of_rabbitmq_to_parquet_shows_the_messages_that_it_has_written(
    spark: SparkSession, second_broker: RunningBroker, folder: Path
) -> None:
    def program(address: str) -> str:
        words = ["--servers", address, "--queue", "orders", "--folder", str(folder), "--once"]
        return run_in_session(EXAMPLES / "rabbitmq_to_parquet" / "job.py", *words)

    parquet_of(program, second_broker, folder)


@pytest.mark.long
def test_job_of_rabbitmq_to_parquet_is_a_program_that_ends(folder: Path) -> None:
    def program(address: str) -> str:
        words = ["--servers", address, "--queue", "orders", "--folder", "out", "--once"]
        return output_of(run(folder, str(EXAMPLES / "rabbitmq_to_parquet" / "job.py"), *words))

    with running() as broker:
        parquet_of(program, broker, folder / "out")


@pytest.mark.skipif(not thorough(), reason="state costs half a minute: with --hypothesis-profile=nightly")
def test_visits_runs_once_as_its_page_says(folder: Path) -> None:
    program = str(EXAMPLES / "visits" / "visits.py")
    with running() as broker:
        for queue in ("clicks", "purchases", "sessions", "conversions"):
            broker.declare(name=queue)
        broker.publish("clicks", [b'{"user": "ann", "page": "/", "at": "2026-05-01T12:00:00Z"}'])
        broker.publish("purchases", [b'{"user": "ann", "amount": 25, "at": "2026-05-01T12:10:00Z"}'])
        done = run(folder, program, "--servers", broker.address, "--once")
        assert output_of(done) == "sessions: 1 messages read\nconversions: 2 messages read\n"
        (conversion,) = broker.drain("conversions", 1)
        assert (broker.depth("clicks"), broker.depth("purchases"), broker.depth("sessions")) == (0, 0, 0)
    assert json.loads(conversion) | {"at": ""} == {"user": "ann", "page": "/", "amount": 25, "at": ""}
