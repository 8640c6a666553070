"""Main group of the command line, groups of its nouns, former names, and the modules of commands.

Commands of one operation come from the rows of `penstock.operations`. `PLACES` has the others: the module of a command
is imported when it is used, because most imports are slow.
"""

from __future__ import annotations

import functools
import gc
import inspect
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

import penstock
from penstock.cli.common import INTERRUPTED, OUTPUT_ERRORS, OutputError, report_errors, writing
from penstock.cli.target import check_used, target_options
from penstock.errors import ConfigError
from penstock.texts import SCOPE_NOUNS, nearest

if TYPE_CHECKING:
    from penstock.operations.command import Command, Listing
    from penstock.operations.commands import Noun

COMPLETION: Final = "_PENSTOCK_COMPLETE"
"""Environment variable by which a shell asks for completions."""
SHORT_HELP: Final = 200
"""Most characters of a command's first sentence in a list of commands."""
CONNECTION_LINE: Final = "Which broker: --url, --profile, TLS; see `penstock help connection`."
BEFORE_EXAMPLES: Final = re.compile(r"For\s+example:\s+")
EXAMPLES: Final = re.compile(r",? (?:or|and)(?: without a log:)? (?=penstock )")
"""Words between two examples."""
VERBS: Final = (
    *("list", "declare", "add", "create", "show", "set", "unset", "publish", "consume", "get", "browse", "watch"),
)
"""Order of verbs in the help of a noun; others follow by name."""
FIRST_COLLECTION: Final = 50_000
"""New objects until a command's first garbage collection: Python's default of 700 costs 5 % of its start, and frees
nothing."""
PLACES: Final[dict[str, str]] = {
    "serve": "serve:serve",
    "config": "looking:config",
    "status": "status:status",
    "why": "looking:why",
    "top": "top:top",
    "report": "report:report",
    "version": "service:version",
    "ping": "service:ping",
    "health": "service:health",
    "stop": "service:stop",
    "logs where": "service:where",
    "cluster status": "cluster:status",
    "cluster restart": "cluster:restart",
    "bench": "bench:bench",
    "completion": "pages:completion",
    "help": "pages:help_",
    "man": "pages:man",
    "queues publish": "messages:publish",
    "queues consume": "messages:consume",
    "queues get": "messages:get",
    "messages browse": "browsing:browse",
    "messages move": "moving:move",
    "bridges run": "bridges:run",
    "queues watch": "top:watch",
    "alarms list": "alarms:list_",
    "cursors show": "looking:show_cursor",
    "users add": "users:add_user",
    "users passwd": "users:change_password",
    "definitions export": "definitions:export",
    "definitions import": "definitions:import_",
    "definitions check": "definitions:check",
    "store backup": "store:backup",
    "store check": "store:check",
    "store repair": "store:repair",
    "tls self-signed": "tls:self_signed",
    "flow analyze": "flow_logs:analyze",
    "flow plan": "penstock_simulation.command:plan",
    "flow replay": "penstock_simulation.command:replay",
    "logs compact": "flow_logs:compact",
}
"""Commands that are more than one operation, with their modules and functions."""
OMITTED_VERBS: Final = {"alarms": "list", "logs": "where"}
"""Nouns whose name alone is a command, with its verb."""
GROUPS: Final = {
    "cluster": "Show and restart the shards of a node.",
    "store": "Back up, check and repair the store of a broker.",
    "tls": "Make certificates for development, and reload the certificates of a running broker.",
    "definitions": "Export definitions, check and import them: queues, exchanges, bindings, policies, users.",
    "flow": "Analyze blocked producers, plan settings, and replay a recorded time with other settings.",
    "logs": "Print where the logs are, and keep flow logs.",
}
"""Groups besides the nouns of operations."""
SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Run a broker": ("serve", "stop", "config", "cluster", "store", "tls"),
    "See what happens": ("status", "health", "ping", "top", "why", "report"),
    "": (),
    "Definitions, logs and plans": ("definitions", "flow", "logs"),
    "Measure": ("bench",),
    "Command line": ("help", "version", "completion", "man"),
}
"""Sections of the help, with their commands in order; commands of the nouns are at the empty section."""
FORMER: Final[dict[str, str]] = {
    "declare queue": "queues declare",
    "declare exchange": "exchanges declare",
    "declare vhost": "vhosts declare",
    "delete queue": "queues delete",
    "delete exchange": "exchanges delete",
    "delete vhost": "vhosts delete",
    "delete cursor": "cursors delete",
    "bind": "bindings declare",
    "unbind": "bindings delete",
    **{verb: f"queues {verb}" for verb in ("publish", "consume", "get", "purge", "watch")},
    **{
        f"list {noun}": f"{noun} list"
        for noun in ("queues", "exchanges", "bindings", "connections", "channels", "consumers", "cursors", "vhosts")
    },
    **{
        f"{verb} {scope}": f"{noun} {verb}"
        for verb in ("set", "unset", "show", "block", "unblock")
        for scope, noun in SCOPE_NOUNS.items()
        if scope != "producer" and (verb in ("set", "unset", "show") or scope != "broker")
    },
    "connection close": "connections close",
    "sink assign": "sinks assign",
    **{f"cursor {verb}": f"cursors {verb}" for verb in ("create", "show", "move", "release", "delete")},
    **{f"{noun} clear": f"{noun} delete" for noun in ("policies", "permissions", "limits")},
    **{verb: f"store {verb}" for verb in ("backup", "check", "repair")},
    **{verb: f"flow {verb}" for verb in ("analyze", "plan", "replay")},
    "log compact": "logs compact",
}  # fmt: skip
"""Former names of commands, which no help lists, and present ones."""


