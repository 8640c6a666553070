"""Brokers on a data directory, and what they say of their disk."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.sync import connect
from tests.support.brokers import PATIENCE, BrokerProcess, penstock_command, serving
from tests.support.faults import Disk
from tests.support.pika_helpers import Client


@contextmanager
def kept(tmp_path: Path, disk: Disk | None = None, *options: str, data: Path | None = None) -> Iterator[BrokerProcess]:
    """Run a broker on a data directory, with a disk that may fail."""
    place = tmp_path / "data" if data is None else data
    environment = None if disk is None else disk.environment
    with serving(tmp_path, "--data", str(place), *options, environment=environment) as broker:
        yield broker
        assert "Traceback" not in broker.log()


def refused(data: Path, *before: str) -> str:
    """Start a broker there that ends with 1, and return its sentence; `before` goes before the command."""
    words = [*before, sys.executable, "-m", "penstock", "serve", "--listen", "127.0.0.1:0", "--data", str(data)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (1, "")
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("penstock: ")]
    assert "Traceback" not in done.stderr
    return said.removeprefix("penstock: ")


def set_broker(broker: BrokerProcess, *settings: str) -> None:
    done = penstock_command("set", "broker", *settings, "--url", broker.url)
    assert done.returncode == 0, done.stderr


def status(broker: BrokerProcess) -> dict[str, Any]:
    """Return what the broker says of its disk."""
    with connect(broker.url, protocol="amqp091") as control:
        found = control.status()["disk"]
        assert isinstance(found, dict)
        return found


def closed(broker: BrokerProcess) -> list[str]:
    """Return the names of the gates before the disk that are closed."""
    return [gate["name"] for gate in status(broker)["gates"] if not gate["open"]]


def crossings(broker: BrokerProcess) -> list[str]:
    """Return the lines about gates before the disk that a broker has logged, from the id on."""
    return [line.partition("[ms(store)] ")[2] for line in broker.logged("[ms(store)] ")]


def take(client: Client, queue: str, count: int) -> list[str]:
    """Get and acknowledge so many messages."""
    found = []
    for _ in range(count):
        method, _, body = client.channel.basic_get(queue)
        client.channel.basic_ack(method.delivery_tag)
        found.append(body.decode())
    return found
