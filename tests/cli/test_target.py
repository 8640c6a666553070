"""Options that select the broker of a command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brokers import PATIENCE, BrokerProcess

NOBODY = "amqp://127.0.0.1:1/"


def penstock(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    every = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return subprocess.run(
        [sys.executable, "-m", "penstock", *words], capture_output=True, text=True, check=False, timeout=PATIENCE,
        env={**every, "XDG_CONFIG_HOME": "/nonexistent", **environment},
    )  # fmt: skip


def test_url_may_be_anywhere_on_the_line_and_the_last_one_counts(broker: BrokerProcess) -> None:
    for words in (
        ("--url", broker.url, "users", "list"),
        ("users", "--url", broker.url, "list"),
        ("--url", NOBODY, "users", "list", "--url", broker.url),
    ):
        done = penstock(*words, PENSTOCK_URL=NOBODY)
        assert (done.returncode, done.stderr) == (0, "")
        assert "guest" in done.stdout


def test_vhost_may_be_anywhere_on_the_line_and_counts_before_that_of_the_url(own_broker: BrokerProcess) -> None:
    vhost, queue = "a/b c", "of-a-b"
    assert penstock("vhosts", "declare", vhost, "--url", own_broker.url).returncode == 0
    assert penstock("queues", "declare", queue, "--url", own_broker.url, "--vhost", vhost).returncode == 0
    for words in (
        ("--vhost", vhost, "queues", "list", "--url", own_broker.url),
        ("queues", "list", "--url", f"{own_broker.url}none", "-p", vhost),
        ("queues", "-p", "none", "list", "--vhost", vhost, "--url", own_broker.url),
    ):
        done = penstock(*words)
        assert (done.returncode, done.stderr) == (0, ""), words
        assert queue in done.stdout
    assert queue not in penstock("queues", "list", "--url", own_broker.url).stdout
    done = penstock("-p", vhost, "man")
    assert "'man' connects to no broker and takes no --vhost" in done.stderr


def test_profile_is_a_broker_by_name(broker: BrokerProcess, tmp_path: Path) -> None:
    file = tmp_path / "profiles.toml"
    file.write_text(f'[here]\nurl = "{broker.url}"\n[default]\nurl = "{NOBODY}"\n')
    file.chmod(0o600)
    found = {"PENSTOCK_PROFILES": str(file)}
    for words, environment in (
        (("--profile", "here", "list", "vhosts"), {"PENSTOCK_URL": NOBODY}),
        (("list", "vhosts", "--profile", "here"), {}),
        (("list", "vhosts"), {"PENSTOCK_PROFILE": "here"}),
        (("list", "vhosts"), {"PENSTOCK_PROFILE": "none", "PENSTOCK_URL": broker.url}),
        (("--profile", "none", "list", "vhosts", "--url", broker.url), {}),
    ):
        done = penstock(*words, **found, **environment)
        assert (done.returncode, done.stderr) == (0, ""), words
    assert "cannot connect to 127.0.0.1:1" in penstock("list", "vhosts", **found).stderr, "the profile `default`"
    assert "no profile 'her' in" in penstock("list", "vhosts", "--profile", "her", **found).stderr
    file.chmod(0o644)
    done = penstock("list", "vhosts", "--profile", "here", **found)
    assert done.returncode == 0
    assert done.stderr.startswith("penstock: warning: others can read the password in ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("list", "queues", "--url", "amqp://", "--profile", "x"), "give one of --url and --profile"),
        (("--url", "amqp://", "--profile", "x", "list", "queues"), "give one of --url and --profile"),
        (("--url", "amqp://", "check"), "'check' connects to no broker and takes no --url"),
    ],
)
def test_options_that_contradict_are_an_invalid_command_line(words: tuple[str, ...], says: str) -> None:
    done = penstock(*words)
    assert done.returncode == 2
    assert says in done.stderr
