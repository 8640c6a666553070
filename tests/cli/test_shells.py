"""Scripts of completion, and a real bash that completes with its script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.grammar import COMPLETION
from penstock.cli.shells import VARIABLE
from tests.support.brokers import PATIENCE, BrokerProcess, eventually, penstock_command
from tests.support.commands import run


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """A directory with the program `penstock`."""
    program = tmp_path / "penstock"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m penstock "$@"\n')
    program.chmod(0o755)
    return tmp_path


SPLIT = """
eval "$(penstock completion bash)"
COMP_LINE=$1; COMP_POINT=${#1}; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_penstock_completion penstock
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""Calls the function as bash does, with the line and with the words that bash has broken it into."""


def offered(shell: Path, line: str, *words: str, url: str = "") -> list[str]:
    environment = {**os.environ, "PATH": f"{shell}:{os.environ['PATH']}", "PENSTOCK_URL": url, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["bash", "-c", SPLIT, "bash", line, *words],
        env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.stderr in ("", "bash: line 1: compopt: not currently executing completion function\n") or all(
        "compopt" in each for each in done.stderr.splitlines()
    ), done.stderr
    return [each for each in done.stdout.splitlines() if each]


@pytest.mark.parametrize(
    ("shell_name", "word"), [("bash", "complete -o nosort"), ("zsh", "#compdef"), ("fish", "complete ")]
)
def test_script_is_for_the_shell(shell_name: str, word: str) -> None:
    said = penstock_command("completion", shell_name).stdout
    assert word in said
    assert VARIABLE in said
    assert VARIABLE == COMPLETION, "the variable that the command looks for"


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_script_is_valid_where_its_shell_is_installed(name: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(penstock_command("completion", name).stdout)
    try:
        done = subprocess.run([name, "-n", str(script)], capture_output=True, text=True, check=False, timeout=PATIENCE)
    except FileNotFoundError:
        pytest.skip(f"{name} is not installed")
    assert (done.returncode, done.stderr) == (0, "")


def test_bash_completes_commands_and_settings_at_its_word_breaks(shell: Path) -> None:
    assert offered(shell, "penstock delete qu", "penstock", "delete", "qu") == ["queue"]
    line = "penstock queues set x capacity-m"
    assert offered(shell, line, *line.split()) == ["capacity-messages="]
    broken = ("penstock", "queues", "set", "x", "overflow", "=", "drop-n")
    assert offered(shell, "penstock queues set x overflow=drop-n", *broken) == ["drop-new"]
    assert "drop-new" in offered(shell, "penstock queues set x overflow=", *broken[:-1])
    assert offered(shell, "penstock queues ", "penstock", "queues", "")[:2] == ["list", "declare"]


def test_bash_inserts_names_quoted(shell: Path, own_broker: BrokerProcess) -> None:
    names = {"two words": r"two\ words", "$(touch x)": r"\$\(touch\ x\)", "it's": r"it\'s", "a;b|c": r"a\;b\|c",
             "注文": "注文", "star*": r"star\*"}  # fmt: skip
    for name in names:
        run(own_broker, "queues", "declare", name)
    url = own_broker.url

    def all_names() -> bool:
        return set(offered(shell, "penstock queues purge ", "penstock", "queues", "purge", "", url=url)) == {
            *names.values()
        }

    eventually(all_names, "the names, escaped")
    quoted = offered(shell, 'penstock queues purge "two', "penstock", "queues", "purge", '"two', url=url)
    assert quoted in ([], ["two words"]), "as they are inside of quotes; a slow broker gives none"
    escaped = ("penstock", "queues", "purge", "two\\ w")
    eventually(
        lambda: offered(shell, "penstock queues purge two\\ w", *escaped, url=url) == [r"two\ words"], "the rest"
    )


def test_connection_is_completed_behind_its_colon(shell: Path, own_broker: BrokerProcess) -> None:
    run(own_broker, "queues", "declare", "orders")
    words = ("penstock", "connections", "close", "con", ":")
    found = offered(shell, "penstock connections close con:", *words, url=own_broker.url)
    assert all(not each.startswith("con") for each in found), "bash replaces what is behind the colon only"
