"""`penstock serve --shards N`: a node with several brokers behind one port, as a user starts it."""

from __future__ import annotations

import signal
from pathlib import Path

import pika
import pytest

from tests.support.brokers import serving, settings_file
from tests.support.commands import refused


def depth(url: str, queue: str) -> int:
    """Return the number of messages in a durable queue, which is declared if there is none."""
    connection = pika.BlockingConnection(pika.URLParameters(url + "%2f"))
    found: int = connection.channel().queue_declare(queue, durable=True).method.message_count
    connection.close()
    return found


def put(url: str, queue: str) -> None:
    """Publish one persistent message."""
    connection = pika.BlockingConnection(pika.URLParameters(url + "%2f"))
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x", pika.BasicProperties(delivery_mode=2))
    connection.close()


def test_ready_line_of_a_node_has_its_address_directory_and_shards(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(tmp_path, "--shards", "2", "--data", str(data)) as node:
        assert node.ready == f"ready amqp://127.0.0.1:{node.port} (durable data in {data}, 2 shards)"
        put(node.url, "orders")
        assert node.stop() == 0
    with serving(tmp_path, "--shards", "1", "--data", str(data)) as again:
        assert again.ready.endswith(f"(durable data in {data}, 2 shards)")  # There are never fewer than before.
        assert depth(again.url, "orders") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_node_stops_at_a_signal_with_status_0_after_its_shards(tmp_path: Path, number: int) -> None:
    with serving(tmp_path, "--shards", "2", "--data", str(tmp_path / "data")) as node:
        put(node.url, "orders")
        node.process.send_signal(number)
        assert node.process.wait() == 0
        assert "Traceback" not in node.log()
    with serving(tmp_path, "--data", str(tmp_path / "other")) as broker:
        assert broker.ready.startswith("ready amqp://")


def test_number_of_shards_may_be_auto_in_the_settings_file(tmp_path: Path) -> None:
    file = settings_file(tmp_path, f'[broker]\nshards = "auto"\ndata = "{tmp_path}/data"\n')
    with serving(tmp_path, *file, "--data", str(tmp_path / "data"), environment={"PENSTOCK_SHARDS": "1"}) as node:
        assert node.ready.endswith(", 1 shard)")


@pytest.mark.parametrize("given", ["-1", "101", "many", "1.5"])
def test_invalid_number_of_shards_is_named_with_the_rule(given: str) -> None:
    said = refused("serve", f"--shards={given}")
    assert said == f"shards must be a whole number from 0 to 100, or auto, not '{given}'"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--memory",), "--memory stores nothing"),
        (("--store", "postgresql://db/penstock"), "--store names a database"),
        (("--store", "postgresql://db/penstock", "--standby"), "--store names a database"),
    ],
)
def test_shards_without_a_data_directory_are_refused(options: tuple[str, ...], why: str) -> None:
    said = refused("serve", "--shards", "2", *options)
    assert said == f"shards need a data directory, and {why}: use --data DIR, or no shards"
