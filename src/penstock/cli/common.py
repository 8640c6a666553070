"""Shared parts of the commands: the main group, options, connections, tables, and error reports."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

import penstock
from penstock.errors import ConfigError, PenstockError
from penstock.setting_names.escapes import printable, printable_json

if TYPE_CHECKING:
    from penstock.client.connection import Connection
    from penstock.client.control import ControlClient
    from penstock.client.parameters import Parameters

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/"
NUMBER = re.compile(r"-?\d{1,18}")
OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Error numbers of the system when help cannot be written."""
TLS_META = "penstock.tls"
"""Key of the files for TLS in the context of a command."""


def _keep_file(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.meta.setdefault(TLS_META, {})[parameter.name] = value


_OF_BROKER = (
    click.option(
        "--url",
        default=DEFAULT_URL,
        envvar="PENSTOCK_URL",
        show_default=True,
        show_envvar=True,
        help="Connect to this broker; amqps:// is by TLS.",
    ),
    *(
        click.option(option, metavar="FILE", expose_value=False, callback=_keep_file, help=text)
        for option, text in (
            ("--cacert", "With amqps://, trust the authorities in this file instead of the system's."),
            ("--client-cert", "Show this certificate to the broker."),
            ("--client-key", "File of its key; default: that of the certificate."),
        )
    ),
)


def URL(command: Decorated) -> Decorated:
    """Add the options of a command that connects to a broker."""
    for option in reversed(_OF_BROKER):
        command = option(command)
    return command


JSON = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


def _version() -> str:
    return f"penstock {penstock.__version__} ({'compiled' if penstock.compiled() else 'interpreted'})"


class OutputError(PenstockError):
    """Failed write to standard output: its disk is full, or its reader has exited."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write the output: {error.strerror}")


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Turn a failed write to standard output into an OutputError; buffered output is dropped."""
    try:
        yield
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # The interpreter flushes it at exit.
        raise OutputError(error) from None


ELSEWHERE = {
    "plan": "penstock_simulation.command",
    "replay": "penstock_simulation.command",
}
"""Commands of other packages, with the modules that have them under the same name; they are loaded on first use."""


class Commands(click.Group):
    """Main group; a failed write to standard output ends any command with one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted([*super().list_commands(ctx), *ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; that of another package is imported here."""
        if cmd_name in ELSEWHERE:
            found: click.Command = getattr(import_module(ELSEWHERE[cmd_name]), cmd_name)
            return found
        return super().get_command(ctx, cmd_name)

    def main(self, *args: Any, **options: Any) -> Any:
        """See `click.Group.main`, which writes help as well."""
        with report_errors():
            try:
                return super().main(*args, **options)
            except OSError as error:
                if error.errno not in OUTPUT_ERRORS or error.filename is not None:
                    raise
                raise OutputError(error) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(message=_version())
def main() -> None:
    """Run and operate Penstock, a message broker that cannot be overrun.

    Start a broker with `penstock serve`, connect any AMQP client, and see which gates block publishers with
    `penstock why QUEUE`.

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


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print columns, as wide as their widest cell."""
    lines = [heads, *(tuple(printable(cell) for cell in row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    for line in lines:
        say("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def cell(value: object) -> str:
    """Return a value as a table cell."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return " ".join(f"{name}={item}" for name, item in value.items()) if isinstance(value, dict) else str(value)


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


def print_result(as_json: bool, answer: dict[str, object], sentence: str) -> None:
    """Print a result: a sentence for people, or the answer as JSON."""
    if as_json:
        say_json(answer)
    else:
        say(sentence)


def limits(level: dict[str, int | None]) -> str:
    """Return a capacity for people: in messages, bytes or both."""
    parts = [f"{value:,} {unit}" for unit, value in level.items() if value is not None]
    return " and ".join(parts) or "no limit"


def percent(value: float | None) -> str:
    """Return a percentage for people."""
    return "-" if value is None else f"{value:g} %"


@contextlib.contextmanager
def control_session(url: str) -> Iterator[ControlClient]:
    """Connect to a broker for control operations."""
    from penstock.client.control import ControlClient

    with connected(url) as connection, ControlClient(connection) as control:
        yield control


@contextlib.contextmanager
def connected(url: str) -> Iterator[Connection]:
    """Connect to a broker."""
    from penstock.client.connection import Connection
    from penstock.client.parameters import Parameters

    with report_errors():
        try:
            where = Parameters.from_url(url)
        except ValueError as error:
            raise ConfigError(f"--url: {error}") from None  # The URL itself may hold a password.
        where = _with_files(where)
        with Connection(where) as connection:
            yield connection


def _with_files(where: Parameters) -> Parameters:
    """Return the parameters with the files for TLS that the command was given. Raises ConfigError."""
    from penstock.client.parameters import tls_context

    context = click.get_current_context(silent=True)
    files: dict[str, str] = {} if context is None else context.meta.get(TLS_META, {})
    if not files:
        return where
    if where.tls is None:
        raise ConfigError(f"--{next(iter(files)).replace('_', '-')} needs an --url that begins with amqps://")
    try:
        return where._replace(tls=tls_context(files.get("cacert"), files.get("client_cert"), files.get("client_key")))
    except ValueError as error:
        raise ConfigError(str(error)) from None


@contextlib.contextmanager
def report_errors() -> Iterator[None]:
    """Report a Penstock error in one sentence and exit with 1."""
    try:
        yield
    except PenstockError as error:
        say(f"penstock: {error}", err=True)
        sys.exit(1)
