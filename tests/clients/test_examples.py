"""The programs in examples/clients run as they stand: 40 orders through a queue that closes its gate above 10.

Those of pika, aio-pika and Dramatiq are on pages, whose commands run them (tests/clients/test_how_to.py).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.flow.token_bucket import smooth
from tests.support.brokers import GRACE, PATIENCE, BrokerProcess, eventually, penstock_command, serving
from tests.support.pika_helpers import declare

pytestmark = pytest.mark.clients

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "clients"
COUNT = 40


def environment(broker: BrokerProcess) -> dict[str, str]:
    return {**os.environ, "PENSTOCK_URL": broker.url, "PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for all examples, each of which has a queue of its own."""
    with serving(tmp_path_factory.mktemp("examples")) as process:
        yield process
        assert "Traceback" not in process.log()


@contextmanager
def beside(broker: BrokerProcess, log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in the folder of the examples beside the context; what it prints goes to a file."""
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=FOLDER, env=environment(broker), stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def run(broker: BrokerProcess, *words: str) -> str:
    """Run a program of the examples to its end; return its last line."""
    done = subprocess.run(
        [sys.executable, *words], cwd=FOLDER, env=environment(broker), capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return (done.stdout.splitlines() or [""])[-1]


def blocked(broker: BrokerProcess, queue: str) -> bool:
    printed = penstock_command("why", queue, "--url", broker.url).stdout  # The queue may not be there yet.
    return "is blocked" in printed or "has no credit" in printed


def test_celerys_example_waits_for_its_worker(broker: BrokerProcess, tmp_path: Path) -> None:
    worker = ("-m", "celery", "-A", "celery_orders", "worker", "--pool", "solo", "--without-gossip", "--without-mingle")
    with beside(broker, tmp_path / "caller", "celery_orders.py", str(COUNT)) as caller:
        eventually(lambda: blocked(broker, "celery-orders"), "the caller waits")
        with beside(broker, tmp_path / "worker", *worker):
            eventually(lambda: f"order {COUNT} is done" in (tmp_path / "worker").read_text(), "all tasks have run")
        assert caller.wait(GRACE) == 0
    assert (tmp_path / "caller").read_text() == f"{COUNT} orders are confirmed\n"


def test_protons_example_sends_and_receives_at_the_same_rate(broker: BrokerProcess, tmp_path: Path) -> None:
    pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")
    declare(broker, "amqp10-orders", capacity_messages=20, stop_messages=10, resume_messages=5)
    with beside(broker, tmp_path / "log", "amqp10_orders.py", "send", str(COUNT)) as sender:
        eventually(lambda: blocked(broker, "amqp10-orders"), "the sender has no credit")
        assert run(broker, "amqp10_orders.py", "receive", str(COUNT)) == f"{COUNT} orders are done"
        assert sender.wait(GRACE) == 0
    assert (tmp_path / "log").read_text() == f"{COUNT} orders are accepted\n"


def test_example_without_buffering_gives_the_busy_consumer_one_order(broker: BrokerProcess) -> None:
    last = run(broker, "no_buffering.py", str(COUNT))
    assert last == f"the busy consumer has 1 order, and the other one had {COUNT - 1}"


@pytest.mark.parametrize(("program", "outcome"), [("consumer_rate.py", "done"), ("producer_rate.py", "confirmed")])
def test_example_of_a_rate_takes_its_time(broker: BrokerProcess, program: str, outcome: str) -> None:
    said = re.fullmatch(rf"15 orders are {outcome} in ([0-9.]+) s", run(broker, program, "15", "20"))
    per_s, burst = smooth(20)
    assert float(said[1]) + 0.01 >= (15 - burst) / per_s, "as printed, with two digits"


PROGRAMS = sorted(
    path.name for path in FOLDER.glob("*.py") if "sys.argv" in path.read_text() or "argparse" in path.read_text()
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_example_without_arguments_prints_its_usage(program: str) -> None:
    words = [sys.executable, "-W", "ignore", program]
    done = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2, "wrong usage"
    assert done.stderr.startswith(f"usage: {program} "), done.stderr
    assert "the following arguments are required: " in done.stderr
