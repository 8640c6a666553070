"""Qpid Broker-J's protocol tests of AMQP 1.0, version 10.0.1, by an administration of ours.

They are in no package registry. PENSTOCK_BROKERJ is their source tree. They are compiled with libraries
from Maven Central.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.brokers import BrokerProcess, serving
from tests.support.client_checks import available
from tests.support.fetched_clients import HERE, brokerj_tests
from tests.support.foreign_suites import compare, read_expected, read_junit, source_of

pytestmark = [pytest.mark.clients, pytest.mark.timeout(700)]

GLUE = HERE / "java" / "brokerj"
TESTS = "org.apache.qpid.tests.protocol.v1_0"
ADMIN = "org.penstock.tests.PenstockAdmin"
ANSWER_MS = 2000
"""Milliseconds that a test waits for an answer; where none comes, it waits for all of them."""


def name_of(class_name: str, test: str) -> str:
    return f"{class_name.removeprefix(TESTS + '.')}.{test.partition('(')[0]}"


def compiled_glue(folder: Path, class_path: str) -> Path:
    """Compile our administration, and name it to their loader of services."""
    services = folder / "META-INF" / "services" / "org.apache.qpid.tests.utils.BrokerAdmin"
    services.parent.mkdir(parents=True)
    services.write_text(f"{ADMIN}\n")
    words = ["javac", "-nowarn", "-proc:none", "-cp", class_path, "-d", str(folder), str(GLUE / "PenstockAdmin.java")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    return folder


def run(class_path: str, broker: BrokerProcess, reports: Path) -> None:
    said = {
        "qpid.tests.brokerAdminType": "PENSTOCK",
        "qpid.tests.protocol.frameTransport.responseTimeout": ANSWER_MS,
        "junit.jupiter.extensions.autodetection.enabled": "false",
        "penstock.port": broker.url.rpartition(":")[2].strip("/"),
        "penstock.http": broker.http.rstrip("/"),
    }
    java = ["java", "-XX:TieredStopAtLevel=1", "-Xmx1g", *(f"-D{name}={value}" for name, value in said.items())]
    launcher = ["org.junit.platform.console.ConsoleLauncher", "execute", f"--select-package={TESTS}"]
    words = [*java, "-cp", class_path, *launcher, f"--reports-dir={reports}", "--details=none"]
    with (reports.parent / "java.log").open("w") as log:
        subprocess.run(words, stdout=log, stderr=subprocess.STDOUT, check=False, timeout=600, cwd=reports.parent)


def test_brokerj_protocol_tests_fail_only_where_it_is_expected(
    tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    source = Path(source_of("PENSTOCK_BROKERJ", "Broker-J's protocol tests"))
    found = available(partial(brokerj_tests, source))
    theirs = ":".join(f"{found}/{part}" for part in ("jars/*", "processor", "protocol", "tests"))
    class_path = f"{compiled_glue(tmp_path / 'glue', theirs)}:{theirs}"
    with serving(tmp_path, "--http", "127.0.0.1:0") as broker:
        run(class_path, broker, tmp_path / "reports")
    told = read_junit(sorted((tmp_path / "reports").glob("*jupiter*.xml")), name_of)
    compare(told, read_expected(GLUE / "expected.txt"))
    record_testsuite_property("test_broker_j", told.words())
