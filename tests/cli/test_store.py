"""penstock backup, check and repair, on data directories that a real broker has written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest

from penstock.store.sqlite import FILE
from tests.support.brokers import BrokerProcess, penstock_command, serving, settings_file
from tests.support.node_folder import fill_node
from tests.support.pika_helpers import client_of


def refused(*words: str) -> list[str]:
    """The lines with which a command ends that did not do what it was asked for."""
    done = penstock_command(*words)
    assert done.returncode == 1
    return [line.removeprefix("penstock: ") for line in done.stderr.splitlines() if not line.startswith("20")]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a queue of 200 messages."""
    data = tmp_path / "data"
    with serving(tmp_path, "--data", str(data)) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", *[f"{number:010}" * 100 for number in range(200)])
    return data


def bodies(tmp_path: Path, data: Path) -> list[str]:
    with serving(tmp_path, "--data", str(data)) as broker, client_of(broker) as client:
        return [body for body, _ in client.drain("q")]


def test_backup_of_a_running_broker_is_a_data_directory(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with serving(tmp_path, "--data", str(data)) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "a", "b")
        done = penstock_command("backup", str(copy), "--data", str(data))
        assert done.stdout.startswith(f"backed up to {copy}: "), done.stderr
        client.publish("q", "c")
        assert client.depth("q") == 3
    assert bodies(tmp_path, copy) == ["a", "b"]


def test_backup_goes_into_an_empty_folder_only(data: Path, tmp_path: Path) -> None:
    said = refused("backup", str(tmp_path), "--data", str(data))
    assert said == [f"cannot back up to '{tmp_path}': that folder is not empty"]


def test_store_in_order_is_in_order(data: Path) -> None:
    assert penstock_command("check", "--data", str(data)).stdout == f"{data} is in order\n"


def test_store_that_a_broker_uses_is_not_checked(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with serving(tmp_path, "--data", data) as broker:
        said = refused("check", "--data", data)
        assert said == [f"data directory '{data}' is in use by another broker (process {broker.pid})"]


def test_damaged_store_is_refused_and_its_readable_messages_are_saved(data: Path, tmp_path: Path) -> None:
    file = data / FILE
    octets = bytearray(file.read_bytes())
    at = octets.index(b"0000000123" * 50)
    octets[at] ^= 1
    file.write_bytes(octets)
    (said,) = refused("serve", "--listen", "127.0.0.1:0", "--data", str(data))
    assert said.startswith("the store is damaged in 1 place, first row ")
    lost = said.partition("; ")[2].partition("; ")[0]
    assert re.fullmatch(r"queue 'q' in vhost '/' has lost \d+ of 200 messages", lost)
    which, where, all_of_it = refused("check", "--data", str(data))
    assert which == lost
    assert where.startswith("row ")
    assert all_of_it.startswith(f"{data} is damaged in 1 place: {lost}; ")
    saved = tmp_path / "saved"
    done = penstock_command("repair", str(saved), "--data", str(data))
    assert done.returncode == 0
    left = bodies(tmp_path, saved)
    assert lost == f"queue 'q' in vhost '/' has lost {200 - len(left)} of 200 messages"
    assert done.stdout == f"saved in {saved}: {len(left)} messages, 2 declarations; lost: 1 record, {lost}\n"
    assert 0 < len(left) < 200
    assert all(body == body[:10] * 100 for body in left)
    assert left == sorted(left)


def test_folder_without_a_store_has_nothing_to_save(tmp_path: Path) -> None:
    assert refused("check", "--data", str(tmp_path / "none")) == [f"there is no data directory '{tmp_path}/none'"]
    said = refused("backup", str(tmp_path / "b"), "--data", str(tmp_path))
    assert said == [f"there is no store '{tmp_path}/{FILE}' to back up"]


@contextmanager
def node_of(tmp_path: Path, data: Path) -> Iterator[BrokerProcess]:
    """A node with two shards; the second has the virtual host `b`."""
    file = settings_file(tmp_path, '[broker]\nvhosts = ["/", "b"]\n')
    with serving(tmp_path, "--shards", "2", "--data", str(data), *file) as node:
        yield node


def depth_in(node: BrokerProcess, vhost: str, *bodies: str) -> int:
    """Publish to the durable queue `q` of a virtual host; return how many messages it has then."""
    parameters = pika.URLParameters(node.url + vhost)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        for body in bodies:
            channel.basic_publish("", "q", body.encode(), pika.BasicProperties(delivery_mode=2))
        return int(channel.queue_declare("q", passive=True).method.message_count)


def test_backup_of_a_running_node_is_a_node_again(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with node_of(tmp_path, data) as node:
        assert depth_in(node, "%2f", "a", "b") == 2
        assert depth_in(node, "b", "c") == 1
        done = penstock_command("store", "backup", str(copy), "--data", str(data))
        assert re.fullmatch(rf"backed up to {copy}: [\d,]+ bytes of 2 shards, and the catalogue\n", done.stdout), (
            done.stderr
        )
        assert depth_in(node, "b", "d") == 2
        (said,) = refused("store", "check", "--data", str(data))
        assert said == f"data directory '{data}/cluster' is in use by another broker (process {node.pid})"
    done = penstock_command("store", "check", "--data", str(copy))
    assert done.stdout == f"{copy} is in order: 2 shards and the catalogue\n", done.stderr
    with node_of(tmp_path, copy) as node:
        assert (depth_in(node, "%2f"), depth_in(node, "b")) == (2, 1)
    (said,) = refused("serve", "--listen", "127.0.0.1:0", "--data", str(copy))
    assert said.endswith("one broker would serve the virtual hosts of the first alone: start it with --shards 2")


async def test_damage_in_a_node_is_reported_by_shard_and_the_rest_is_saved(tmp_path: Path) -> None:
    data, saved = tmp_path / "data", tmp_path / "saved"
    await fill_node(data)
    file = data / "shards" / "2" / FILE
    octets = bytearray(file.read_bytes())
    octets[octets.index(b"2-0000000001" * 50)] ^= 1
    file.write_bytes(octets)
    lost = "queue 'q' in vhost 'b' has lost 1 of 3 messages"
    which, loss, _, all_of_it = refused("store", "check", "--data", str(data))
    assert (which, loss) == (f"shard 2 ({data}/shards/2):", lost)
    assert all_of_it.startswith(f"{data} is damaged in 1 place: {lost}; `penstock store repair NEW ")
    answer = json.loads(penstock_command("store", "check", "--data", str(data), "--json").stdout)
    assert ([each["shard"] for each in answer["damaged"]], answer["losses"]) == (["2"], [lost])
    done = penstock_command("store", "repair", str(saved), "--data", str(data))
    title, first, second = done.stdout.splitlines()
    assert title == f"saved in {saved}: 2 shards and the catalogue"
    assert first == "shard 1: 3 messages, 3 declarations; lost: 0 records, no message is lost"
    assert second.startswith("shard 2: 2 messages, ")
    assert second.endswith(f"lost: 1 record, {lost}")
    assert penstock_command("store", "check", "--data", str(saved)).stdout.startswith(f"{saved} is in order: 2 ")
