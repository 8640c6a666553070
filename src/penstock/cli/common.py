"""Shared parts of the commands: the main group, options, connections, tables, and error reports."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

import penstock
from penstock.cli.style import Colour, styled
from penstock.cli.target import URL, check_used, options_of, target_options
from penstock.errors import ConfigError, PenstockError
from penstock.texts import TIMES, amount, nearest, printable, printable_json, shown_bytes

if TYPE_CHECKING:
    from penstock.client.blocking import Connection

    WordChoice = click.Choice[str]
else:
    WordChoice = click.Choice  # It is generic from click 8.2 on.

__all__ = ["JSON", "URL", "main"]  # URL is defined in target.py.

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as in shells."""
NUMBER = re.compile(r"-?\d{1,18}")
OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Error numbers of the system when help cannot be written."""
NARROWEST: Final = 12
"""Letters of the narrowest column that a terminal makes of a wider one."""
JSON = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


def _print_version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    """Print the version and the form, which takes a look at all files, and end."""
    if wanted and not context.resilient_parsing:
        form = "compiled" if penstock.compiled() else "interpreted"
        with writing():
            click.echo(f"penstock {penstock.__version__} ({form})")
        context.exit()


class OutputError(PenstockError):
    """Failed write to standard output: its disk is full, or its reader has exited."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write the output: {error.strerror}")
        self.quiet = error.errno == errno.EPIPE
        """True if the reader has closed its pipe, as `head` does: it wants no more."""


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Turn a failed write to standard output into an OutputError; buffered output is dropped."""
    try:
        yield
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # The interpreter flushes it at exit.
        raise OutputError(error) from None


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, also one that is there; a link is not followed. Raises ConfigError."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # /dev/null stays everybody's.
                os.fchmod(file.fileno(), 0o600)
                file.truncate()
            file.write(text)
    except OSError as error:
        problem = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise ConfigError(f"cannot write '{path}': {problem}") from None


MODULES: dict[str, str] = {
    name: module
    for module, names in {
        "penstock.cli.bench": ("bench",),
        "penstock.cli.completion": ("completion",),
        "penstock.cli.config": ("config",),
        "penstock.cli.cursors": ("cursor",),
        "penstock.cli.log_commands": ("analyze", "log"),
        "penstock.cli.man_page": ("man",),
        "penstock.cli.messages": ("publish", "consume", "get"),
        "penstock.cli.operator_commands": (
            *("why", "block", "unblock", "status", "set", "unset", "settings", "show", "connection", "sink"),
        ),
        "penstock.cli.policies": ("policies",),
        "penstock.cli.report": ("report",),
        "penstock.cli.serve": ("serve",),
        "penstock.cli.store_commands": ("backup", "check", "repair"),
        "penstock.cli.tls": ("tls",),
        "penstock.cli.top": ("top", "watch"),
        "penstock.cli.topology": ("declare", "bind", "unbind", "purge", "delete", "list"),
        "penstock.cli.definitions": ("definitions",),
        "penstock.cli.users": ("users", "permissions", "limits"),
        "penstock_simulation.command": ("plan", "replay"),
    }.items()
    for name in names
}
"""Modules that have the commands; each is loaded when one of its commands is first used, for most take long."""


SECTIONS: dict[str, tuple[str, ...]] = {
    "Run a broker": ("serve", "config", "backup", "check", "repair", "tls"),
    "See what happens": ("status", "top", "watch", "why", "list", "report"),
    "Messages": ("publish", "consume", "get", "purge"),
    "Queues, exchanges and bindings": ("declare", "bind", "unbind", "delete", "definitions", "cursor", "sink"),
    "Flow control and settings": ("block", "unblock", "set", "unset", "settings", "show", "policies", "connection"),
    "Users": ("users", "permissions", "limits"),
    "Logs and plans": ("analyze", "log", "plan", "replay"),
    "Measure": ("bench",),
    "Command line": ("completion", "man"),
}
"""Sections of the help, with their commands in order; others are in a section at the end."""
OTHERS = "Others"
SHORT_HELP = 200
"""Most letters of a command's first sentence in a list of commands."""


