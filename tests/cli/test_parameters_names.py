"""Commands about names that do not exist: refused in one sentence, with the near match."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers import BrokerProcess, penstock_command, serving
from tests.support.commands import run

REFUSED = [
    *(f"{command} ordres" for command in ("purge", "get", "consume --timeout 1", "delete queue", "why", "show queue")),
    *("block queue ordres", "watch ordres --count 1", "bind logs ordres", "publish ordres one"),
]
"""Commands about a queue that is not there."""
OTHERS = [
    ("bind lgos orders", "logs"), ("publish key one --exchange lgos", "logs"), ("delete exchange lgos", "logs"),
    ("block address lgos", "logs"), ("show address lgos", "logs"), ("block vhost stagnig", "staging"),
    ("show vhost stagnig", "staging"), ("delete vhost stagnig", "staging"), ("permissions clear aad", "ada"),
    ("block user aad", "ada"), ("show user aad", "ada"), ("users show aad --each-connection", "ada"),
    ("users tags aad monitoring", "ada"), ("limits set user aad max-channels=1", "ada"),
    ("policies clear shrot", "short"),
    *((f"bridges {verb} prais", "paris") for verb in ("show", "pause", "resume", "restart", "delete")),
]  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("near")) as broker:
        run(broker, "declare", "queue", "orders")
        run(broker, "declare", "exchange", "logs")
        run(broker, "declare", "vhost", "staging")
        run(broker, "users", "add", "ada", "--no-password")
        run(broker, "bridges", "declare", "paris", "orders", "amqp://127.0.0.1:1")
        run(broker, "policies", "set", "short", "^none$", "max-length=1")
        yield broker


@pytest.mark.parametrize(("line", "near"), [*((line, "orders") for line in REFUSED), *OTHERS])
def test_unknown_name_is_refused_with_the_nearest_name(served: BrokerProcess, line: str, near: str) -> None:
    done = penstock_command(*line.split(), "--url", served.url)
    assert done.returncode == 1
    assert f"; did you mean '{near}'?" in done.stdout + done.stderr
    assert "channel is closed" not in done.stderr


def test_unknown_user_is_not_blocked(served: BrokerProcess) -> None:
    assert run(served, "block", "user", "nosuch", code=1) == "penstock: no user 'nosuch' (404 not-found)\n"
    run(served, "block", "user", "ada")
    run(served, "unblock", "user", "ada")


def test_pattern_that_matches_nothing_has_its_near_match(served: BrokerProcess) -> None:
    for scope, name, near in (("queue", "ordres", "orders"), ("user", "aad", "ada"), ("vhost", "stagnig", "staging")):
        setting = "rate-messages=9" if scope == "user" else "stop-percent=60"
        assert f"it will apply to new ones; did you mean '{near}'?" in run(served, "set", scope, name, setting)
    assert "user 'ada' matches ada" in run(served, "set", "user", "ada", "rate-messages=9")
    assert "did you mean" not in run(served, "set", "queue", "ordre.*", "stop-percent=60")


def test_words_of_the_command_line_have_their_near_match(served: BrokerProcess) -> None:
    assert "no command 'stauts'; did you mean 'status'?" in run(served, "stauts", code=2)
    assert "no command 'relod'; did you mean 'reload'?" in run(served, "tls", "relod", code=2)
    assert "no 'queus'; did you mean 'queues'?" in run(served, "list", "queus", code=2)
    assert "'--colums'" in run(served, "list", "queues", "--colums", "name", code=2)
    assert "did you mean capacity-messages?" in run(served, "set", "queue", "orders", "capacty-messages=1", code=1)
    tagged = penstock_command("users", "tags", "ada", "monitorng", "--url", served.url)
    assert tagged.stderr == "tag monitorng permits nothing; did you mean monitoring?\n"


def test_virtual_host_of_the_url_has_its_near_match(served: BrokerProcess) -> None:
    done = penstock_command("status", "--url", served.url + "stagnig")
    assert done.stderr.endswith(": vhost stagnig not found (530); did you mean 'staging'?\n")
    done = penstock_command("queues", "list", "--vhost", "zzzzzzzz", "--url", served.url)
    hint = "; `penstock vhosts list --vhost /` lists all virtual hosts"
    assert done.stderr.endswith(f": vhost zzzzzzzz not found (530){hint}\n")
    assert done.returncode == 1
