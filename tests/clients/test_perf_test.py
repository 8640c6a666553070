"""RabbitMQ PerfTest at a full queue: its publishers are held, its consumers go on (Maven: perf-test)."""

from __future__ import annotations

import subprocess

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess
from tests.support.client_checks import available
from tests.support.client_hold import java_compiles
from tests.support.fetched_clients import framework_jars

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

CAPACITY = 20


def perf_test(broker: BrokerProcess, name: str, *words: str) -> str:
    """Run it with a queue of this name that is there already; return what it prints."""
    if not java_compiles():
        pytest.skip("a JDK is not installed")
    command = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{available(framework_jars)}/*"]
    command += ["com.rabbitmq.perf.PerfTest", "-h", f"{broker.url}%2F", "--predeclared", "-u", name, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return f"{done.stdout}\n{done.stderr}"


def test_perf_test_faster_than_its_consumers_is_held_with_every_message_confirmed(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments={"capacity-messages": CAPACITY})
    printed = perf_test(
        broker, name, "-x", "2", "-y", "1", "-q", "5", "-c", "10", "-R", "200", "-C", "300", "-D", "600"
    )
    view = broker.queue(name)
    assert (view["depth"]["messages"], view["refused"]) == (0, 0), printed
    assert view["highest"]["messages"] <= CAPACITY
    assert view["gate"]["crossings"] > 0, "its publishers were held"