ALSO: Final[dict[str, str]] = {
    f"messages {verb}": f"queues {verb}" for verb in ("redrive", "copy", "publish", "consume", "get", "purge")
}
"""Further names of commands that are looked for at two nouns; no help lists them."""


ADDED: Final[dict[str, tuple[Noun, Sequence[Command | Listing]]]] = {}
"""Added nouns with their commands."""


@functools.cache
def rows() -> dict[str, Command | Listing]:
    """Return the rows of derived commands, by their paths."""
    from penstock.operations.command_lists import LISTINGS
    from penstock.operations.commands import COMMANDS

    found: list[Command | Listing] = [*LISTINGS, *COMMANDS]
    for _, added in ADDED.values():
        found += added
    return {row.path: row for row in found}


def add_noun(name: str, noun: Noun, commands: Sequence[Command | Listing]) -> None:
    """Add a noun to the commands, with its help and its rows."""
    ADDED[name] = (noun, commands)
    _forget()


def drop_noun(name: str) -> None:
    """Remove an added noun."""
    del ADDED[name]
    _forget()


def _forget() -> None:
    for made in (rows, nouns, places, groups, sections, command_at):
        made.cache_clear()


@functools.cache
def nouns() -> dict[str, Noun]:
    """Return the nouns of commands that ask a broker."""
    from penstock.operations.commands import NOUNS

    return {**NOUNS, **{name: noun for name, (noun, _) in ADDED.items()}}


@functools.cache
def places() -> dict[str, str]:
    """Return the place in which each command acts, by its path; the others contact no broker, or start one."""
    from penstock.operations.command import BROKER, EITHER, VHOST, acts_in

    one_by_one = ("queues publish", "queues consume", "queues get", "queues watch", "messages browse", "cursors show")
    return {
        **{path: acts_in(row) for path, row in rows().items()},
        **dict.fromkeys(one_by_one, VHOST),
        "messages move": "the virtual hosts of its two URLs",
        "status": f"{VHOST} for queues, the whole broker for the rest",
        "why": f"{VHOST} for a queue, the whole broker for the rest",
        "top": EITHER,
        **dict.fromkeys(("config", "report", "users add", "users passwd", "alarms list"), BROKER),
        **dict.fromkeys(("health", "ping", "logs where", "cluster status", "cluster restart"), BROKER),
        "definitions export": f"{BROKER}, or {VHOST} with --here",
        "definitions import": f"{BROKER}, or {VHOST} with --here, or the one of --into",
    }


