"""Grammar of the command line: nouns and verbs, former names, help."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from penstock.cli import main
from penstock.cli.grammar import CONNECTION_LINE, FORMER, PLACES, command_at, groups, rows, sections
from tests.support.brokers import PATIENCE, BrokerProcess, penstock_command
from tests.support.commands import run, told

MODULES = sorted({place.partition(":")[0] for place in PLACES.values() if not place.startswith("penstock_")})


def parse(line: str) -> None:
    """Parse a command of a help as the command line does, and carry nothing out. Raises click.ClickException."""
    words = shlex.split(re.sub(r"\$\([^)]*\)", "1", line))[1:]  # What a shell puts in is a number.
    context = click.Context(main, info_name="penstock")
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        command = found
    try:
        command.make_context(command.name, list(words), parent=context)
    except click.BadParameter as fault:
        if "does not exist" not in fault.message:
            raise


WITHOUT_JSON = {
    "penstock serve": "it runs until it is stopped; its log may be JSON",
    "penstock completion": "it prints a script",
    "penstock stop": "it prints one sentence, about signals",
    "penstock man": "it prints a page",
    "penstock help": "it prints a page",
    "penstock flow analyze": "its results are Parquet",
    "penstock logs compact": "its results are Parquet",
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


def test_command_answers_in_json() -> None:
    options = {path: {option for each in command.params for option in each.opts} for path, command in commands_of(main)}
    assert {path for path, names in options.items() if "--json" not in names} == set(WITHOUT_JSON)


@pytest.mark.parametrize("path", sorted(path for path, _ in commands_of(main)))
def test_command_has_examples_that_it_takes(path: str) -> None:
    if path == "penstock completion":
        return  # Its lines are for files of shells.
    command = dict(commands_of(main))[path]
    block = (command.help or "").partition("For example:\n")[2]
    examples = [found[0] for found in re.finditer(r"\bpenstock [a-z](?:(?! > )[^|&\n])*", block)]
    assert any(example.startswith(path) for example in examples), command.help
    for example in examples:
        parse(example.strip())


def test_former_name_leads_to_an_existing_command() -> None:
    for former, path in FORMER.items():
        assert command_at(path) is not None, former
        first, _, second = former.partition(" ")
        found = main.get_command(click.Context(main), first)
        if second:
            assert isinstance(found, click.Group)
            found = found.get_command(click.Context(found), second)
        assert found is command_at(path)
    assert not {former for former in FORMER if former in rows() or former in PLACES}


def test_former_command_line_works_as_the_present_one(broker: BrokerProcess, name: str) -> None:
    assert run(broker, "declare", "queue", name) == run(broker, "queues", "declare", name)
    assert told(broker, "set", "--override", "queue", name, "stop-percent=60") == told(
        broker, "queues", "set", name, "stop-percent=60", "--override"
    )
    assert told(broker, "show", "queue", name) == told(broker, "queues", "show", name)
    former, present = (told(broker, *line) for line in (("list", "--everywhere", "vhosts"), ("vhosts", "list")))
    assert ([*former], former["name"]) == ([*present], present["name"])
    assert run(broker, "block", "queue", name) == run(broker, "queues", "block", name)
    assert run(broker, "unset", "queue", name) == run(broker, "queues", "unset", name, "--if-exists").replace(
        "nothing is set for", "queue"
    ).replace(f"queue queue {name}", f"queue {name} nothing set by command\nqueue '{name}' matches {name}")
    assert run(broker, "delete", "queue", name) == f"queue {name} is deleted with 0 messages\n"


def test_help_lists_each_command_once_and_no_former_name() -> None:
    said = penstock_command("--help").stdout
    names = [name for its in sections().values() for name in its]
    assert sorted(names) == sorted({*names, *groups()}) == main.list_commands(click.Context(main))
    for name in names:
        assert re.search(rf"^  {re.escape(name)} ", said, re.MULTILINE)
    for former in FORMER:
        assert former.partition(" ")[0] in names or not re.search(
            rf"^  {former.partition(' ')[0]} ", said, re.MULTILINE
        )


def test_help_fits_into_eighty_columns() -> None:
    for path, command in commands_of(main):
        context = click.Context(command, info_name=path, terminal_width=80)
        prose = command.get_help(context).partition("For example:")[0]
        assert all(len(line) <= 80 for line in prose.splitlines()), path


def test_help_of_a_command_that_asks_a_broker_has_the_line_on_the_connection() -> None:
    for path, command in commands_of(main):
        asks = any(parameter.name == "url" for parameter in command.params)
        assert (command.epilog == CONNECTION_LINE) == asks, path


def test_options_of_the_connection_are_on_one_page() -> None:
    said = penstock_command("queues", "list", "--help").stdout
    assert "penstock help connection" in " ".join(said.split())
    assert "--cacert" not in said
    page = penstock_command("help", "connection").stdout
    for option in ("--url URL", "--profile NAME", "--cacert FILE", "--client-cert FILE", "--client-key FILE"):
        assert option in page


def test_help_of_a_command_is_that_of_its_option() -> None:
    assert penstock_command("help", "queues", "purge").stdout == penstock_command("queues", "purge", "--help").stdout
    assert penstock_command("help").stdout == penstock_command("--help").stdout
    assert "did you mean 'queues'?" in penstock_command("help", "queus").stderr


def test_version_loads_no_module_of_a_command_or_of_the_broker() -> None:
    question = "import sys, penstock.cli; sys.argv[1:] = ['--version']; penstock.cli.main(standalone_mode=False)"
    told = "print(*(name for name in sys.modules if name.startswith('penstock.')))"
    words = [sys.executable, "-c", f"{question}; {told}"]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.split()
    assert not {name for name in loaded if name.startswith(("penstock.operations", "penstock.client", "penstock.core"))}
    assert not {f"penstock.cli.{module}" for module in MODULES} & set(loaded)


def test_derived_command_starts_without_the_broker_and_without_asyncio() -> None:
    question = "import sys, penstock.cli; sys.argv[1:] = ['queues', 'purge', '--help']"
    told = "penstock.cli.main(standalone_mode=False); print(*sys.modules)"
    words = [sys.executable, "-c", f"{question}; {told}"]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout.split()
    assert not {name for name in loaded if name.startswith(("penstock.core", "penstock.management", "penstock.driver"))}
    assert not {"asyncio", "penstock.cli.messages", "penstock.cli.serve"} & set(loaded)


def test_command_modules_start_without_asyncio() -> None:
    slow = ("asyncio", "importlib.metadata", "tomllib", "textual")
    modules = ", ".join(f"penstock.cli.{module}" for module in MODULES)
    question = f"import sys, {modules}; sys.exit(any(name in sys.modules for name in {slow}))"
    assert subprocess.run([sys.executable, "-c", question], check=False, timeout=PATIENCE).returncode == 0


def test_garbage_of_a_command_is_not_collected_while_it_imports_a_server() -> None:
    code = (
        "import atexit, gc; from penstock.cli import main; gc.collect(); begun = gc.get_stats()[1]['collections'];"
        "atexit.register(lambda: print(gc.get_stats()[1]['collections'] - begun)); main(['serve', '--check'])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0"
