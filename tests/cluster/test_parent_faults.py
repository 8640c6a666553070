"""Node as a program whose parts fail: kills, full disks, used-up descriptors, and a catalogue that cannot be read."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pika
import pytest

from penstock.client.errors import ClientError
from penstock.sync import connect
from tests.support.brokers import GRACE, BrokerProcess, eventually, in_background, serving, settings_file
from tests.support.commands import refused
from tests.support.faults import fill, small_disk

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@contextmanager
def node_of(folder: Path, *options: str) -> Iterator[BrokerProcess]:
    """Run a node with two shards: `/` is in the first, `west` in the second."""
    file = settings_file(folder, '[broker]\nvhosts = ["/", "west"]\n')
    with serving(folder, *file, "--shards", "2", "--data", str(folder / "data"), *options) as node:
        eventually(lambda: len(node.logged("PST-2080 : shard '")) >= 2, "two shards that serve")
        yield node
        assert "Traceback" not in node.log(), node.log()


def pid_of(node: BrokerProcess, shard: str) -> int:
    """Return the number of the last process of a shard."""
    line = node.logged(f"PST-2080 : shard '{shard}' serves")[-1]
    return int(line.rpartition("process ")[2].rstrip(")"))


def put(node: BrokerProcess, vhost: str, queue: str = "orders") -> None:
    """Publish a persistent message, and wait until it is confirmed."""
    with pika.BlockingConnection(pika.URLParameters(node.url + vhost)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"x", PERSISTENT)


def depth(node: BrokerProcess, vhost: str, queue: str = "orders") -> int:
    with connect(node.url + vhost, protocol="amqp091") as client:
        return int(client.why(queue).raw["depth"]["messages"])


def lives(pid: int) -> bool:
    """Return whether a process exists that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def test_killed_parent_takes_all_processes_and_starts_again_whole(tmp_path: Path) -> None:
    with node_of(tmp_path) as node:
        for vhost in ("%2f", "west"):
            put(node, vhost)
        port, pids = node.port, [pid_of(node, shard) for shard in ("1", "2")]
        node.kill()
        eventually(lambda: not any(map(lives, pids)), "no process of a shard")
    with serving(tmp_path, "--shards", "2", "--data", str(tmp_path / "data"), listen=(f"127.0.0.1:{port}",)) as again:
        for vhost in ("%2f", "west"):
            assert depth(again, vhost) == 1


def test_full_disk_of_a_shard_holds_its_persistent_messages_alone(tmp_path: Path) -> None:
    with node_of(tmp_path):
        pass
    with small_disk(tmp_path / "data" / "shards" / "2", "64m") as place, node_of(tmp_path) as node:
        put(node, "west")
        fill(place / "ballast")
        with in_background(lambda: put(node, "west")):
            eventually(lambda: node.logged("[shard:2] [ms(store)]"), "a gate of the store that closes")
            put(node, "%2f")
            assert not node.logged("[shard:1] [ms(store)]")
            (place / "ballast").unlink()
        assert (depth(node, "west"), depth(node, "%2f")) == (2, 1)


@contextmanager
def few_files(pid: int, more: int) -> Iterator[None]:
    """Let a process open no more than so many further files for the time of the context."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = set(map(int, os.listdir(f"/proc/{pid}/fd")))
    unused = [number for number in range(len(used) + more + 1) if number not in used]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (unused[more], before[1]))  # The limit is the first number refused.
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def test_node_without_room_for_open_files_refuses_and_serves_again(tmp_path: Path) -> None:
    with node_of(tmp_path) as node, ExitStack() as strangers:
        with connect(node.url + "west", protocol="amqp091") as client:
            client.declare_queue("mine", exclusive=True)
            with few_files(node.pid, 3):
                for _ in range(20):
                    strangers.enter_context(socket.create_connection((node.host, node.port), GRACE))
                node.await_logged("no more sockets are accepted: ")
                assert client.why("mine").raw["queue"] == "mine"  # Who is in needs the parent no more.
                strangers.close()
        put(node, "west")


def test_shard_without_room_for_open_files_refuses_with_a_sentence(tmp_path: Path) -> None:
    with node_of(tmp_path) as node:
        pid = pid_of(node, "2")
        with few_files(pid, 0), pytest.raises(ClientError, match="the shard has no room for another open file"):
            connect(node.url + "west", protocol="amqp091", reconnect=False, connect_timeout=GRACE)
        put(node, "west")
        assert pid_of(node, "2") == pid


def test_client_of_a_suspended_shard_waits_and_others_do_not(tmp_path: Path) -> None:
    with node_of(tmp_path) as node:
        pid = pid_of(node, "2")
        os.kill(pid, signal.SIGSTOP)
        with in_background(lambda: put(node, "west")):
            put(node, "%2f")
            assert depth(node, "%2f") == 1
            os.kill(pid, signal.SIGCONT)
        assert depth(node, "west") == 1


@pytest.mark.parametrize(("damage", "said"), [(b"", "is empty"), (b"SQLite format 3\x00", "is not a catalogue")])
def test_catalogue_that_cannot_be_read_stops_the_start(tmp_path: Path, damage: bytes, said: str) -> None:
    with node_of(tmp_path):
        pass
    catalogue = tmp_path / "data" / "cluster" / "catalogue.sqlite"
    catalogue.write_bytes(damage)
    for name in ("-wal", "-shm"):
        catalogue.with_name(catalogue.name + name).unlink(missing_ok=True)
    options = ("--quiet", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    assert said in refused("serve", "--shards", "2", *options)
    assert catalogue.read_bytes() == damage  # Nothing is repaired, and a broker alone does not start either.
    assert str(catalogue) in refused("serve", *options)
