"""Celery: retries, late acknowledgement, times, chords, events, priorities and remote control."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compat.suites import ROOT
from tests.support.brokers import eventually, some_name

PATIENCE = 60


class Application:
    """The application on a queue of its own, and the workers that it has been given."""

    def __init__(self, url: str, folder: Path, **more: str) -> None:
        self.queue = some_name("celery")
        self.folder = folder
        settings = {"BROKER_URL": url, "QUEUE": self.queue, "PYTHONWARNINGS": "ignore", **more}
        self.environment = os.environ | settings
        os.environ.update(settings)
        module = sys.modules.get("compat.applications.celery_app")
        self.tasks: Any = (
            importlib.reload(module) if module else importlib.import_module("compat.applications.celery_app")
        )
        for key in more:
            os.environ.pop(key)

    @contextmanager
    def worker(self, processes: int = 2, name: str = "one") -> Iterator[subprocess.Popen[bytes]]:
        """Run a worker with gossip, mingle and heartbeat; it must leave in good order unless it was killed."""
        log = self.folder / f"{name}.log"
        words = ["-m", "celery", "-A", "compat.applications.celery_app", "worker", "-l", "INFO", "-E"]
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, *words, "-n", f"{name}@{self.queue}", "-c", str(processes)],
                cwd=ROOT, env=self.environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                eventually(
                    lambda: "ready." in log.read_text() or process.poll() is not None, "the worker is ready", PATIENCE
                )
                assert process.poll() is None, log.read_text()
                yield process
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(PATIENCE) == 0, log.read_text()
                assert "Traceback" not in log.read_text() or "as asked" in log.read_text(), log.read_text()
            finally:
                with open(os.devnull):
                    if process.poll() is None:
                        os.killpg(process.pid, signal.SIGKILL)
                        process.wait()


@pytest.fixture(scope="module")
def celery(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """The application with one worker."""
    application = Application(url, tmp_path_factory.mktemp("celery"))
    with application.worker():
        yield application


@pytest.fixture
def application(url: str, tmp_path: Path) -> Callable[..., Application]:
    return lambda **more: Application(url, tmp_path, **more)


def test_results_come_back_by_rpc(celery: Application) -> None:
    results = [celery.tasks.add.delay(number, number) for number in range(50)]
    assert [result.get(timeout=PATIENCE) for result in results] == [2 * number for number in range(50)]


def test_an_exception_comes_back(celery: Application) -> None:
    with pytest.raises(ValueError, match="as asked"):
        celery.tasks.fail.delay().get(timeout=PATIENCE)


def test_a_task_retries_itself(celery: Application, tmp_path: Path) -> None:
    assert celery.tasks.third_time.delay(str(tmp_path / "runs")).get(timeout=PATIENCE) == 3


def test_countdown_and_eta_hold_a_task_back(celery: Application) -> None:
    start = time.time()
    later = celery.tasks.when.apply_async(countdown=1.5)
    now = celery.tasks.when.apply_async()
    assert now.get(timeout=PATIENCE) < later.get(timeout=PATIENCE)
    assert later.get(timeout=PATIENCE) - start >= 1.5


def test_a_task_that_has_expired_does_not_run(celery: Application) -> None:
    result = celery.tasks.when.apply_async(countdown=1, expires=0.2)
    marker = celery.tasks.when.apply_async(countdown=1.5)
    marker.get(timeout=PATIENCE)
    assert result.state in ("PENDING", "REVOKED")


def test_groups_and_chains(celery: Application) -> None:
    from celery import chain, group

    add = celery.tasks.add
    assert group(add.s(n, n) for n in range(5)).delay().get(timeout=PATIENCE) == [0, 2, 4, 6, 8]
    assert chain(add.s(1, 2), add.s(3), add.s(4)).delay().get(timeout=PATIENCE) == 10


def test_remote_control_inspects_and_pings(celery: Application) -> None:
    inspect = celery.tasks.app.control.inspect(timeout=10, limit=1, destination=[f"one@{celery.queue}"])
    (name,) = inspect.ping()
    assert name == f"one@{celery.queue}"
    assert "compat.applications.celery_app.add" in inspect.registered()[name]
    assert [queue["name"] for queue in inspect.active_queues()[name]] == [celery.queue]
    assert inspect.stats()[name]["broker"]["transport"] in ("amqp", "pyamqp")
    assert inspect.active()[name] == []


def test_a_revoked_task_does_not_run(celery: Application, tmp_path: Path) -> None:
    result = celery.tasks.note.apply_async((str(tmp_path / "runs"),), countdown=1.0)
    celery.tasks.app.control.revoke(result.id, reply=True, timeout=5, limit=1)
    celery.tasks.when.apply_async(countdown=1.5).get(timeout=PATIENCE)
    assert not (tmp_path / "runs").exists()


def test_consumers_are_added_and_cancelled_from_afar(celery: Application) -> None:
    control, other, where = celery.tasks.app.control, some_name("more"), [f"one@{celery.queue}"]
    assert control.add_consumer(other, reply=True, destination=where, timeout=10, limit=1)
    assert celery.tasks.add.apply_async((1, 1), queue=other).get(timeout=PATIENCE) == 2
    assert control.cancel_consumer(other, reply=True, destination=where, timeout=10, limit=1)


def test_events_are_heard(celery: Application) -> None:
    wanted = {"task-received", "task-started", "task-succeeded"}
    seen: set[str] = set()

    def hear() -> None:
        def note(event: dict[str, Any]) -> None:
            seen.add(event["type"])
            receiver.should_stop = wanted <= seen

        with celery.tasks.app.connection_for_read() as connection:
            receiver = celery.tasks.app.events.Receiver(connection, handlers={"*": note})
            receiver.capture(limit=None, timeout=PATIENCE, wakeup=False)

    thread = threading.Thread(target=hear, daemon=True)
    thread.start()
    # Whoever asks for events hears those from then on.
    eventually(lambda: celery.tasks.add.delay(1, 1).get(timeout=PATIENCE) and wanted <= seen, "the events", PATIENCE)
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_late_acknowledged_task_of_a_killed_worker_runs_on_another(
    application: Callable[..., Application], tmp_path: Path
) -> None:
    celery, runs = application(), tmp_path / "runs"
    with celery.worker(1, "first") as first:
        celery.tasks.note.delay(str(runs), 3)
        eventually(runs.exists, "the task has begun", PATIENCE)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    with celery.worker(1, "second"):
        eventually(lambda: "ended" in runs.read_text(), "the other worker has run it", PATIENCE)
    assert runs.read_text().split() == ["begun", "begun", "ended"]


def test_a_chord_counts_its_parts(application: Callable[..., Application], tmp_path: Path) -> None:
    from celery import chord

    results = tmp_path / "results"
    results.mkdir()
    celery = application(RESULTS=f"file://{results}")
    with celery.worker():
        found = chord(celery.tasks.add.s(n, n) for n in range(5))(celery.tasks.total.s())
        assert found.get(timeout=PATIENCE) == 20


def test_a_task_of_higher_priority_goes_first(application: Callable[..., Application], tmp_path: Path) -> None:
    celery, runs = application(PRIORITY="yes"), tmp_path / "runs"
    for number in (1, 3, 2, 5, 4):
        celery.tasks.order.apply_async((str(runs), number), priority=number)
    with celery.worker(1):
        eventually(lambda: runs.exists() and len(runs.read_text().split()) == 5, "all have run", PATIENCE)
    # A worker takes four at once; the fifth, of the lowest priority, stays behind.
    assert runs.read_text().split() == ["5", "4", "3", "2", "1"]


def test_quorum_queues_and_countdown_by_the_broker(application: Callable[..., Application]) -> None:
    celery = application(QUEUE_TYPE="quorum")
    with celery.worker():
        start = time.time()
        later = celery.tasks.when.apply_async(countdown=2)
        assert celery.tasks.add.delay(2, 3).get(timeout=PATIENCE) == 5
        assert later.get(timeout=PATIENCE) - start >= 2
