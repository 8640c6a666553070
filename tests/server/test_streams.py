"""Streams in both stores: kills, backup, check and repair; offsets stay what they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pika
import pytest

from penstock.store.sqlite import FILE
from tests.support.brokers import PATIENCE, BrokerProcess, penstock_command, serving, some_name
from tests.support.postgres import Cluster, needs_postgres

STREAM = {"x-queue-type": "stream"}


def append(broker: BrokerProcess, first: int, end: int) -> None:
    """Publish numbers with long bodies, each confirmed."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("s", durable=True, arguments=STREAM)
        channel.confirm_delivery()
        for number in range(first, end):
            channel.basic_publish("", "s", f"{number:010}".encode() * 100)


def retained(broker: BrokerProcess, at: object = "first") -> dict[int, int]:
    """Return the number of each retained message by its offset, from a position to the end."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        last = channel.queue_declare("s", passive=True).method.message_count
        found: dict[int, int] = {}
        if last == 0:
            return found
        channel.basic_qos(prefetch_count=50)
        arguments = {"x-stream-offset": at}
        for method, properties, body in channel.consume("s", arguments=arguments, inactivity_timeout=PATIENCE):
            assert method is not None, found
            assert body == body[:10] * 100
            found[int(properties.headers["x-stream-offset"])] = int(body[:10])
            channel.basic_ack(method.delivery_tag)
            if int(body[:10]) == 59:
                break
        channel.cancel()
        return found


def killed(broker: BrokerProcess) -> None:
    broker.process.kill()
    broker.process.wait(PATIENCE)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[needs_postgres, pytest.mark.slow])])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """The option of a broker's store."""
    if request.param == "sqlite":
        yield ["--data", str(tmp_path / "data")]
        return
    server: Cluster = request.getfixturevalue("server")
    name = some_name("store")
    server.ask(f'CREATE DATABASE "{name}"')
    yield ["--store", server.url(name)]


def test_offsets_of_a_stream_are_the_same_after_kills(store: list[str], tmp_path: Path) -> None:
    for first, end in ((0, 20), (20, 45), (45, 60)):
        with serving(tmp_path, *store) as broker:
            append(broker, first, end)
            killed(broker)
    with serving(tmp_path, *store) as broker:
        assert retained(broker) == {number: number for number in range(60)}
        assert retained(broker, 33) == {number: number for number in range(33, 60)}
        assert "Traceback" not in broker.log()


def test_backup_of_a_stream_has_its_offsets(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with serving(tmp_path, "--data", str(data)) as broker:
        append(broker, 0, 60)
        done = penstock_command("backup", str(copy), "--data", str(data))
        assert done.returncode == 0, done.stderr
    assert penstock_command("check", "--data", str(copy)).stdout == f"{copy} is in order\n"
    with serving(tmp_path, "--data", str(copy)) as broker:
        assert retained(broker) == {number: number for number in range(60)}


def test_repair_of_a_damaged_stream_saves_the_other_messages_at_their_offsets(tmp_path: Path) -> None:
    data, saved = tmp_path / "data", tmp_path / "saved"
    with serving(tmp_path, "--data", str(data)) as broker:
        append(broker, 0, 60)
    file = data / FILE
    octets = bytearray(file.read_bytes())
    octets[octets.index(b"0000000023" * 50)] ^= 1
    file.write_bytes(octets)
    done = penstock_command("check", "--data", str(data))
    assert done.returncode == 1
    assert "queue 's' in vhost '/' has lost" in done.stderr
    done = penstock_command("repair", str(saved), "--data", str(data))
    assert done.returncode == 0, done.stderr
    with ExitStack() as stack:
        broker = stack.enter_context(serving(tmp_path, "--data", str(saved)))
        found = retained(broker)
        assert 23 not in found
        assert len(found) > 40
        assert all(offset == number for offset, number in found.items())
