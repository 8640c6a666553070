"""Errors, output and help that all commands share."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from penstock.cli import main
from penstock.cli.common import MODULES
from tests.support.brokers import PATIENCE, BrokerProcess, penstock_command
from tests.support.commands import run


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("declare", "queue", "q", "capacity-bytes"), "'capacity-bytes' is not NAME=VALUE"),
        (("declare", "queue", "q", "a=1", "a=2"), "'a' is given twice: give it once"),
        (("declare", "queue", "q", "capacity-bites=1"), "did you mean capacity-bytes?"),
        (("declare", "exchange", "e", "--type", "odd"), "unknown exchange type 'odd'; known are direct, fanout, topic"),
        (("declare", "exchange", "e", "--type", "topics"), "unknown exchange type 'topics'; did you mean 'topic'?"),
        (("bind", "no-such-exchange", "q"), "404"),
        (("consume", "no-such-queue"), "404"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(broker: BrokerProcess, words: tuple[str, ...], says: str) -> None:
    refused = run(broker, *words, code=1)
    assert says in refused
    assert refused.startswith("penstock: ")
    assert len(refused.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [("list", "exchanges"), ("list", "exchanges", "--json"), ("status",), ("status", "--json"), ("why",), ("settings",),
     ("show", "broker"), ("definitions", "export"), ("get", "QUEUE"), ("get", "QUEUE", "--json")],
    ids=" ".join,
)  # fmt: skip
def test_output_that_is_full_is_one_sentence_and_one_that_is_closed_is_none(
    broker: BrokerProcess, name: str, words: tuple[str, ...]
) -> None:
    run(broker, "declare", "queue", name)
    run(broker, "publish", name, "x")
    given = [name if word == "QUEUE" else word for word in words]
    command = [sys.executable, "-m", "penstock", *given, "--url", broker.url]
    assert into_full_device(command) == (1, "penstock: cannot write the output: No space left on device\n")
    reading, closed = os.pipe()
    os.close(reading)
    with os.fdopen(closed, "w") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (1, ""), "a reader such as head wants no more"
    assert broker.queue(name)["depth"]["messages"] == 1, "what could not be printed is in the queue still"


@pytest.mark.parametrize(
    "words",
    [("--help",), ("list", "--help"), ("--version",),
     ("serve", "--listen", "127.0.0.1:0", "--memory", "--quiet")],
    ids=" ".join,
)  # fmt: skip
def test_help_and_the_line_that_says_ready_need_an_output_as_well(words: tuple[str, ...]) -> None:
    done = into_full_device([sys.executable, "-m", "penstock", *words])
    assert done == (1, "penstock: cannot write the output: No space left on device\n")


def into_full_device(command: list[str]) -> tuple[int, str]:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    return done.returncode, done.stderr


def test_url_that_is_none_is_one_sentence() -> None:
    done = penstock_command("list", "queues", "--url", "http://127.0.0.1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "penstock: --url: a broker's URL starts with amqp:// or amqps://, not with http://\n"


@pytest.mark.parametrize(
    "command",
    ["declare queue", "declare exchange", "declare vhost", "bind", "unbind", "publish", "consume", "get", "purge",
     "delete queue", "delete exchange", "delete vhost", "delete cursor", "cursor show",
     "cursor move", "list", "status", "why", "definitions export",
     "definitions import"],
)  # fmt: skip
def test_every_command_has_an_example_in_its_help(command: str) -> None:
    words = " ".join(penstock_command(*command.split(), "--help").stdout.split())
    assert f"For example: penstock {command}" in words or f"penstock {command} " in words.partition("For example")[2]


def test_command_other_than_serve_starts_without_asyncio_which_would_take_a_third_of_its_start() -> None:
    slow = ("asyncio", "importlib.metadata", "tomllib", "textual")
    modules = sorted({module for module in MODULES.values() if module.startswith("penstock.")})
    question = f"import sys, {', '.join(modules)}; sys.exit(any(name in sys.modules for name in {slow}))"
    assert subprocess.run([sys.executable, "-c", question], check=False, timeout=PATIENCE).returncode == 0


def test_command_is_loaded_when_it_is_used_and_others_are_not() -> None:
    question = "import sys, penstock.cli; sys.argv[1:] = ['status', '--help']; penstock.cli.main(standalone_mode=False)"
    told = "print(*(name for name in sys.modules if name.startswith('penstock.cli.')))"
    words = [sys.executable, "-c", f"{question}; {told}"]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.split()
    assert "penstock.cli.operator_commands" in loaded
    assert not {"penstock.cli.serve", "penstock.cli.topology", "penstock.cli.messages"} & set(loaded)


def test_every_command_of_a_module_is_in_the_table_of_modules() -> None:
    for module in MODULES.values():
        importlib.import_module(module)
    its = {name: command for name, command in main.commands.items() if command.callback is not None}
    assert {name: command.callback.__module__ for name, command in its.items()} == {
        name: module for name, module in MODULES.items() if name in its
    }
    assert set(MODULES) - set(its) <= {"plan", "replay"}, "these do not know the main group"


@pytest.mark.parametrize(
    "name", ["connection", "cursor", "declare", "definitions", "delete", "limits", "log", "permissions", "policies",
             "tls", "users"]
)  # fmt: skip
def test_command_is_whole_when_only_its_own_module_is_loaded(name: str) -> None:
    """A module that adds a command to the group of another one is not there when that group is used."""
    program = """
import importlib, sys, click
from penstock.cli.common import MODULES, main
def names(command): return sorted(command.commands) if isinstance(command, click.Group) else []
alone = names(main.get_command(click.Context(main), sys.argv[1]))
for module in MODULES.values(): importlib.import_module(module)
assert names(main.get_command(click.Context(main), sys.argv[1])) == alone, alone
"""
    done = subprocess.run(
        [sys.executable, "-c", program, name], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr


WITHOUT_JSON = {
    "penstock serve": "it runs until it is stopped; its log may be JSON",
    "penstock completion": "it prints a script",
    "penstock man": "it prints a page",
    "penstock analyze": "its results are Parquet",
    "penstock log compact": "its results are Parquet",
}
"""Commands without --json, with the reason."""


def commands_of(group: click.Group, path: str = "penstock") -> Iterator[tuple[str, click.Command]]:
    """Return all commands below a group that are no groups."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands_of(command, f"{path} {name}")
        elif command is not None:
            yield f"{path} {name}", command


def test_every_command_answers_in_json_as_well() -> None:
    options = {path: {option for each in command.params for option in each.opts} for path, command in commands_of(main)}
    assert {path for path, names in options.items() if "--json" not in names} == set(WITHOUT_JSON)


def test_help_has_each_command_in_a_section() -> None:
    said = penstock_command("--help").stdout
    assert "Run a broker:\n  serve" in said
    assert "\nOthers:" not in said