class CommandGroup(click.Group):
    """Group of commands; the options that name a broker may be given to it as well."""

    shows_target = False
    """True if its help has those options: otherwise only the help of its commands has them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params += target_options(hidden=not self.shows_target)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of a line, and check that it uses the options before it."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            near = nearest(name, self.list_commands(ctx))
            raise click.UsageError(f"no command '{name}'" + (f"; did you mean '{near}'?" if near else ""), ctx)
        found = super().resolve_command(ctx, args)
        if found[1] is not None and not ctx.resilient_parsing:
            check_used(ctx, str(found[0]), found[1])
        return found


class Commands(CommandGroup):
    """Main group; a failed write to standard output ends any command with one sentence."""

    group_class = CommandGroup
    shows_target = True

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; its module is imported here, and registers it if it knows the main group."""
        if cmd_name in MODULES and cmd_name not in self.commands:
            module = import_module(MODULES[cmd_name])
            if cmd_name not in self.commands:
                self.add_command(getattr(module, cmd_name), cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their sections."""
        names = self.list_commands(ctx)
        placed = {name for section in SECTIONS.values() for name in section}
        sections = {**SECTIONS, OTHERS: tuple(name for name in names if name not in placed)}
        width = max(len(name) for name in names)
        for section, its in sections.items():
            rows = [
                (name.ljust(width), command.get_short_help_str(SHORT_HELP))
                for name in its
                if name in names and (command := self.get_command(ctx, name)) is not None and not command.hidden
            ]
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows)

    def main(self, *args: Any, **options: Any) -> Any:
        """See `click.Group.main`, which writes help as well. A file that a command cannot use is one sentence."""
        options.setdefault("prog_name", "penstock")  # Also for `python -m penstock`.
        with report_errors():
            try:
                return super().main(*args, **options)
            except OSError as error:
                if error.filename is not None:
                    raise ConfigError(f"cannot use '{error.filename}': {error.strerror}") from None
                if error.errno not in OUTPUT_ERRORS:
                    raise
                raise OutputError(error) from None


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

    Start a broker with `penstock serve`, connect any AMQP client, and see which gates block publishers with
    `penstock why QUEUE`. Options that name a broker (--url, --profile and those of TLS) may be anywhere on the line.

    Exit codes: 0 success; 1 refused, with one sentence on standard error; 2 invalid command line; 130 interrupted.
    """


def say(sentence: str, err: bool = False) -> None:
    """Print a line for people; control characters in names are escaped, so that no name controls the terminal."""
    with contextlib.nullcontext() if err else writing():
        click.echo(printable(sentence), err=err)


def say_json(value: object, indent: int | None = None) -> None:
    """Print a JSON value for programs, escaped likewise."""
    with writing():
        click.echo(printable_json(json.dumps(value, indent=indent, ensure_ascii=False, default=str)))


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]], colours: Mapping[str, Colour] | None = None) -> None:
    """Print columns, as wide as their widest cell; on a terminal in colours, by column, and no wider than it."""
    lines = [tuple(printable(cell) for cell in row) for row in rows]
    widths = [max(len(line[column]) for line in (heads, *lines)) for column in range(len(heads))]
    if sys.stdout.isatty():
        widths = fitting(widths, shutil.get_terminal_size().columns)
    with writing():
        for number, line in enumerate((heads, *lines)):
            parts = []
            for head, text, width in zip(heads, line, widths, strict=True):
                colour = "heading" if number == 0 else colours[head](text) if colours and head in colours else None
                shown = text if len(text) <= width else text[: width - 1] + "…"
                parts.append(styled(shown, colour) + " " * (width - len(shown)))
            click.echo("  ".join(parts).rstrip())


def fitting(widths: list[int], columns: int) -> list[int]:
    """Return the widths of a table for a terminal: the widest columns get narrower, as long as they can be read."""
    found = list(widths)
    over = sum(found) + 2 * (len(found) - 1) - columns
    while over > 0 and max(found) > NARROWEST:
        found[found.index(max(found))] -= 1
        over -= 1
    return found


def cell(value: object) -> str:
    """Return a value as a table cell."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, dict):  # Arguments, as `pairs` reads them.
        return " ".join(
            f"{name}={str(item).lower() if isinstance(item, bool) else item}" for name, item in value.items()
        )
    return str(value)


def counted(count: int, one: str) -> str:
    """Return a number with its noun: 1 message, 2 messages."""
    return f"1 {one}" if count == 1 else f"{count:,} {one}s"


def pairs(words: tuple[str, ...]) -> dict[str, object]:
    """Parse NAME=VALUE words: digits are an integer, true and false a boolean, the rest text. Raises ConfigError."""
    found: dict[str, object] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"'{word}' is not NAME=VALUE")
        if name in found:
            raise ConfigError(f"'{name}' is given twice: give it once")
        found[name] = int(value) if NUMBER.fullmatch(value) else {"true": True, "false": False}.get(value, value)
    return found


class Seconds(click.FloatRange):
    """Seconds, or a time with a unit: 30, 30s, 5 min."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        given = amount(value, TIMES) if isinstance(value, str) else None
        return super().convert(value if given is None else float(given / 1000), param, ctx)


class OneOf(WordChoice):
    """Choice of words, which its option or argument shows; an unknown one is told with its near match."""

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """Return the text of an error."""
        near = nearest(str(value), [str(each) for each in self.choices])
        return f"no '{value}'; did you mean '{near}'?" if near else super().get_invalid_choice_message(value, ctx)


def print_result(as_json: bool, answer: dict[str, object], *sentences: str) -> None:
    """Print a result: sentences for people, each on its line, or the answer as JSON."""
    if as_json:
        say_json(answer)
        return
    for sentence in sentences:
        say(sentence)


def limits(level: dict[str, int | None]) -> str:
    """Return a capacity for people: in messages, bytes or both."""
    parts = [
        shown_bytes(value) if unit == "bytes" else f"{value:,} {unit}"
        for unit, value in level.items()
        if value is not None
    ]
    return " and ".join(parts) or "no limit"


def percent(value: float | None) -> str:
    """Return a percentage for people."""
    return "-" if value is None else f"{value:g} %"


@contextlib.contextmanager
def control_session(url: str) -> Iterator[Connection]:
    """Connect to a broker. An error about a name that is not there ends with a near match of it."""
    from penstock.cli.near_names import near_match, near_vhost
    from penstock.client.blocking import Connection
    from penstock.client.errors import ChannelClosed, ControlError, LinkClosed, LoginRefused

    with report_errors():
        try:
            connection = Connection(options_of(url))
        except LoginRefused as error:
            raise ConfigError(f"{error}{near_vhost(url, error.text)}") from None
        with connection:
            try:
                yield connection
            except (ChannelClosed, LinkClosed, ControlError) as error:
                near = near_match(connection, error.text)
                if not near:
                    raise
                raise ConfigError(f"{error}{near}") from None


@contextlib.contextmanager
def report_errors() -> Iterator[None]:
    """Report a Penstock error in one sentence and exit with 1."""
    try:
        yield
    except PenstockError as error:
        if isinstance(error, OutputError) and error.quiet:
            sys.exit(1)
        click.echo(f"{styled('penstock:', 'alarm', err=True)} {printable(str(error))}", err=True)
        sys.exit(1)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Exit in order on Ctrl-C or SIGTERM: what the command holds is closed and given back first."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGTERM, before)
