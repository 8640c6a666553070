"""`penstock serve --shards N`: a node with several brokers behind one port, as a user starts it."""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pytest

import penstock
from penstock.cluster.catalogue import CatalogueReader
from penstock.logs import auditlog
from penstock.sync import connect
from tests.support.brokers import GRACE, serving, settings_file
from tests.support.commands import penstock_command, refused


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


def test_reload_changes_users_and_patterns_of_all_shards_also_of_later_ones(tmp_path: Path) -> None:
    text = '[broker]\nvhosts = ["/", "west"]\n[users]\nguest = "guest"\n'
    file = settings_file(tmp_path, text)
    with serving(tmp_path, *file, "--shards", "2", "--data", str(tmp_path / "data")) as node:
        settings_file(tmp_path, text + 'ada = "lovelace"\n[queue.short]\nmax-length = 1\noverflow = "reject-publish"\n')
        node.process.send_signal(signal.SIGHUP)
        node.await_logged("[shard:1] PST-2031 : reload: '")
        (line,) = node.await_logged("[shard:2] PST-2031 : reload: '")
        assert "is in effect" in line
        for vhost in ("%2f", "west"):
            assert is_short(f"{node.url_of('ada', 'lovelace')}{vhost}")
        (serves,) = node.logged("PST-2080 : shard '2' serves")
        os.kill(int(serves.rpartition("process ")[2].rstrip(")")), signal.SIGKILL)
        assert is_short(f"{node.url_of('ada', 'lovelace')}west")  # The login waits for the next process.
        assert len(node.logged("PST-2080 : shard '2' serves")) == 2


def is_short(url: str) -> bool:
    """Return whether the queue `short` refuses a second message."""
    with connect(url, protocol="amqp091", reconnect=False) as client:
        client.declare_queue("short", auto_delete=True)
        publisher = client.publisher("short")
        publisher.send(b"1")
        with pytest.raises(penstock.ClientError):
            publisher.send(b"2")
        client.delete_queue("short")
    return True


def test_reload_with_an_invalid_file_changes_nothing(tmp_path: Path) -> None:
    file = settings_file(tmp_path, '[users]\nguest = "guest"\n')
    with serving(tmp_path, *file, "--shards", "1", "--data", str(tmp_path / "data")) as node:
        settings_file(tmp_path, "[users]\nguest = 7\n")
        node.process.send_signal(signal.SIGHUP)
        (line,) = node.await_logged("reload: ")
        assert "reload: the old settings stay: " in line
        put(node.url, "orders")


def test_lost_zygote_ends_the_node_with_a_sentence_and_a_status(tmp_path: Path) -> None:
    with serving(tmp_path, "--shards", "2", "--data", str(tmp_path / "data")) as node:
        put(node.url, "orders")
        os.kill(child_of(node.pid), signal.SIGKILL)
        assert node.process.wait() == 1
        assert "penstock: the zygote of the shards has ended, and all shards with it" in node.log().splitlines()
        assert "Traceback" not in node.log()


def child_of(pid: int) -> int:
    """Return the only child of a process."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def test_node_notifies_the_service_manager_with_its_shards(tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(GRACE)
        environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        file = settings_file(tmp_path, "")
        options = (*file, "--shards", "2", "--data", str(tmp_path / "data"))
        with serving(tmp_path, *options, environment=environment) as node:
            heard = await_line(manager, "STATUS=2 of 2 shards serve")
            assert "READY=1" in heard
            await_line(manager, "WATCHDOG=1")
            node.process.send_signal(signal.SIGHUP)
            assert "READY=1" not in await_line(manager, "RELOADING=1")
            await_line(manager, "READY=1")
            assert node.stop() == 0
        await_line(manager, "STOPPING=1")


def await_line(manager: socket.socket, line: str) -> list[str]:
    """Return the assignments that come up to this one."""
    heard: list[str] = []
    while line not in heard:
        heard += manager.recv(4096).decode().split("\n")
    return heard


def test_audit_logs_have_logins_in_the_node_and_changes_in_the_shard(tmp_path: Path) -> None:
    data = tmp_path / "data"
    file = settings_file(tmp_path, '[broker]\nvhosts = ["/", "west"]\n')
    with serving(tmp_path, *file, "--shards", "2", "--data", str(data)) as node:
        with connect(f"{node.url}west", protocol="amqp091") as client:
            client.declare_queue("orders", durable=True)
        node.stop()
    logged = {name: audited(data / name / "audit-log") for name in ("cluster", "shards/2", ".")}
    assert [(each["event"], each["user"]) for each in logged["cluster"] if "user" in each] == [("login", "guest")]
    (change,) = [each for each in logged["shards/2"] if each["event"] == "change" and each["user"] == "guest"]
    assert (change["operation"], change["subject"], change["vhost"]) == ("queue.declare", "orders", "west")
    assert not [each for each in logged["."] if each.get("user") == "guest"]


def audited(folder: Path) -> list[dict[str, Any]]:
    return list(auditlog.read(folder))


def test_definitions_of_the_start_reach_the_shard_of_each_vhost(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    queues = [
        {"name": f"q{number}", "vhost": vhost, "durable": True} for number, vhost in enumerate(("/", "west", "east"))
    ]
    users = [{"name": "ada", "password": "lovelace", "tags": "administrator"}]
    permissions = [{"user": "ada", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}]
    content = {"vhosts": [{"name": name} for name in ("/", "west", "east")], "users": users}
    file.write_text(json.dumps({**content, "permissions": permissions, "queues": queues}))
    options = ("--shards", "2", "--data", str(tmp_path / "data"), "--definitions", str(file))
    for text in ("3 queues created", "unchanged; nothing was imported"):
        with serving(tmp_path, *options) as node:
            with connect(node.url.replace("guest:guest", "ada:lovelace"), protocol="amqp091") as client:
                rows = client.request("list", kind="queues", everywhere=True)["items"]
                assert sorted((row["vhost"], row["name"]) for row in rows if "amq.dyn" not in row["name"]) == [
                    ("/", "q0"), ("east", "q2"), ("west", "q1"),
                ]  # fmt: skip
                assert client.request("health")["status"] == "ok"
            node.stop()
        assert text in node.log()


def test_definitions_of_the_start_that_one_shard_refuses_stop_the_start(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    queues = [{"name": "a", "vhost": "/"}, {"name": "b", "vhost": "west", "arguments": {"x-max-length": "many"}}]
    file.write_text(json.dumps({"vhosts": [{"name": "/"}, {"name": "west"}], "queues": queues}))
    data = tmp_path / "data"
    options = ("--shards", "2", "--data", str(data), "--definitions", str(file), "--listen", "127.0.0.1:0")
    done = penstock_command("serve", *options)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert said.startswith(
        f"penstock: definitions '{file}': line 1, queues[1]: queue 'b': x-max-length must be a whole"
    )
    reader = CatalogueReader(data / "cluster")
    assert list(reader.vhosts()) == ["/"]
    reader.close()
