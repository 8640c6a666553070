"""Completion: scripts for shells, and names from the broker."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brokers import PATIENCE, BrokerProcess, eventually, penstock_command, some_name
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


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -o nosort"), ("zsh", "#compdef"), ("fish", "complete ")]
)
def test_script_is_for_the_shell(shell: str, word: str) -> None:
    said = penstock_command("completion", shell).stdout
    assert word in said
    assert "_PENSTOCK_COMPLETE" in said


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    program = tmp_path / "penstock"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m penstock "$@"\n')
    program.chmod(0o755)
    question = (
        'eval "$(penstock completion bash)"; COMP_WORDS=(penstock delete qu); COMP_CWORD=2; '
        '_penstock_completion penstock; echo "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", question], env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (done.stdout, done.stderr) == ("queue\n", "")
