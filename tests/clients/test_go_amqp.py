"""go-amqp over AMQP 1.0 (Go module proxy: github.com/Azure/go-amqp): outcomes of messages and deliveries, and drain."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess
from tests.support.commands import run
from tests.support.fetched_clients import ClientMissingError, go_program, go_tests

OWN_TESTS = (
    *("TestIntegration.*", "TestMultipleSessionsOpenClose", "TestDialWithCancelledContext"),
    *("TestNewSessionWithCancelledContext", "TestConcurrentSessionsOpenClose", "TestReceiverModeFirst"),
    *("TestSenderExactlyOnce", "TestReceivingLotsOfSettledMessages", "TestNewReceiverWithCancelledContext"),
    *("TestMultipleSendersSharedSession", "TestDrainingLink", "TestSenderNullValue"),
)
"""Tests of go-amqp with a broker, as patterns: those of its integration_test.go."""
OWN_COUNT = 17

pytestmark = [pytest.mark.clients, pytest.mark.timeout(700)]


def test_go_amqp_hears_and_gives_all_outcomes_and_drains(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    """Its Send returns an error for a rejected message only; a released one counts as sent."""
    try:
        program = go_program()
    except ClientMissingError as missing:
        pytest.skip(str(missing))
    channel.queue_declare(f"{name}-dead", arguments={"x-expires": 600_000})
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    channel.queue_declare(name, arguments={"x-expires": 600_000, **dead})
    words = [str(program), "check", broker.url.rstrip("/"), name]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"outcomes": ["Accepted", "Released", "Rejected: error"]},
        {"counts": [0, 0, 1, 0]},
        {"drained": True},
        {"dead": ["a", "example:bad"]},
    ]


def test_integration_tests_of_go_amqp_itself_pass(own_broker: BrokerProcess, tmp_path: Path) -> None:
    """They name queues that do not exist, so a pattern has them created."""
    try:
        program = go_tests()
    except ClientMissingError as missing:
        pytest.skip(str(missing))
    run(own_broker, "set", "queue", "#", "auto-create=true")
    words = [str(program), "-test.v", "-test.timeout=500s", f"-test.run=^({'|'.join(OWN_TESTS)})$"]
    environment = {**os.environ, "AMQP_BROKER_ADDR": own_broker.url.rstrip("/")}
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    results = re.findall(r"^--- (\w+): (\w+)", done.stdout, re.MULTILINE)
    assert [test for result, test in results if result != "PASS"] == [], done.stdout[-5000:] + done.stderr
    assert len(results) == OWN_COUNT
