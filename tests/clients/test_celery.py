"""Celery: workers as they are started every day, with gossip, mingle and heartbeat, on a broker of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import PATIENCE, BrokerProcess, eventually

pytestmark = pytest.mark.clients

ROOT = Path(__file__).resolve().parents[2]
TASKS = 200

CALLER = """
import json, sys
from tests.clients.celery_app import app, square
results = [square.delay(number) for number in range({tasks})]
values = [result.get(timeout=300) for result in results]
inspect = app.control.inspect(timeout=60, limit={workers})
answers = {{"values": values, "ping": inspect.ping(), "queues": inspect.active_queues()}}
app.close()
print(json.dumps(answers))
"""

DELAYED = """
import datetime, json, time
from tests.clients.celery_app import app, second_try, square
begun, eta = time.monotonic(), datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=4.5)
results = [square.apply_async((3,), countdown=3), square.apply_async((4,), eta=eta), second_try.delay(1)]
far = square.apply_async((5,), countdown=100_000_000)
answers = {"values": [], "after_s": []}
for result in results:
    answers["values"].append(result.get(timeout=300))
    answers["after_s"].append(time.monotonic() - begun)
answers["far"] = far.state
app.close()
print(json.dumps(answers))
"""
LEVELS = 28


@contextmanager
def worker(name: str, folder: Path, environment: dict[str, str]) -> Iterator[Path]:
    """Run a worker until the context ends, then tell it to finish; yields its log."""
    log = folder / f"{name}.log"
    words = ["-m", "celery", "-A", "tests.clients.celery_app", "worker", "-n", f"{name}@here", "-c", "2", "-l", "INFO"]
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            eventually(lambda: "ready." in log.read_text(), f"worker {name} is ready", 120)
            yield log
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0, log.read_text()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def called(script: str, environment: dict[str, str]) -> dict[str, Any]:
    """Run a script that calls tasks, and return the answers that it prints."""
    caller = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert caller.returncode == 0, caller.stderr
    found: dict[str, Any] = json.loads(caller.stdout)
    return found


@pytest.mark.slow
def test_celery_workers_run_200_tasks_once_with_late_acknowledgement(own_broker: BrokerProcess, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    environment = os.environ | {"BROKER_URL": own_broker.url, "RUNS": str(runs), "PYTHONWARNINGS": "ignore"}
    with worker("first", tmp_path, environment) as first, worker("second", tmp_path, environment) as second:
        answers = called(CALLER.format(tasks=TASKS, workers=2), environment)
        assert answers["values"] == [number * number for number in range(TASKS)]
        assert set(answers["ping"]) == {"first@here", "second@here"}
        assert [queue["name"] for queue in answers["queues"]["first@here"]] == ["celery"]
        assert "sync with" in second.read_text() or "mingle: sync" in second.read_text()
        eventually(lambda: own_broker.depth("celery") == 0, "every task is acknowledged")
    assert sorted(int(line) for line in runs.read_text().split()) == list(range(TASKS))
    logs = first.read_text() + second.read_text()
    assert "missed heartbeat" not in logs
    assert "Connection to broker lost" not in logs
    assert not own_broker.logged("closed by the broker")


@pytest.mark.slow
def test_quorum_queues_have_countdown_eta_and_retries(own_broker: BrokerProcess, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    environment = os.environ | {
        "BROKER_URL": own_broker.url,
        "RUNS": str(runs),
        "PYTHONWARNINGS": "ignore",
        "QUORUM": "1",
    }
    with worker("quorum", tmp_path, environment) as log:
        answers = called(DELAYED, environment)
        assert answers["values"] == [9, 16, 1]
        for after, least in zip(answers["after_s"], (3, 4, 1), strict=True):  # Whole seconds, by int() of Celery.
            assert after >= least
        assert answers["far"] == "PENDING"
        levels = [own_broker.queue(f"celery_delayed_{level}") for level in range(LEVELS)]
        assert [level for level, found in enumerate(levels) if found["dead_lettered"]] == [0, 1, 2]
        far = [found["queue"] for found in levels if found["depth"]["messages"]]
        assert far == ["celery_delayed_26"], "three years wait at the highest level that they need"
        logged = log.read_text()
    assert sorted(runs.read_text().split()) == ["3", "4"]
    assert "delayed delivery" not in logged
