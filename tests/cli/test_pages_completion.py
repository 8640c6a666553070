"""Completion: scripts for shells, and names from the broker."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.brokers import PATIENCE, BrokerProcess, eventually, some_name
from tests.support.commands import run


def completed(*words: str, url: str = "") -> list[str]:
    """Return what a shell would offer for the last of these words."""
    line = {"COMP_WORDS": " ".join(("penstock", *words)), "COMP_CWORD": str(len(words))}
    variables = {**os.environ, **line, "_PENSTOCK_COMPLETE": "zsh_complete", "PENSTOCK_URL": url}
    done = subprocess.run(
        [sys.executable, "-m", "penstock"], env=variables, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()[1::3]


def offered(names: list[str], *words: str, url: str = "") -> None:
    """Check what a shell would offer; a machine that is slow for a moment gets no names in time, and is asked again."""
    eventually(lambda: completed(*words, url=url) == names, f"{names} for {words}")


def test_commands_and_options_are_completed_without_a_broker() -> None:
    assert completed("que") == ["queues"]
    assert completed("queues", "pu") == ["publish", "purge"]
    assert completed("queues", "list", "--ur") == ["--url"]
    assert completed("wat") == []
    assert completed("list", "queues", "--fil") == ["--filter"]
    assert completed("declare", "") == ["exchange", "queue", "vhost"]


def test_names_come_from_the_broker(broker: BrokerProcess) -> None:
    prefix = some_name("named")
    run(broker, "declare", "queue", f"{prefix}-1")
    run(broker, "declare", "queue", f"{prefix}-2")
    run(broker, "declare", "queue", f"{prefix}\x1bodd")
    run(broker, "declare", "exchange", f"{prefix}-x")
    names = [f"{prefix}-1", f"{prefix}-2"]
    for words in (("queues", "purge"), ("queues", "block"), ("bindings", "declare", "amq.topic")):
        offered(names, *words, prefix, url=broker.url)
    for words in (("purge",), ("why",), ("delete", "queue"), ("block", "queue"), ("bind", "amq.topic")):
        offered(names, *words, prefix, url=broker.url)
    for words in (("bind",), ("delete", "exchange"), ("bind", "--exchange", "amq.topic"), ("publish", "--exchange")):
        offered([f"{prefix}-x"], *words, prefix, url=broker.url)
    offered(["guest"], "users", "passwd", "gue", url=broker.url)
    offered([f"{prefix}-2"], "--url", broker.url, "purge", f"{prefix}-2")


def test_broker_that_does_not_answer_gives_no_names_and_no_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert completed("purge", "x", url=f"amqp://127.0.0.1:{silent.getsockname()[1]}/") == []
    assert completed("purge", "x", url="http://none") == []


def test_users_without_tags_and_names_of_all_kinds_are_completed_by_their_rights(
    own_broker: BrokerProcess, tmp_path: Path
) -> None:
    broker = own_broker
    run(broker, "queues", "declare", "orders")
    run(broker, "vhosts", "declare", "staging")
    run(broker, "users", "add", "anna", "--no-password", "--tags", "management")
    run(broker, "permissions", "set", "anna", ".*", ".*", ".*")
    run(broker, "cursors", "create", "billing", "orders")
    file = tmp_path / "none.json"
    file.write_text("{}")
    run(broker, "definitions", "import", str(file))
    offered(["staging"], "vhosts", "delete", "sta", url=broker.url)
    offered(["anna"], "permissions", "set", "an", url=broker.url)
    offered(["billing"], "cursors", "show", "b", url=broker.url)
    offered(["orders"], "queues", "set", "ord", url=broker.url)
    offered(["1"], "jobs", "show", "", url=broker.url)
    offered([], "leases", "end", "", url=broker.url)


def test_settings_limits_and_tags_are_completed_without_a_broker() -> None:
    assert completed("queues", "declare", "q", "capacity-m") == ["capacity-messages="]
    assert completed("queues", "set", "q", "overflow=drop-") == ["overflow=drop-head", "overflow=drop-new"]
    assert completed("queues", "unset", "q", "hold-d") == ["hold-deadline"]
    assert completed("users", "tags", "anna", "mon") == ["monitoring"]
    assert completed("limits", "set", "user", "anna", "max-ch") == ["max-channels="]
    assert completed("queues", "declare", "q", "x-dead-letter-e") == ["x-dead-letter-exchange="]
