"""Artemis' command line over AMQP 1.0 (Maven: org.apache.activemq:apache-artemis), which is a client on Qpid JMS."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess, eventually
from tests.support.client_checks import available
from tests.support.fetched_clients import artemis_home

pytestmark = [pytest.mark.clients, pytest.mark.timeout(700)]

COUNT = 60
CAPACITY = 4


class Commands:
    """Runs commands of Artemis against a broker."""

    def __init__(self, program: str, broker: BrokerProcess) -> None:
        self._program = program
        self._server = [
            *("--protocol", "amqp", "--url", f"amqp://{broker.host}:{broker.port}"),
            *("--user", "guest", "--password", "guest"),
        ]

    def begin(self, command: str, destination: str, *options: str) -> subprocess.Popen[str]:
        words = [self._program, command, *self._server, "--destination", destination, *options]
        return subprocess.Popen(
            words, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def end(self, process: subprocess.Popen[str]) -> str:
        shown, _ = process.communicate(timeout=300)
        assert process.returncode == 0, shown
        return shown

    def run(self, command: str, destination: str, *options: str) -> str:
        return self.end(self.begin(command, destination, "--message-count", str(COUNT), *options))


@pytest.fixture
def artemis(broker: BrokerProcess) -> Commands:
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    program = available(artemis_home) / "bin" / "artemis"
    os.environ.setdefault("JAVA_ARGS", "-Xmx128m")
    return Commands(str(program), broker)


def test_artemis_produces_browses_and_consumes(
    artemis: Commands, broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments={"x-expires": 600_000})
    assert f"Produced: {COUNT} messages" in artemis.run("producer", f"queue://{name}", "--message-size", "3000")
    assert f"browsed: {COUNT} messages" in artemis.run("browser", f"queue://{name}")
    assert broker.depth(name) == COUNT
    assert f"Consumed: {COUNT} messages" in artemis.run("consumer", f"queue://{name}", "--commit-interval", "7")
    assert broker.depth(name) == 0


def test_artemis_filters_and_sends_in_transactions(
    artemis: Commands, broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments={"x-expires": 600_000})
    artemis.run("producer", f"queue://{name}", "--commit-interval", "10", "--text-size", "100")
    options = ("--filter", "count < 20", "--break-on-null", "--receive-timeout", "2000")
    assert "Consumed: 20 messages" in artemis.run("consumer", f"queue://{name}", *options)
    assert broker.depth(name) == COUNT - 20


def test_artemis_is_held_by_a_full_queue_and_goes_on(
    artemis: Commands, broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, arguments={"x-expires": 600_000, "capacity-messages": CAPACITY})
    producer = artemis.begin("producer", f"queue://{name}", "--message-count", str(COUNT))
    eventually(lambda: broker.queue(name)["blocked"], "it is blocked")
    assert f"Consumed: {COUNT} messages" in artemis.run("consumer", f"queue://{name}")
    assert f"Produced: {COUNT} messages" in artemis.end(producer)
    view = broker.queue(name)
    assert (view["depth"]["messages"], view["highest"]["messages"] <= CAPACITY) == (0, True)
