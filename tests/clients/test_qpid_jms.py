"""Qpid JMS over AMQP 1.0, unchanged (Maven: org.apache.qpid:qpid-jms-client); its checks are in java/jms/Check.java."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess
from tests.support.client_checks import available
from tests.support.client_hold import java_compiles
from tests.support.fetched_clients import HERE, jms_jars

pytestmark = [pytest.mark.clients, pytest.mark.timeout(700)]

CHECKS = (
    "queue", "asynchronous", "presettled", "acknowledged", "rejected", "transacted", "selector", "browser", "topic",
    "durable", "shared", "temporary", "request", "unknown",
    "refused", "delayed",
)  # fmt: skip


@pytest.fixture(scope="module")
def classpath() -> str:
    if shutil.which("java") is None or not java_compiles():
        pytest.skip("a JDK is not installed")
    return f"{available(jms_jars)}/*"


def test_qpid_jms_works_unchanged(broker: BrokerProcess, channel: BlockingChannel, classpath: str, name: str) -> None:
    """One program for all checks: a virtual machine takes longer to start than they take."""
    for check in CHECKS:
        dead, work = f"{name}-{check}-dead", f"{name}-{check}-work"
        arguments = {"x-expires": 600_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
        channel.queue_declare(dead, arguments={"x-expires": 600_000})
        channel.queue_declare(work, arguments=arguments)
    program = str(HERE / "java" / "jms" / "Check.java")
    words = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classpath, program, f"{broker.host}:{broker.port}"]
    done = subprocess.run([*words, name, *CHECKS], capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.splitlines() == [f"{check} passed" for check in CHECKS], done.stderr
