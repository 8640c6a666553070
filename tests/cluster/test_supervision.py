"""Supervision: shards that die are started again with their data, those that hang are killed, and all stop in order."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.store.node_folder import folder_of
from tests.support.told_program import ToldProgram
from tests.support.unix_http import asked

Begin = Callable[..., "Node"]


class Node(ToldProgram):
    """The program tests/support/supervised_shards.py."""

    def __init__(self, folder: Path, **patience: object) -> None:
        super().__init__("supervised_shards", str(folder), json.dumps(patience))
        self.folder = folder
        self.zygote = self.await_row(zygote=None)["zygote"]

    def add(self, name: str) -> dict[str, Any]:
        """Add a shard; return its state once it serves."""
        self.tell(add=name)
        return self.await_row(name=name, state="serving")

    def ask(self, name: str, method: str, target: str, body: object = None) -> Any:
        return asked(folder_of(self.folder, name) / "http.sock", method, target, body)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    begun: list[Node] = []

    def begin_node(**patience: object) -> Node:
        begun.append(Node(tmp_path, **patience))
        return begun[-1]

    yield begin_node
    for each in begun:
        with each:
            pass


def filled(node: Node, name: str, messages: int) -> None:
    """Declare a durable queue in a shard, and publish persistent messages."""
    node.ask(name, "PUT", "/queues/%2f/orders", {"durable": True})
    body = {"routing_key": "orders", "payload": "x", "payload_encoding": "string", "properties": {"delivery_mode": 2}}
    for _ in range(messages):
        assert node.ask(name, "POST", "/exchanges/%2f/amq.default/publish", body) == {"routed": True}


def test_killed_shard_serves_again_with_its_durable_messages(begin: Begin) -> None:
    node = begin()
    first, second = node.add("1"), node.add("west")
    filled(node, "1", 3)
    filled(node, "west", 2)
    os.kill(first["pid"], signal.SIGKILL)
    away = node.await_row(name="1", state="away")
    assert "it was killed by signal 9" in away["sentence"]
    again = node.await_row(name="1", state="serving")
    assert again["pid"] not in (0, first["pid"])
    assert node.ask("1", "GET", "/queues/%2f/orders")["messages"] == 3
    assert node.ask("west", "GET", "/queues/%2f/orders")["messages"] == 2
    assert os.path.exists(f"/proc/{second['pid']}")
    assert (node.folder / "shards" / "west" / "messages.sqlite").exists()
    assert (node.folder / "messages.sqlite").exists()


def test_shard_that_hangs_is_killed_and_serves_again(begin: Begin) -> None:
    node = begin(answer_s=5.0, ping_s=0.5)
    pid = node.add("1")["pid"]
    os.kill(pid, signal.SIGSTOP)
    away = node.await_row(name="1", state="away")
    assert "it was killed by signal 9: it had not answered for 5 s" in away["sentence"]
    assert node.await_row(name="1", state="serving")["pid"] != pid


def test_shard_that_cannot_start_is_given_up_with_its_own_reason(begin: Begin) -> None:
    node = begin(pauses_s=[0.0, 0.0])
    node.add("1")
    folder_of(node.folder, "west").mkdir(parents=True)
    (folder_of(node.folder, "west") / "messages.sqlite").write_bytes(b"no database, but longer than a header" * 100)
    node.tell(add="west")
    stopped = node.await_row(name="west", state="stopped")["sentence"]
    assert stopped.startswith(
        "shard 'west' is stopped: it died 3 times in 60 s, the last time it ended with status 1: "
    )
    assert "messages.sqlite" in stopped
    assert node.ask("1", "GET", "/overview")
    os.remove(folder_of(node.folder, "west") / "messages.sqlite")
    node.tell(revive="west")
    assert node.await_row(name="west", state="serving")


def test_stop_ends_shards_in_order_and_leaves_no_process(begin: Begin) -> None:
    node = begin()
    node.add("1")
    node.add("west")
    filled(node, "west", 1)
    node.end_input()
    assert node.await_row(stopped=True)
    assert node.await_row(name="west", state="stopped")["sentence"].startswith("shard 'west' has been stopped for")
    node.await_end_of_all()
    again = Node(node.folder)
    with again:
        again.add("west")
        assert again.ask("west", "GET", "/queues/%2f/orders")["messages"] == 1


def test_shard_that_does_not_stop_is_killed(begin: Begin) -> None:
    node = begin(stop_s=1.0, ping_s=0.1, answer_s=100.0)
    os.kill(node.add("1")["pid"], signal.SIGSTOP)
    node.end_input()
    assert node.await_row(stopped=True)
    node.await_end_of_all()


def test_killed_zygote_is_reported_and_takes_all_shards(begin: Begin) -> None:
    node = begin()
    node.add("1")
    os.kill(node.zygote, signal.SIGKILL)
    assert node.await_row(lost=None)["lost"] == "the zygote of the shards has ended, and all shards with it"
    node.await_end_of_all()


def test_killed_node_takes_hanging_shards_with_it(begin: Begin) -> None:
    node = begin()
    os.kill(node.add("1")["pid"], signal.SIGSTOP)
    node.add("west")
    node.process.kill()
    node.await_end_of_all()


def test_restarted_shard_serves_its_messages_from_another_process(begin: Begin) -> None:
    node = begin()
    first, second = node.add("1"), node.add("west")
    filled(node, "west", 3)
    node.tell(restart="west")
    assert node.await_row(name="west", state="stopping")["pid"] == second["pid"]
    again = node.await_row(name="west", state="serving")
    assert again["pid"] not in (0, second["pid"])
    assert node.ask("west", "GET", "/queues/%2f/orders")["messages"] == 3
    assert os.path.exists(f"/proc/{first['pid']}")


def test_shard_killed_during_its_restart_serves_again(begin: Begin) -> None:
    node = begin()
    first = node.add("1")
    filled(node, "1", 2)
    os.kill(first["pid"], signal.SIGSTOP)
    node.tell(restart="1")
    node.await_row(name="1", state="stopping")
    os.kill(first["pid"], signal.SIGKILL)
    assert node.await_row(name="1", state="serving")["pid"] != first["pid"]
    assert node.ask("1", "GET", "/queues/%2f/orders")["messages"] == 2


def test_stop_of_the_node_overtakes_a_restart(begin: Begin) -> None:
    node = begin(stop_s=1.0, ping_s=0.1, answer_s=100.0)
    os.kill(node.add("1")["pid"], signal.SIGSTOP)
    node.tell(restart="1")
    node.await_row(name="1", state="stopping")
    node.end_input()
    assert node.await_row(stopped=True)
    assert node.await_row(name="1", state="stopped")
    node.await_end_of_all()


def test_stop_of_a_node_whose_zygote_hangs_ends_all_processes(begin: Begin) -> None:
    node = begin(stop_s=1.0, ping_s=0.1, answer_s=100.0)
    node.add("1")
    os.kill(node.zygote, signal.SIGSTOP)
    node.end_input()
    assert node.await_row(stopped=True)
    node.await_end_of_all()
