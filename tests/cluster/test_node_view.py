"""View of the shards of a node: their states, and restarts of shards one after another under clients."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker

from penstock.cluster.node_view import FAREWELL, newer_software
from penstock.sync import connect
from tests.support.brokers import eventually
from tests.support.cluster_node import OFFICE
from tests.support.told_program import ToldProgram
from tests.support.unix_http import GUEST, UnixConnection, asked

STATUS = "/penstock/cluster"
RESTART = "/penstock/cluster/restart"
MANY = 300


class Node(ToldProgram):
    """The program tests/support/cluster_node.py, with a virtual host in each of three shards."""

    def __init__(self, data: Path, **patience: object) -> None:
        super().__init__("cluster_node", str(data), "3", json.dumps(patience))
        self.data = data
        self.port = self.await_row(port=None)["port"]
        for vhost in ("west", "east"):
            self.do(vhost=vhost)
        self.do(user="alice", vhosts=["/", "west", "east"])
        for shard in ("1", "2", "3"):
            eventually(lambda shard=shard: self.shard(shard)["state"] == "serving", f"shard {shard} serves")

    def do(self, **order: object) -> dict[str, Any]:
        self.tell(**order)
        return self.await_row(done=order)

    def ask(self, method: str, target: str, body: object = None) -> Any:
        return asked(self.data / OFFICE, method, target, body)

    def refusal(self, method: str, target: str, body: object = None) -> tuple[int, str]:
        """Send a request that must be refused; return status and reason."""
        status, answer = self.send(method, target, body)
        return status, answer["reason"]

    def send(self, method: str, target: str, body: object = None) -> tuple[int, Any]:
        """Send a request; return status and answer."""
        connection = UnixConnection(self.data / OFFICE)
        headers = {"Authorization": GUEST, "Content-Type": "application/json"}
        connection.request(method, f"/api{target}", None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        found = json.loads(response.read())
        connection.close()
        return response.status, found

    def shard(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = next(row for row in self.ask("GET", STATUS)["shards"] if row["shard"] == name)
        return found

    def url(self, vhost: str) -> str:
        return f"amqp://alice:secret@127.0.0.1:{self.port}/{'%2f' if vhost == '/' else vhost}"

    def pids(self) -> list[int]:
        return [row["pid"] for row in self.ask("GET", STATUS)["shards"]]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path) as found:
        yield found


def test_build_on_the_disk_that_differs_needs_a_restart_of_the_node() -> None:
    assert newer_software("compiled, 1", "compiled, 1") == ""
    assert newer_software("compiled, 1", "compiled, 2") == (
        "shards run the software with which the node was started (compiled, 1), and compiled, 2 is installed: restart "
        "the node to run it"
    )


def test_status_has_state_process_and_vhosts_of_each_shard(node: Node) -> None:
    status = node.ask("GET", STATUS)
    assert [row["shard"] for row in status["shards"]] == ["1", "2", "3"]
    assert [row["vhosts"] for row in status["shards"]] == [["/"], ["west"], ["east"]]
    assert all(os.path.exists(f"/proc/{row['pid']}") and row["starts"] == 1 for row in status["shards"])
    assert (status["restart"], status["newer"]) == (None, None)


def test_status_has_the_cause_of_the_last_death(node: Node) -> None:
    os.kill(node.shard("2")["pid"], signal.SIGKILL)
    row = eventually(lambda: found if (found := node.shard("2"))["starts"] == 2 else None, "another process")
    assert row["cause"] == "was killed by signal 9"
    assert (node.shard("1")["cause"], node.shard("2")["restarts"]) == (None, 0)


def test_restart_gives_each_shard_another_process_in_order(node: Node) -> None:
    before = node.pids()
    assert node.ask("POST", RESTART) == {"restarted": ["1", "2", "3"], "newer": None}
    after = node.pids()
    assert not set(before) & set(after)
    assert not any(os.path.exists(f"/proc/{pid}") for pid in before)
    status = node.ask("GET", STATUS)
    assert [row["restarts"] for row in status["shards"]] == [1, 1, 1]
    assert status["restart"]["sentence"] == "the restart asked for by user 'guest' is done: 3 of 3 shards"


def test_restart_of_named_shards_leaves_the_others_alone(node: Node) -> None:
    before = node.pids()
    assert node.ask("POST", RESTART, {"shards": ["3", "1"]})["restarted"] == ["1", "3"]
    after = node.pids()
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True, False]


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({"shards": ["9"]}, 404, "no shard '9': this node has shards '1', '2' and '3'"),
        ({"shards": "1"}, 400, "'shards' must be a list of at least one string, not '1'"),
        ({"shards": []}, 400, "'shards' must be a list of at least one string"),
        ({"shard": "1"}, 400, "cluster.restart has no field 'shard'"),
    ],
)
def test_restart_with_invalid_shards_is_refused(node: Node, body: object, status: int, reason: str) -> None:
    found, text = node.refusal("POST", RESTART, body)
    assert found == status
    assert reason in text
    assert node.ask("GET", STATUS)["restart"] is None


def test_client_is_closed_with_the_reason_and_its_next_login_waits(node: Node) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(node.url("west")))
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "orders", b"x", pika.BasicProperties(delivery_mode=2))
    spared = pika.BlockingConnection(pika.URLParameters(node.url("east")))
    restarting = threading.Thread(target=node.ask, args=("POST", RESTART, {"shards": ["2"]}))
    restarting.start()
    with pytest.raises(ConnectionClosedByBroker, match="shard '2' is restarted: connect again") as closed:
        serve_for_ever(connection)
    assert closed.value.reply_code == 320
    with pika.BlockingConnection(pika.URLParameters(node.url("west"))) as again:
        assert again.channel().queue_declare("orders", passive=True).method.message_count == 1
    restarting.join()
    with spared:
        spared.channel().queue_declare("here")
    assert FAREWELL.format("2") == "shard '2' is restarted: connect again"


def serve_for_ever(connection: pika.BlockingConnection) -> None:
    while True:
        connection.process_data_events(0.1)


def test_confirmed_messages_survive_restarts_under_publishers(node: Node) -> None:
    with connect(node.url("west"), reconnect=True) as client:
        client.declare_queue("orders", durable=True)
        publisher = client.publisher("orders", durable=True)
        restarting = threading.Thread(target=node.ask, args=("POST", RESTART))
        restarting.start()
        sent = 0
        while restarting.is_alive() or sent < MANY:
            publisher.send(b"%d" % sent)
            sent += 1
        restarting.join()
        with client.receiver("orders") as receiver:
            found: set[int] = set()
            while len(found) < sent:
                delivery = receiver.receive(timeout=30)
                found.add(int(delivery.body))
                delivery.accept()
    assert found == set(range(sent))


def test_second_restart_is_refused_while_the_first_goes_on(node: Node) -> None:
    os.kill(node.shard("2")["pid"], signal.SIGSTOP)
    job = node.ask("POST", f"{RESTART}?job=true")
    assert (job["subject"], job["user"]) == ("all shards", "guest")
    eventually(lambda: node.shard("2")["state"] == "stopping", "shard 2 stops")
    status, reason = node.refusal("POST", RESTART)
    assert (status, reason) == (
        400,
        "shards are restarted by one request at a time: the restart asked for by user 'guest' is running: "
        "1 of 3 shards; shard '2' is stopping",
    )
    held = node.ask("GET", f"/penstock/jobs/{job['id']}")
    assert (held["state"], held["sentence"]) == ("held", "shard '2' is stopping; 1 of 3 shards")
    os.kill(node.shard("2")["pid"], signal.SIGCONT)
    eventually(lambda: node.ask("GET", STATUS)["restart"]["state"] == "done", "the restart is done")


def test_cancelled_restart_leaves_the_shards_behind_it_alone(node: Node) -> None:
    before = node.pids()
    os.kill(before[1], signal.SIGSTOP)
    job = node.ask("POST", f"{RESTART}?job=true")
    eventually(lambda: node.shard("2")["state"] == "stopping", "shard 2 stops")
    node.ask("DELETE", f"/penstock/jobs/{job['id']}")
    restart = eventually(
        lambda: found if (found := node.ask("GET", STATUS)["restart"])["state"] != "running" else None, "an end"
    )
    assert restart["state"] == "cancelled"
    assert restart["reason"] == "cancelled by user 'guest'; shard '3' was not restarted"
    os.kill(before[1], signal.SIGCONT)
    eventually(lambda: node.shard("2")["state"] == "serving", "shard 2 serves")
    assert node.shard("3")["pid"] == before[2]


def test_shard_that_does_not_come_back_ends_the_restart(node: Node) -> None:
    before = node.pids()
    os.kill(before[1], signal.SIGSTOP)
    job = node.ask("POST", f"{RESTART}?job=true")
    eventually(lambda: node.shard("2")["state"] == "stopping", "shard 2 stops")
    store, aside = node.data / "shards" / "2" / "messages.sqlite", node.data / "aside.sqlite"
    store.rename(aside)
    store.write_bytes(b"no database, but longer than a header" * 100)
    os.kill(before[1], signal.SIGKILL)
    ended = eventually(
        lambda: found if (found := node.ask("GET", f"/penstock/jobs/{job['id']}"))["ended_at"] else None, "an end"
    )
    assert ended["state"] == "failed"
    assert ended["error"].startswith("shard '2' has not come back: shard '2' has been away for ")
    assert "ended with status 1: " in ended["error"]
    assert ended["error"].endswith("; shard '3' was not restarted")
    assert node.shard("3")["pid"] == before[2]
    aside.rename(store)
    # The end of an attempt that has begun with the broken store may be reported meanwhile.
    eventually(lambda: node.send("POST", RESTART, {"shards": ["2"]})[0] == 200, "shard 2 is restarted")
    assert node.shard("2")["state"] == "serving"


def test_shard_that_is_given_up_is_started_by_a_restart(tmp_path: Path) -> None:
    with Node(tmp_path, pauses_s=[]) as node:
        os.kill(node.shard("2")["pid"], signal.SIGKILL)
        eventually(lambda: node.shard("2")["state"] == "stopped", "shard 2 is given up")
        assert node.shard("2")["cause"] == "was killed by signal 9"
        assert node.ask("POST", RESTART, {"shards": ["2"]})["restarted"] == ["2"]
        assert node.shard("2")["state"] == "serving"


def test_stop_of_the_node_ends_a_restart(node: Node) -> None:
    os.kill(node.shard("2")["pid"], signal.SIGSTOP)
    node.ask("POST", f"{RESTART}?job=true")
    eventually(lambda: node.shard("2")["state"] == "stopping", "shard 2 stops")
    pid = node.shard("2")["pid"]
    node.end_input()
    os.kill(pid, signal.SIGCONT)
    assert node.await_row(stopped=True)
    node.await_end_of_all()