@functools.cache
def groups() -> dict[str, str]:
    """Return the help of each group."""
    return {**{noun: row.help for noun, row in nouns().items()}, **GROUPS}


@functools.cache
def sections() -> dict[str, tuple[str, ...]]:
    """Return the sections of the help, with their commands in order."""
    found: dict[str, tuple[str, ...]] = {}
    for section, names in SECTIONS.items():
        if section:
            found[section] = names
            continue
        for noun, row in nouns().items():
            found[row.section] = (*found.get(row.section, ()), noun)
        for path in rows():
            if " " not in path:
                found["Settings and policies"] += (path,)
    return found


@functools.cache
def command_at(path: str) -> click.Command | None:
    """Return the command or group of a path such as "queues purge"; None if there is none."""
    if path in PLACES:
        module, _, name = PLACES[path].partition(":")
        found: click.Command = getattr(
            import_module(module if module.startswith("penstock_") else f"penstock.cli.{module}"), name
        )
    elif path in rows():
        from penstock.cli.derived import derived

        found = derived(rows()[path])
    elif path in groups():
        return NounGroup(path, help=groups()[path])
    elif path in FORMER:
        return command_at(FORMER[path])
    elif path in ALSO:
        return command_at(ALSO[path])
    elif any(former.startswith(f"{path} ") for former in FORMER):
        return FormerGroup(path, help="Former names; `penstock --help` has the present ones.")
    else:
        return None
    return dressed(found)


def dressed(command: click.Command) -> click.Command:
    """Return a command whose help has its examples on lines of their own, and the line on the connection."""
    if any(parameter.name == "url" for parameter in command.params):
        command.epilog = CONNECTION_LINE
    if "\b\nFor example:" not in (command.help or ""):
        command.help = with_examples(command.help or "")
    return command


def with_examples(text: str) -> str:
    """Return a help with each example on a line of its own, ready to copy."""
    prose, *examples = BEFORE_EXAMPLES.split(inspect.cleandoc(text), 1)
    if not examples:
        return text
    lines = EXAMPLES.sub("\n", " ".join(examples[0].split()))
    return f"{prose.rstrip()}\n\n\b\nFor example:\n" + "\n".join(f"  {line}" for line in lines.split("\n"))


