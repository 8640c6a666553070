"""uamqp over AMQP 1.0 (PyPI), by a relay that ends TLS: outcomes of messages and deliveries."""

from __future__ import annotations

import json
import subprocess

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess
from tests.support.fetched_clients import ROOT, ClientMissingError, uamqp_python

pytestmark = [pytest.mark.clients, pytest.mark.timeout(700)]


def test_uamqp_hears_and_gives_outcomes(broker: BrokerProcess, channel: BlockingChannel, name: str) -> None:
    try:
        python = uamqp_python()
    except ClientMissingError as missing:
        pytest.skip(str(missing))
    channel.queue_declare(f"{name}-dead", arguments={"x-expires": 600_000})
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    channel.queue_declare(name, arguments={"x-expires": 600_000, **dead})
    words = [str(python), "-m", "tests.clients.drivers.check_uamqp", broker.url.rstrip("/"), name]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    wrong_user = "user-id 'somebody-else' is not the user of the connection, 'guest'"
    rejected = f"SendFailed: ErrorCodes.UnauthorizedAccess: {wrong_user}"
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"outcomes": ["SendComplete", "SendFailed: ErrorCodes.UnknownError", rejected]},
        {"deliveries": [["a", 0], ["a", 0], ["a", 1]]},
    ]
    assert broker.queue(f"{name}-dead")["depth"]["messages"] == 1
