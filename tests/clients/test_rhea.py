"""rhea over AMQP 1.0 (npm: rhea): outcomes of its messages and of its deliveries, and drain."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.brokers import BrokerProcess
from tests.support.fetched_clients import HERE

pytestmark = pytest.mark.clients

FOLDER = HERE / "node"


def test_rhea_hears_and_gives_all_outcomes_and_drains(
    broker: BrokerProcess, channel: BlockingChannel, name: str
) -> None:
    node = shutil.which("node")
    if node is None or not (FOLDER / "node_modules" / "rhea").is_dir():
        pytest.skip("rhea is not installed in tests/clients/node: npm was not found by `make setup`")
    channel.queue_declare(f"{name}-dead", arguments={"x-expires": 600_000})
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    channel.queue_declare(name, arguments={"x-expires": 600_000, **dead})
    words = [node, "check_rhea.js", broker.url, name]
    done = subprocess.run(words, cwd=FOLDER, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "outcomes": ["accepted", "released", "amqp:not-found"],
        "deliveries": [["a", 0], ["a", 0], ["a", 1]],
        "drained": 0,
        "dead": ["a", "example:bad"],
    }
