"""The suites: whose tests they are, which of them need a broker, and how long they may take."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench import processes
from bench.brokers import Broker
from compat import reporting

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "compat"


@dataclass(frozen=True)
class Suite:
    """One row of the table."""

    key: str
    title: str
    project: str | None
    """The project in the lock whose source package carries the tests; None for applications of ours."""
    tests: str
    """The tests to run: below the source package's folder, or below compat/applications."""
    deselect: str = ""
    """pytest's -k: what cannot be judged here."""
    why_not: str = ""
    """Why that is left out, in a sentence."""
    limit: float = 300.0
    """Seconds after which the rest of the suite is given up."""


SUITES = (
    Suite("py-amqp", "py-amqp: t/integration/test_rmq.py", "amqp", "t/integration/test_rmq.py",
          "not tls", "the tests with TLS, whose certificates are not in the source package."),
    Suite("kombu", "kombu: t/integration/test_py_amqp.py", "kombu", "t/integration/test_py_amqp.py"),
    Suite("dramatiq", "Dramatiq: tests/test_rabbitmq.py", "dramatiq", "tests/test_rabbitmq.py"),
    Suite("celery", "Celery: an application of ours", None, "test_celery.py"),
    Suite("aio-pika", "aio-pika: an application of ours", None, "test_aio_pika.py"),
    Suite("pika", "pika: an application of ours", None, "test_pika.py"),
    Suite("amqpstorm", "amqpstorm: an application of ours", None, "test_amqpstorm.py"),
    Suite("amqplib", "node's amqplib: an application of ours", None, "test_amqplib.py"),
    Suite("amqp-tools", "librabbitmq's amqp-tools: an application of ours", None, "test_amqp_tools.py"),
    Suite("java", "RabbitMQ's Java client: an application of ours", None, "test_java.py"),
)  # fmt: skip


def _prepare(suite: Suite, root: Path) -> None:
    """Give a source package what its tests share and it does not carry."""
    shared = HERE / suite.key
    if shared.is_dir():
        for path in shared.glob("*.py"):
            shutil.copy(path, root / Path(suite.tests).parent / path.name)


def _no_rabbitmqctl(folder: Path) -> Path:
    """Return a folder for the front of PATH where `rabbitmqctl` does nothing: it would reach for the system's node."""
    folder.mkdir(exist_ok=True)
    command = folder / "rabbitmqctl"
    command.write_text("#!/bin/sh\nexit 0\n")
    command.chmod(0o755)
    return folder


def run(suite: Suite, broker: Broker, sources: dict[str, Path], scratch: Path) -> Path:
    """Run a suite against a broker; return the file that has a line for each test (compat/reporting.py).

    What pytest says goes to a file beside it, with the suffix `.log`.
    """
    results = scratch / f"{suite.key}-{broker.name}.jsonl"
    results.write_text("")
    if suite.project is None:
        folder, settings, tests = ROOT, HERE / "applications.ini", HERE / "applications" / suite.tests
    else:
        folder, settings = sources[suite.project], HERE / "suites.ini"
        tests = folder / suite.tests
        _prepare(suite, folder)
    words = [sys.executable, "-m", "pytest", "-c", str(settings), "--rootdir", str(folder), str(tests)]
    if suite.deselect:
        words += ["-k", suite.deselect]
    environment = os.environ | {
        reporting.FILE: str(results),
        "RABBITMQ_HOST": "127.0.0.1",
        "RABBITMQ_5672_TCP": str(broker.port),
        "COMPAT_URL": f"amqp://guest:guest@127.0.0.1:{broker.port}/%2f",
        "COMPAT_BROKER": broker.name,
        "PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT)))),
        "PATH": f"{_no_rabbitmqctl(scratch / 'bin')}{os.pathsep}{os.environ['PATH']}",
    }
    with results.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, text=True, start_new_session=True)  # fmt: skip
        _wait(process, suite, results)
    return results


def _wait(process: subprocess.Popen[str], suite: Suite, results: Path) -> None:
    """Wait for the end of a suite, or for its limit, which counts as a test that has failed."""
    try:
        process.wait(suite.limit)
    except subprocess.TimeoutExpired:
        with results.open("a") as file:
            file.write('{"test": "the whole suite", "outcome": "failed", "why": "it took longer than its limit of '
                       f'{suite.limit:.0f} s"}}\n')  # fmt: skip
    finally:
        processes.stop(process, patience=5.0)
