"""RabbitMQ's client of AMQP 1.0 for Java, unchanged (Maven: com.rabbitmq.client:amqp-client).

Its checks are in java/rabbitmq/Check.java.
"""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.support.brokers import BrokerProcess
from tests.support.client_checks import available
from tests.support.client_hold import java_compiles
from tests.support.fetched_clients import HERE, rabbitmq_jars

pytestmark = [pytest.mark.clients, pytest.mark.timeout(700)]

CHECKS = ("queues", "bindings", "outcomes", "deliveries", "requests")


@pytest.fixture(scope="module")
def classpath() -> str:
    if shutil.which("java") is None or not java_compiles():
        pytest.skip("a JDK is not installed")
    return f"{available(rabbitmq_jars)}/*"


def test_client_of_rabbitmq_for_java_works_unchanged(
    broker_as_rabbitmq_4: BrokerProcess, classpath: str, name: str
) -> None:
    """One program for all checks: a virtual machine takes longer to start than they take."""
    program = str(HERE / "java" / "rabbitmq" / "Check.java")
    host_and_port = f"{broker_as_rabbitmq_4.host}:{broker_as_rabbitmq_4.port}"
    words = ["java", "-Xmx200m", "-XX:TieredStopAtLevel=1", "-cp", classpath, program, host_and_port]
    done = subprocess.run([*words, name, *CHECKS], capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.splitlines() == [f"{check} passed" for check in CHECKS], done.stderr
