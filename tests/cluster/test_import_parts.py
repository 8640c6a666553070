"""Definitions that are imported into a node of two shards: parts, lines of errors, and files of the start."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client.errors import ControlError
from penstock.sync import Connection
from tests.cluster.test_parent import Node
from tests.support.brokers import eventually
from tests.support.two_shards import HANGING, client, named, two_shards


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with two_shards(tmp_path) as found:
        yield found


def definitions() -> dict[str, Any]:
    return {
        "vhosts": [{"name": name} for name in ("/", "west", "south")],
        "users": [{"name": "carol", "password_hash": "", "tags": ""}],
        "permissions": [{"user": "carol", "vhost": name, "configure": "", "write": "", "read": ".*"}
                        for name in ("/", "south")],
        "queues": [{"name": f"q{number}", "vhost": name, "durable": True}
                   for number, name in enumerate(("/", "west", "south"))],
        "parameters": [{"component": "vhost-limits", "vhost": "west", "name": "limits", "value": {"max-queues": 5}}],
    }  # fmt: skip


def imported(asking: Connection, file: object, **more: object) -> Any:
    return asking.request("definitions.import", definitions=json.dumps(file, indent=1), **more)


def test_import_reaches_the_shard_of_each_vhost(node: Node) -> None:
    with client(node, "west") as asking:
        planned = imported(asking, definitions(), everywhere=True, dry_run=True)
        assert planned["counts"] == {"refused": 0, "without effect": 0, "changed": 0, "created": 8, "as it is": 2}
        assert "south" not in node.do(look=True)["vhosts"]
        made = imported(asking, definitions(), everywhere=True)
        assert made["made"] == {"vhosts": 1, "users": 1, "permissions": 2, "queues": 3, "limits": 1}
        rows = asking.request("list", kind="queues", everywhere=True)["items"]
        assert sorted(named(rows)) == [("/", "q0"), ("south", "q2"), ("west", "q1")]
        assert imported(asking, definitions(), everywhere=True)["made"] == {}
        with pytest.raises(ControlError, match=r"line \d+, queues\[3\]: no vhost 'nowhere'; nothing was imported"):
            imported(
                asking,
                {**definitions(), "queues": [*definitions()["queues"], {"name": "x", "vhost": "nowhere"}]},
                everywhere=True,
            )
        assert imported(asking, {"queues": [{"name": "mine"}]})["made"] == {"queues": 1}
        rows = asking.request("list", kind="queues")["items"]
        assert ("west", "mine") in named(rows)


def test_import_that_one_shard_refuses_names_the_parts(node: Node) -> None:
    file = {"users": [{"name": "dora", "password_hash": "", "tags": ""}],
            "queues": [{"name": "fine", "vhost": "/"}, {"name": "good", "vhost": "west"},
                       {"name": "x", "vhost": "west", "arguments": {"x-max-length": "many"}}]}  # fmt: skip
    with client(node) as asking:
        with pytest.raises(ControlError) as raised:
            imported(asking, file, everywhere=True)
        text = str(raised.value)
        assert "queues[2]" in text
        assert (
            "of shard '2' nothing was imported; users, virtual hosts and permissions of the file are imported, and the "
            "part of shard '1'"
        ) in text
        rows = asking.request("list", kind="queues", everywhere=True)["items"]
        assert named(rows) == [("/", "fine")]
        assert "dora" in [user["name"] for user in asking.request("user.list")["users"]]


def test_import_with_a_hanging_shard_names_it_and_imports_the_other_parts(tmp_path: Path) -> None:
    file = {"vhosts": [{"name": "south"}], "queues": [{"name": "q", "vhost": "/"}, {"name": "q", "vhost": "west"}]}
    with two_shards(tmp_path, **HANGING) as node, client(node) as asking:
        pid = node.state("2")["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(ControlError) as raised:
                imported(asking, file, everywhere=True)
            assert (
                "shard '2' imports nothing: it does not have the change yet; of shard '2' nothing was imported; users, "
                "virtual hosts and permissions of the file are imported, and the part of shard '1'"
            ) in str(raised.value)
        finally:
            os.kill(pid, signal.SIGCONT)
        eventually(lambda: "penstock.missing" not in asking.request("top", everywhere=True), "answers of both")
        imported(asking, file, everywhere=True)
        rows = asking.request("list", kind="queues", everywhere=True)["items"]
        assert sorted(named(rows)) == [("/", "q"), ("west", "q")]
