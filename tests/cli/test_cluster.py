"""Commands `cluster status` and `cluster restart`."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import BrokerProcess, eventually, penstock_command, serving, settings_file
from tests.support.commands import refused, run, told

NO_SHARDS = "this broker has no shards: `penstock serve --shards N` starts a node with some"


@pytest.mark.parametrize("words", [("cluster", "status"), ("cluster", "restart"), ("cluster", "restart", "2")])
def test_commands_about_shards_are_refused_by_a_plain_broker(broker: BrokerProcess, words: tuple[str, ...]) -> None:
    assert NO_SHARDS in refused(*words, "--url", broker.url)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("node")
    settings = settings_file(folder, '[broker]\nvhosts = ["/", "west"]\n')
    with serving(folder, *settings, "--shards", "2", "--data", str(folder / "data")) as found:
        for shard in range(2):
            eventually(lambda shard=shard: shards(found)[shard]["state"] == "serving", f"shard {shard + 1} serves")
        yield found


def status(node: BrokerProcess) -> dict[str, Any]:
    return json.loads(penstock_command("cluster", "status", "--json", "--url", node.url).stdout)


def shards(node: BrokerProcess) -> list[dict[str, Any]]:
    return status(node)["shards"]


def rows(text: str) -> list[list[str]]:
    return [re.split(" {2,}", line.strip()) for line in text.splitlines()]


def test_status_is_a_table_of_shards_within_80_columns(node: BrokerProcess) -> None:
    done = penstock_command("cluster", "status", "--url", node.url)
    assert done.returncode == 0
    table = rows(done.stdout)
    assert table[0] == ["shard", "state", "for", "vhosts", "process", "restarts"]
    assert [(row[0], row[1], row[3]) for row in table[1:3]] == [("1", "serving", "/"), ("2", "serving", "west")]
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_restart_over_a_connection_of_the_first_shard_restarts_all(node: BrokerProcess) -> None:
    before = [each["pid"] for each in shards(node)]
    done = penstock_command("cluster", "restart", "--url", node.url)
    assert (done.returncode, done.stdout) == (0, "2 shards restarted\n"), done.stderr
    assert not set(before) & {each["pid"] for each in shards(node)}
    assert "the restart asked for by user 'guest' is done: 2 of 2 shards" in run(node, "cluster", "status")


def test_restart_of_one_shard_leaves_the_other_alone(node: BrokerProcess) -> None:
    before = [each["pid"] for each in shards(node)]
    assert told(node, "cluster", "restart", "2")["done"] == ["2"]
    after = [each["pid"] for each in shards(node)]
    assert (before[0] == after[0], before[1] == after[1]) == (True, False)


def test_detached_restart_goes_on_without_the_command(node: BrokerProcess) -> None:
    before = [each["pid"] for each in shards(node)]
    said = run(node, "cluster", "restart", "--detach")
    assert said == "the restart has begun; `penstock cluster status` shows its progress\n"
    eventually(lambda: status(node)["restart"]["state"] == "done", "the restart is done")
    assert not set(before) & {each["pid"] for each in shards(node)}


def test_restart_of_an_unknown_shard_is_refused(node: BrokerProcess) -> None:
    said = refused("cluster", "restart", "9", "--url", node.url)
    assert "no shard '9': this node has shards '1' and '2'" in said


def test_status_names_the_cause_of_a_death(node: BrokerProcess) -> None:
    west = f"{node.url}west"
    pid = shards(node)[0]["pid"]
    os.kill(pid, signal.SIGKILL)

    def serves_again() -> bool:
        row = json.loads(penstock_command("cluster", "status", "--json", "--url", west).stdout)["shards"][0]
        return row["state"] == "serving" and row["pid"] != pid

    eventually(serves_again, "another process of shard 1 serves")
    said = penstock_command("cluster", "status", "--url", west).stdout
    assert "shard '1': the last process to die was killed by signal 9" in said


def test_restart_needs_an_administrator_and_status_a_monitor(node: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret")
    run(node, "users", "add", "ops", "--tags", "monitoring", "--password-file", str(tmp_path / "password"))
    run(node, "permissions", "set", "ops", ".*", ".*", ".*")
    url = node.url.replace("guest:guest", "ops:secret")
    eventually(lambda: penstock_command("cluster", "status", "--url", url).returncode == 0, "the user is everywhere")
    assert "403" in refused("cluster", "restart", "--url", url)
