"""fe2o3-amqp over AMQP 1.0 (crates.io): outcomes of messages and deliveries, and drain."""

from __future__ import annotations

import json
import subprocess

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess
from tests.support.fetched_clients import ClientMissingError, rust_program

pytestmark = [pytest.mark.clients, pytest.mark.timeout(700)]


def test_fe2o3_hears_and_gives_all_outcomes_and_drains(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    try:
        program = rust_program()
    except ClientMissingError as missing:
        pytest.skip(str(missing))
    channel.queue_declare(f"{name}-dead", arguments={"x-expires": 600_000})
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    channel.queue_declare(name, arguments={"x-expires": 600_000, **dead})
    words = [str(program), "check", broker.url.rstrip("/"), name]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"outcomes": ["accepted", "released", "rejected: Some(AmqpError(NotFound))"]},
        {"counts": [0, 0, 1]},
        {"drained": True},
    ]
    assert broker.queue(f"{name}-dead")["depth"]["messages"] == 1
