"""The examples with Spark run as their first lines say: as programs, in a fresh folder, to their end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.profiles import thorough
from tests.spark.conftest import running
from tests.support.spark_programs import ROOT, run

pytestmark = pytest.mark.spark

EXAMPLES = ROOT / "examples"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "fresh"
    folder.mkdir()
    return folder


def test_orders_are_billed_once_over_two_runs(folder: Path) -> None:
    program = str(EXAMPLES / "clients" / "spark_orders.py")
    with running() as broker:
        for queue in ("spark-orders", "bills"):
            broker.declare(name=queue)
        for run_of, orders in enumerate((range(10), range(10, 13))):
            broker.publish("spark-orders", [b"order %d" % number for number in orders])
            done = run(folder, program, PENSTOCK_SERVERS=broker.address)
            assert done.returncode == 0, done.stderr[-4000:]
            assert done.stdout == f"{len(orders)} orders billed\n", run_of
        assert sorted(broker.drain("bills", 13)) == sorted(b"ORDER %d" % number for number in range(13))


def test_job_of_rabbitmq_to_parquet_shows_the_messages_that_it_has_written(folder: Path) -> None:
    program = str(EXAMPLES / "rabbitmq_to_parquet" / "job.py")
    with running() as broker:
        broker.declare(name="orders")
        broker.publish("orders", [b'{"id": 1}', b'{"id": 2}'])
        done = run(folder, program, "--servers", broker.address, "--queue", "orders", "--folder", "out", "--once")
        assert done.returncode == 0, done.stderr[-4000:]
        rows = [line.split("|") for line in done.stdout.splitlines() if line.startswith("|")]
        assert [cells[5].strip() for cells in rows] == ["value", '{"id": 1}', '{"id": 2}']
        assert broker.depth("orders") == 0
    assert {path.name for path in (folder / "out").iterdir()} == {"parquet", "checkpoint", "spool"}


@pytest.mark.skipif(not thorough(), reason="state costs half a minute: with --hypothesis-profile=nightly")
def test_visits_runs_once_as_its_page_says(folder: Path) -> None:
    program = str(EXAMPLES / "visits" / "visits.py")
    with running() as broker:
        for queue in ("clicks", "purchases", "sessions", "conversions"):
            broker.declare(name=queue)
        broker.publish("clicks", [b'{"user": "ann", "page": "/", "at": "2026-05-01T12:00:00Z"}'])
        broker.publish("purchases", [b'{"user": "ann", "amount": 25, "at": "2026-05-01T12:10:00Z"}'])
        done = run(folder, program, "--servers", broker.address, "--once")
        assert done.returncode == 0, done.stderr[-4000:]
        assert done.stdout == "sessions: 1 messages read\nconversions: 2 messages read\n"
        (conversion,) = broker.drain("conversions", 1)
        assert (broker.depth("clicks"), broker.depth("purchases"), broker.depth("sessions")) == (0, 0, 0)
    assert json.loads(conversion) | {"at": ""} == {"user": "ann", "page": "/", "amount": 25, "at": ""}
