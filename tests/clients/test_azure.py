"""The engine inside azure-servicebus over AMQP 1.0 (PyPI): outcomes, and messages without credit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess
from tests.support.fetched_clients import ROOT, ClientMissingError, azure_python

pytestmark = [pytest.mark.clients, pytest.mark.timeout(700)]

CAPACITY = 4


def dead_lettering(channel: BlockingChannel, name: str, **arguments: object) -> None:
    channel.queue_declare(f"{name}-dead", arguments={"x-expires": 600_000})
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    channel.queue_declare(name, arguments={"x-expires": 600_000, **dead, **arguments})


def check(python: Path, module: str, *words: str) -> list[object]:
    """Return what a program of checks has told."""
    command = [str(python), "-m", f"tests.clients.drivers.{module}", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def azure() -> Path:
    try:
        return azure_python()
    except ClientMissingError as missing:
        pytest.skip(str(missing))


def test_azure_hears_and_gives_outcomes(broker: BrokerProcess, channel: BlockingChannel, name: str) -> None:
    """It waits for ever for the outcome of a released message, so an unroutable one is rejected."""
    python = azure()
    dead_lettering(channel, name)
    assert check(python, "check_azure", "outcomes", broker.url.rstrip("/"), name) == [
        {"outcomes": ["accepted", "amqp:not-found", "amqp:decode-error"]},
        {"deliveries": [["a", 0], ["a", 0], ["a", 1]]},
    ]
    assert broker.queue(f"{name}-dead")["depth"]["messages"] == 1


def test_azure_that_sends_much_without_credit_is_detached_and_the_queue_keeps_its_capacity(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    """Its sender gives itself credit: what the hold room takes is held, and then its link ends."""
    python = azure()
    dead_lettering(channel, name, **{"capacity-messages": CAPACITY})
    told = check(python, "check_azure", "flood", broker.url.rstrip("/"), name)
    assert told[0] == {"sent": 60}
    last = told[-1]
    assert isinstance(last, dict)
    assert last["answers"] == 60, "none of its messages is left without an answer"
    assert last["accepted"] <= broker.queue(name)["highest"]["messages"] <= CAPACITY
    assert "amqp:link:transfer-limit-exceeded" in broker.log()
