"""Bridges of a shard: its own worker carries them, also to another shard, and goes on after the shard was killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from tests.support.brokers import BrokerProcess, eventually, penstock_command, serving, settings_file

MESSAGES = 200


def command(node: BrokerProcess, vhost: str, *words: str) -> str:
    """Run a command in a virtual host, which must end well."""
    done = penstock_command(*words, "--url", node.url + vhost)
    assert done.returncode == 0, done.stderr
    return done.stdout


def depth(node: BrokerProcess, vhost: str, queue: str) -> int:
    return int(json.loads(command(node, vhost, "why", queue, "--json"))["depth"]["messages"])


def shards(node: BrokerProcess) -> dict[str, dict[str, Any]]:
    done = penstock_command("cluster", "status", "--json", "--url", node.url)  # Its code is 1 while one is away.
    rows = json.loads(done.stdout)["shards"]
    return {row["shard"]: row for row in rows}


def publish(node: BrokerProcess, queue: str) -> None:
    bodies = [str(number) for number in range(MESSAGES)]
    command(node, "b", "queues", "publish", queue, *bodies, "--persistent")


def test_bridges_of_a_shard_carry_within_it_and_to_another_shard_through_kills(tmp_path: Path) -> None:
    file = settings_file(tmp_path, '[broker]\nvhosts = ["/", "b"]\n')
    with serving(tmp_path, "--shards", "2", "--data", str(tmp_path / "data"), *file) as node:
        for vhost, queue in (("b", "orders"), ("b", "near"), ("", "far")):
            command(node, vhost, "queues", "declare", queue)
        command(node, "b", "bridges", "declare", "first", "orders", "amqp:///b?queue=near")
        publish(node, "orders")
        eventually(lambda: depth(node, "b", "near") == MESSAGES, "the first bridge carries")
        second = shards(node)["2"]
        os.kill(second["pid"], signal.SIGKILL)
        eventually(lambda: shards(node)["2"]["starts"] == 2, "the shard is started again")
        target = f"amqp://guest:guest@{node.host}:{node.port}/?queue=far"
        command(node, "b", "bridges", "declare", "second", "near", target)
        publish(node, "orders")
        eventually(lambda: depth(node, "", "far") >= 2 * MESSAGES, "both bridges carry")
        assert (depth(node, "b", "orders"), depth(node, "b", "near")) == (0, 0)
        assert node.stop() == 0
        assert "Traceback" not in node.log()


def test_bridge_to_a_vhost_of_another_shard_needs_an_address(tmp_path: Path) -> None:
    file = settings_file(tmp_path, '[broker]\nvhosts = ["/", "b"]\n')
    with serving(tmp_path, "--shards", "2", "--data", str(tmp_path / "data"), *file) as node:
        command(node, "b", "queues", "declare", "orders")
        done = penstock_command("bridges", "declare", "x", "orders", "amqp:///?queue=far", "--url", node.url + "b")
        assert done.stderr == (
            "penstock: bridge 'x' in vhost 'b': vhost '/' is not in the shard of vhost 'b': give the address of this "
            "node, a user and a password in the URL (406 precondition-failed)\n"
        )
