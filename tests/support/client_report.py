"""Run the tests of clients of AMQP 1.0 and of frameworks, and print a table: client, version, what passed, what not.

python -m tests.support.client_report
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

from tests.support.fetched_clients import BROKERJ_VERSION, HERE, ROOT

OF_ALL = ("test_holding", "test_holding_amqp10", "test_idle_amqp10")
"""Modules whose tests have the name of a client as parameter."""


def _python(package: str) -> Callable[[], str]:
    return lambda: metadata.version(package)


def _pinned(path: Path, pattern: str) -> Callable[[], str]:
    return lambda: _first(pattern, path.read_text())


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, pattern
    return found.group(1)


def _node(folder: str, package: str) -> Callable[[], str]:
    lock = HERE / "node" / folder / "package-lock.json"
    return lambda: str(json.loads(lock.read_text())["packages"][f"node_modules/{package}"]["version"])


@dataclass
class Row:
    """A client, the modules with its tests, and what became of them."""

    client: str
    version: Callable[[], str]
    modules: tuple[str, ...]
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, None] = field(default_factory=dict)
    """Reasons, each once."""
    told: list[str] = field(default_factory=list)
    """What its suite says of its own tests."""

    def is_about(self, module: str, test: str) -> bool:
        name = self.client.replace(" ", "-")
        return module in self.modules or (module in OF_ALL and (f"[{name}]" in test or f"[{name}-" in test))

    def show(self) -> str:
        try:
            version = self.version()
        except metadata.PackageNotFoundError:
            version = "not installed"
        words = [
            f"{self.passed} passed",
            *([f"{len(self.failed)} FAILED"] if self.failed else []),
            *self.told,
            *self.skipped,
        ]
        return f"{self.client:<26} {version:<15} {'; '.join(words)}"


def rows() -> list[Row]:
    requirements, proton, java = ROOT / "requirements" / "clients", "python-qpid-proton", HERE / "java"
    version = r"</artifactId><version>(.+?)<"
    artemis = _pinned(java / "artemis/pom.xml", "apache-artemis" + version)
    modules = ("test_proton", "test_proton_links", "test_proton_transactions", "test_proton_operator")
    return [
        Row("Qpid Proton", _python(proton), modules),
        Row("RabbitMQ's Python client", _python("rabbitmq-amqp-python-client"), ("test_rabbitmq_amqp10",)),
        Row("RabbitMQ's Java client 1.0", _pinned(java / "rabbitmq/pom.xml", "amqp-client" + version),
            ("test_rabbitmq_amqp10_java",)),
        Row("Qpid JMS", _pinned(java / "jms/pom.xml", "client" + version), ("test_qpid_jms",)),
        Row("Artemis' command line", artemis, ("test_artemis_cli",)),
        Row("rhea", _node("", "rhea"), ("test_rhea",)),
        Row("go-amqp", _pinned(HERE / "golang/go.mod", r"go-amqp v(\S+)"), ("test_go_amqp",)),
        Row("fe2o3-amqp", _pinned(HERE / "rust/Cargo.toml", r'fe2o3-amqp = "=(.+?)"'), ("test_fe2o3",)),
        Row("azure-servicebus", _pinned(requirements / "azure.lock", r"azure-servicebus==(\S+)"), ("test_azure",)),
        Row("uamqp", _pinned(requirements / "uamqp.lock", r"uamqp==(\S+)"), ("test_uamqp",)),
        Row("Broker-J's tests", lambda: BROKERJ_VERSION, ("test_broker_j",)),
        Row("qpid-interop-test", lambda: "2.0", ("test_interop",)),
        Row("amqp091-go", _pinned(HERE / "golang/go.mod", r"amqp091-go v(\S+)"), ()),
        Row("Watermill", _pinned(HERE / "golang/go.mod", r"watermill-amqp/v3 v(\S+)"), ()),
        Row("lapin", _pinned(HERE / "rust091/Cargo.toml", r'lapin = .*?"=(.+?)"'), ()),
        Row("Spring AMQP", _pinned(java / "frameworks/pom.xml", "spring-rabbit" + version), ()),
        Row("reactor-rabbitmq", _pinned(java / "frameworks/pom.xml", "reactor-rabbitmq" + version), ()),
        Row("NestJS", _node("nest", "@nestjs/microservices"), ()),
        Row("rabbitmqadmin 2", _pinned(ROOT / "compat/crates/Cargo.toml", r'rabbitmqadmin = "=(.+?)"'),
            ("test_rabbitmqadmin",)),
        Row("PerfTest", _pinned(java / "frameworks/pom.xml", "perf-test" + version), ("test_perf_test",)),
    ]  # fmt: skip


def count(found: list[Row], results: ElementTree.Element) -> None:
    """Count the test cases of a JUnit report in the rows that they are about."""
    for case in results.iter("testcase"):
        module, test = str(case.get("classname")).rpartition(".")[2], str(case.get("name"))
        for row in found:
            if not row.is_about(module, test):
                continue
            skipped = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                row.failed.append(f"{module}::{test}")
            elif skipped is not None:
                row.skipped[str(skipped.get("message"))] = None
            else:
                row.passed += 1
    for told in results.iter("property"):
        for row in found:
            if told.get("name") in row.modules:
                row.told.append(str(told.get("value")))


def main() -> int:
    """Run them, print the table, and return 1 if a test failed."""
    found = rows()
    modules = [*OF_ALL, *(module for row in found for module in row.modules)]
    files = [str(HERE / f"{module}.py") for module in dict.fromkeys(modules)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *files]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        count(found, ElementTree.parse(report).getroot())
    print("\nClients of AMQP 1.0, and frameworks:")
    for row in found:
        print(row.show())
        for test in row.failed:
            print(f"  failed: {test}")
    return code


if __name__ == "__main__":
    sys.exit(main())