class CommandGroup(click.Group):
    """Group of commands, which also accepts the options that name a broker."""

    what = "command "
    """Word for an unknown command in sentences."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params += target_options()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of a group that is written by hand."""
        found = super().get_command(ctx, cmd_name)
        return None if found is None else dressed(found)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of a line, and check that it uses the options before it."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            raise click.UsageError(self.unknown(ctx, name), ctx)
        found = super().resolve_command(ctx, args)
        if found[1] is not None and not ctx.resilient_parsing:
            check_used(ctx, str(found[0]), found[1])
        return found

    def unknown(self, ctx: click.Context, name: str) -> str:
        """Return the sentence about an unknown command."""
        near = nearest(name, self.list_commands(ctx))
        similar = f"; did you mean '{near}'?" if near else ""
        return f"no {self.what}'{name}'{self.habit(name) or similar}"

    def habit(self, name: str) -> str:
        """Return the clause about a command of other brokers' tools; "" if the name is none of theirs."""
        return ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with the whole first sentence of each."""
        self.write_section(ctx, formatter, "Commands", tuple(self.list_commands(ctx)))

    def write_section(
        self, ctx: click.Context, formatter: click.HelpFormatter, title: str, names: tuple[str, ...]
    ) -> None:
        """Write some commands."""
        width = max(len(name) for name in self.list_commands(ctx))
        found = ((name, self.get_command(ctx, name)) for name in names)
        with formatter.section(title):
            formatter.write_dl(
                [(name.ljust(width), each.get_short_help_str(SHORT_HELP)) for name, each in found if each is not None]
            )


class NounGroup(CommandGroup):
    """Group of the commands of a noun."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Add the verb that a noun may omit."""
        verb = OMITTED_VERBS.get(self.name or "")
        verbs = self.list_commands(ctx)
        if verb is not None and not any(word in verbs or word in ctx.help_option_names for word in args):
            args = [verb, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs of the noun."""
        paths = (path.partition(" ") for path in (*rows(), *PLACES))
        found = sorted(verb for noun, _, verb in paths if noun == self.name and verb)
        return sorted(found, key=lambda verb: VERBS.index(verb) if verb in VERBS else len(VERBS))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, also by a former verb."""
        return command_at(f"{self.name} {cmd_name}")


class FormerGroup(CommandGroup):
    """Verb of former lines, such as `declare queue`; options may be between its words."""

    what = ""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, context_settings={"ignore_unknown_options": True}, hidden=True, **options)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the words that follow the verb."""
        return sorted(path.partition(" ")[2] for path in FORMER if path.startswith(f"{self.name} "))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command that a word stands for."""
        return command_at(FORMER.get(f"{self.name} {cmd_name}", ""))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of a line, whose word may stand behind options."""
        place = next((number for number, word in enumerate(args) if word in self.list_commands(ctx)), 0)
        return super().resolve_command(ctx, [args[place], *args[:place], *args[place + 1 :]])


class Commands(CommandGroup):
    """Main group; a failed write to standard output ends any command with one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands and groups except the former names."""
        return sorted(name for names in sections().values() for name in names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, also by a former name."""
        return None if " " in cmd_name else command_at(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their sections."""
        for title, names in sections().items():
            self.write_section(ctx, formatter, title, names)

    def habit(self, name: str) -> str:
        """See `CommandGroup.habit`."""
        from penstock.cli.habits import habit_of

        found = habit_of(name)
        return f": it is `penstock {found}` here" if found else ""

    def invoke(self, ctx: click.Context) -> Any:
        """Carry out a command; Ctrl-C ends any with the exit code of shells."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    def main(self, *args: Any, **options: Any) -> Any:
        """See `click.Group.main`, which writes help as well. The error for an unusable file is one sentence."""
        options.setdefault("prog_name", "penstock")  # Also for `python -m penstock`.
        if COMPLETION in os.environ:
            from penstock.cli.shells import register  # A command that runs completes nothing.

            register()
        gc.set_threshold(FIRST_COLLECTION)
        with report_errors():
            try:
                return super().main(*args, **options)
            except OSError as error:
                if error.filename is not None:
                    raise ConfigError(f"cannot use '{error.filename}': {error.strerror}") from None
                if error.errno not in OUTPUT_ERRORS:
                    raise
                raise OutputError(error) from None


def _print_version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    """Print the version and the build, which examines all files, and exit."""
    if wanted and not context.resilient_parsing:
        with writing():
            click.echo(f"penstock {penstock.__version__} ({penstock.build()})")
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Run and operate Penstock, a message broker that cannot be overrun.

    \b
    penstock serve                        run a broker on this machine
    penstock queues declare orders        declare a queue
    penstock queues publish orders hello  send a message to it
    penstock queues list                  see depth, fill and gate of all queues
    penstock why orders                   see who is blocked, and what helps

    A command is a noun and a verb: `penstock NOUN --help` lists the verbs. Options that name a broker (--url, --profile
    and those of TLS) may be anywhere on the line: see `penstock help connection`.

    Exit codes: 0 success; 1 refused, with one sentence on standard error; 2 invalid command line; 130 interrupted.
    """
