"""Node's clients, which share no line with any client in Python: amqplib and rabbitmq-client."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.brokers import BrokerProcess
from tests.support.client_hold import our_side

pytestmark = pytest.mark.clients

FOLDER = Path(__file__).parent / "node"


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("node is not installed")
    if not (FOLDER / "node_modules" / "amqplib").is_dir():
        pytest.skip("amqplib is not installed in tests/clients/node: npm was not found by `make setup`")
    return found


def test_amqplib_publishes_consumes_waits_and_gets_notices(node: str, broker: BrokerProcess, name: str) -> None:
    done = subprocess.run(
        [node, "check.js", broker.url, name], cwd=FOLDER, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["product"] == "Penstock"
    assert seen["ordered"] is True
    assert seen["events"][0][0] == "blocked"
    assert f"queue {name}-small: " in seen["events"][0][1]
    assert seen["events"][-1] == ["unblocked"]
    assert seen["returned"] == 312
    assert seen["outcomes"] == [True, False]
    assert (seen["missing"], seen["misspelt"]) == (404, 406)


@pytest.mark.parametrize("confirm", ["yes", "no"])
def test_rabbitmq_client_consumes_and_publishes_on_one_connection_past_a_full_queue(
    node: str, broker: BrokerProcess, name: str, confirm: str
) -> None:
    """After connection.blocked it would write no acknowledgement any more, and the queue would stay full."""
    if not (FOLDER / "node_modules" / "rabbitmq-client").is_dir():
        pytest.skip("rabbitmq-client is not installed in tests/clients/node: npm was not found by `make setup`")
    with our_side(broker) as (_, channel):
        channel.queue_declare(name, arguments={"capacity-messages": 20})
        done = subprocess.run(
            [node, "share.js", broker.url, name, "300", confirm],
            cwd=FOLDER, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        channel.queue_delete(name)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"confirmed": 300, "refused": 0, "received": 300, "blocked": 0}
