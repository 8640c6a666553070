"""rabbitmqadmin 2 at a full queue: its publish is held, and refused with the reason (`make test-clients` builds it)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pika
import pytest

from compat.rust import BUILT
from tests.support.brokers import BrokerProcess, serving

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

PROGRAM = BUILT / "debug" / "rabbitmqadmin"
REFUSED = os.EX_DATAERR
"""Its exit code for an error of the API."""


def rabbitmqadmin(broker: BrokerProcess, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it; its default port is that of the broker that it was built for."""
    command = [str(PROGRAM), "--host", broker.host, "--port", str(urlsplit(broker.http).port), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_rabbitmqadmin_at_a_full_queue_is_held_then_told_the_reason(tmp_path: Path, name: str) -> None:
    if not PROGRAM.exists():
        pytest.skip("rabbitmqadmin 2 is not built: `make test-clients` does it")
    publish = ("publish", "message", "--routing-key", name, "--payload", "x")
    take = ("get", "messages", "--queue", name, "--count", "2", "--ack-mode", "ack_requeue_false")
    with serving(tmp_path, "--http", "127.0.0.1:0") as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            connection.channel().queue_declare(name, arguments={"capacity-messages": 2, "hold-deadline": 1})
        assert [rabbitmqadmin(broker, *publish).returncode for _ in range(2)] == [0, 0]
        refused = rabbitmqadmin(broker, *publish)
        assert refused.returncode == REFUSED
        assert "refused after its hold deadline of 1 s" in refused.stderr
        assert f"queue '{name}' holds 2 messages" in refused.stderr
        assert rabbitmqadmin(broker, *take).returncode == 0
        assert rabbitmqadmin(broker, *publish).returncode == 0
        assert broker.depth(name) == 1
