"""go-amqp over AMQP 1.0 (Go module proxy: github.com/Azure/go-amqp): outcomes of messages and deliveries, and drain."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess
from tests.support.client_checks import available, declare_with_dead_letters, lines_of
from tests.support.commands import run
from tests.support.fetched_clients import go_program, go_tests

OWN_TESTS = (
    *("TestIntegration.*", "TestMultipleSessionsOpenClose", "TestDialWithCancelledContext"),
    *("TestNewSessionWithCancelledContext", "TestConcurrentSessionsOpenClose", "TestReceiverModeFirst"),
    *("TestSenderExactlyOnce", "TestReceivingLotsOfSettledMessages", "TestNewReceiverWithCancelledContext"),
    *("TestMultipleSendersSharedSession", "TestDrainingLink", "TestSenderNullValue"),
)
"""Tests of go-amqp with a broker, as patterns: those of its integration_test.go."""
OWN_COUNT = 17

pytestmark = [pytest.mark.clients, pytest.mark.timeout(700)]


def test_go_amqp_receives_and_sends_all_outcomes_and_drains(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    """Its Send returns an error for a rejected message only; a released one counts as sent."""
    program = available(go_program)
    declare_with_dead_letters(channel, name)
    assert lines_of([str(program), "check", broker.url.rstrip("/"), name]) == [
        {"outcomes": ["Accepted", "Released", "Rejected: error"]},
        {"counts": [0, 0, 1, 0]},
        {"drained": True},
        {"dead": ["a", "example:bad"]},
    ]


def test_integration_tests_of_go_amqp_itself_pass(own_broker: BrokerProcess, tmp_path: Path) -> None:
    """They name queues that do not exist, so a pattern has them created."""
    program = available(go_tests)
    run(own_broker, "set", "queue", "#", "auto-create=true")
    words = [str(program), "-test.v", "-test.timeout=500s", f"-test.run=^({'|'.join(OWN_TESTS)})$"]
    environment = {**os.environ, "AMQP_BROKER_ADDR": own_broker.url.rstrip("/")}
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    results = re.findall(r"^--- (\w+): (\w+)", done.stdout, re.MULTILINE)
    assert [test for result, test in results if result != "PASS"] == [], done.stdout[-5000:] + done.stderr
    assert len(results) == OWN_COUNT
