"""The suites: whose tests they are, which of them need a broker, and how long they may take."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench import processes
from compat import control, golang, javaclient, reporting, rust
from compat.nodes import ControlledBroker
from compat.sources import with_tools

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "compat"
TOOLS = "tools"
"""The folder below the scratch folder that has what suites need besides the environment."""


@dataclass(frozen=True)
class Suite:
    """One row of the table."""

    key: str
    title: str
    project: str | None
    """The project whose source package carries the tests; None for applications of ours."""
    tests: str
    """The tests to run: below the source package's folder, or below compat/applications; a class of Java."""
    deselect: str = ""
    """pytest's -k: what cannot be judged here."""
    why_not: str = ""
    """Why that is left out, in a sentence."""
    limit: float = 300.0
    """Seconds after which the rest of the suite is given up."""
    options: tuple[str, ...] = ()
    """More words for pytest, `go test`, or the test program of Rust."""
    alone: bool = False
    """Whether it runs on a broker of its own, since it changes users and virtual hosts, or lists all there is."""


SUITES = (
    Suite("py-amqp", "py-amqp: t/integration/test_rmq.py", "amqp", "t/integration/test_rmq.py",
          "not tls", "the tests with TLS, whose certificates are not in the source package."),
    Suite("kombu", "kombu: t/integration/test_py_amqp.py", "kombu", "t/integration/test_py_amqp.py"),
    Suite("dramatiq", "Dramatiq: tests/test_rabbitmq.py", "dramatiq", "tests/test_rabbitmq.py"),
    Suite("aiormq", "aiormq: tests", "aiormq", "tests",
          "not amqps and not external and not ssl and not publish_drain and not (closing_waiter and connection-True)",
          "the tests with TLS, and two that fail now and then on either broker, by chance.", 900.0,
          ("-p", "no:asyncio", "-p", "compat.aiormq_fixtures")),
    Suite("amqp091-go", "amqp091-go: all tests", "amqp091-go", ".", "",
          "TestIntegrationConsumeFlow, which asserts that channel.flow from a client is refused with 540.", 900.0,
          ("-tags", "integration", "-skip", "^TestIntegrationConsumeFlow$")),
    Suite("watermill", "Watermill's publisher and subscriber: all tests", "watermill-amqp", "./pkg/amqp", limit=1200.0,
          options=("-short",)),
    Suite("rabbit-hole", "rabbit-hole (Go, HTTP API): all specs", "rabbit-hole", ".", limit=900.0, alone=True),
    Suite("rabbitmqadmin", "rabbitmqadmin 2 (Rust): integration tests", "rabbitmqadmin", "", limit=1800.0, alone=True),
    Suite("rabbitmq_http_client", "rabbitmq_http_client (Rust): integration tests", "rabbitmq_http_client", "",
          limit=1800.0, alone=True),
    Suite("amqpstorm-tests", "AMQPStorm: amqpstorm/tests/functional", "amqpstorm", "amqpstorm/tests/functional",
          "not ssl", "the tests with TLS, whose certificates are not in the source package.", 900.0, alone=True),
    Suite("java-functional", "RabbitMQ's Java client: FunctionalTests", javaclient.PROJECT,
          "com.rabbitmq.client.test.functional.FunctionalTests", limit=1200.0),
    Suite("java-server", "RabbitMQ's Java client: ServerTests", javaclient.PROJECT,
          "com.rabbitmq.client.test.server.ServerTests", limit=1800.0),
    Suite("celery", "Celery: an application of ours", None, "test_celery.py"),
    Suite("aio-pika", "aio-pika: an application of ours", None, "test_aio_pika.py"),
    Suite("pika", "pika: an application of ours", None, "test_pika.py"),
    Suite("amqpstorm", "amqpstorm: an application of ours", None, "test_amqpstorm.py"),
    Suite("amqplib", "node's amqplib: an application of ours", None, "test_amqplib.py"),
    Suite("amqp-client-js", "CloudAMQP's JavaScript client: an application of ours", None, "test_cloudamqp.py"),
    Suite("amqp-tools", "librabbitmq's amqp-tools: an application of ours", None, "test_amqp_tools.py"),
    Suite("java", "RabbitMQ's Java client: an application of ours", None, "test_java.py"),
    Suite("spring", "Spring AMQP, reactor-rabbitmq: an application of ours", None, "test_spring.py"),
    Suite("nestjs", "NestJS over RMQ: an application of ours", None, "test_nestjs.py"),
    Suite("perf-test", "RabbitMQ PerfTest: 32 sets of options", None, "test_perf_test.py", limit=1200.0),
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


def _pytest(suite: Suite, sources: dict[str, Path]) -> tuple[list[str], Path]:
    """Return the command that runs a suite of Python, and the folder to run it in."""
    if suite.project is None:
        folder, settings, tests = ROOT, HERE / "applications.ini", HERE / "applications" / suite.tests
    else:
        folder, settings = sources[suite.project], HERE / "suites.ini"
        tests = folder / suite.tests
        _prepare(suite, folder)
    words = [sys.executable, "-m", "pytest", "-c", str(settings), "--rootdir", str(folder), str(tests), *suite.options]
    return words + (["-k", suite.deselect] if suite.deselect else []), folder


def _command(suite: Suite, broker: ControlledBroker, sources: dict[str, Path], scratch: Path) -> tuple[list[str], Path]:
    """Return the command that runs a suite, and the folder to run it in."""
    ports = (broker.port, broker.http_port)
    if suite.project in golang.MODULES:
        words = [f"-timeout={suite.limit:.0f}s", *suite.options, suite.tests]
        return golang.command(golang.MODULES[suite.project], sources[suite.project], words, ports, scratch)
    if suite.project in rust.CRATES:
        return rust.command(suite.project, sources[suite.project], list(suite.options), ports, scratch)
    if suite.project == javaclient.PROJECT:
        folder = sources[javaclient.PROJECT]
        return javaclient.command(folder, suite.tests, broker.port, scratch / "commands"), folder
    return _pytest(suite, sources)


def environment_of(suite: Suite, broker: ControlledBroker, results: Path, scratch: Path) -> dict[str, str]:
    """Return the environment of a suite. Our applications have no tools: plugins of pytest among them break ours."""
    url = f"amqp://guest:guest@127.0.0.1:{broker.port}/"
    mine = {
        reporting.FILE: str(results),
        "RABBITMQ_HOST": "127.0.0.1",
        "RABBITMQ_5672_TCP": str(broker.port),
        "COMPAT_URL": f"{url}%2f",
        "COMPAT_BROKER": broker.name,
        "PENSTOCK_FETCH": "1",
        "AMQP_URL": url,
        "WATERMILL_TEST_AMQP_URI": url,
        "AMQP_HOST": "127.0.0.1",
        "AMQP_USERNAME": "guest",
        "AMQP_PASSWORD": "guest",
        "AMQP_URI": f"{url}%2F",
        "AMQP_HTTP_URL": f"http://127.0.0.1:{broker.http_port}",
        "RABBITMQ_RABBITMQCTL_PATH": str(control.commands(scratch / "commands") / "rabbitmqctl"),
    }
    environment = (with_tools(scratch / TOOLS) if suite.project else dict(os.environ)) | mine
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH"))))
    environment["PATH"] = os.pathsep.join((str(_no_rabbitmqctl(scratch / "bin")), environment["PATH"]))
    return environment


def run(suite: Suite, broker: ControlledBroker, sources: dict[str, Path], scratch: Path, output: Path) -> Path:
    """Run a suite against a broker; return the file that has a line for each test (compat/reporting.py).

    What the suite prints goes to a file beside it, with the suffix `.log`.
    """
    results = output / f"{suite.key}-{broker.name}.jsonl"
    results.write_text("")
    environment = environment_of(suite, broker, results, scratch)
    words, folder = _command(suite, broker, sources, scratch)
    with results.with_suffix(".log").open("w") as log, control.served(broker, scratch) as place:
        process = subprocess.Popen(words, cwd=folder, env=environment | place, stdin=subprocess.DEVNULL, stdout=log,
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
