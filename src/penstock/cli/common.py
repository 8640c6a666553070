"""Shared parts of the commands: options, connections, tables, and error reports."""

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli.target import options_of
from penstock.errors import ConfigError, PenstockError
from penstock.texts import TIMES, amount, nearest, printable, printable_json

if TYPE_CHECKING:
    from penstock.client.blocking import Connection

    WordChoice = click.Choice[str]
else:
    WordChoice = click.Choice  # It is generic from click 8.2 on.

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as in shells."""
OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Error numbers of the system when help cannot be written."""
NARROWEST: Final = 12
"""Letters of the narrowest column that a terminal makes of a wider one."""


# Colours: on a terminal only, and never with NO_COLOR (https://no-color.org)

STYLES: Final[dict[str, dict[str, Any]]] = {
    "heading": {"bold": True},
    "alarm": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow"},
    "good": {"fg": "green"},
}
"""Styles by meaning."""
FULL_PERCENT: Final = 80.0
"""Fill from which a queue is shown as nearly full."""
PERCENT: Final = re.compile(r"([\d.]+) %$")
Colour = Callable[[str], str | None]
"""Function from the text of a cell to the name of its style; None for no style."""


def coloured(err: bool = False) -> bool:
    """Tell whether output may have colours: it is a terminal that knows them, and NO_COLOR is empty or not set."""
    stream = sys.stderr if err else sys.stdout
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def styled(text: str, style: str | None, err: bool = False) -> str:
    """Return a text in a style; as it is without one, or where colours are not wanted."""
    return text if style is None or not text or not coloured(err) else click.style(text, **STYLES[style])


def alarm_unless(*good: str) -> Colour:
    """Return a colour: an alarm for every other text than these."""
    return lambda text: None if text in good else "alarm"


def of_fill(text: str) -> str | None:
    """Return the style of a fill in percent."""
    match = PERCENT.search(text)
    if match is None:
        return None
    percent = float(match[1])
    return "alarm" if percent >= 100 else "warning" if percent >= FULL_PERCENT else None


COLUMN_COLOURS: Final[dict[str, Colour]] = {
    "gate": lambda text: "alarm" if text == "closed" else "good",
    "blocked": alarm_unless("0", "-"),
    "blocks": alarm_unless("0", "-"),
    "fill": of_fill,
    "state": alarm_unless("running", "-"),
    "held": alarm_unless("0", "-"),
    "withheld": alarm_unless("0", "-"),
    "waits for": alarm_unless("-"),
}
"""Styles of columns, by name."""


# Output and errors


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


@contextlib.contextmanager
def control_session(url: str) -> Iterator[Connection]:
    """Connect to a broker. An error about a name that is not there ends with a near match of it."""
    from penstock.cli.names import near_match, near_vhost
    from penstock.client.blocking import Connection
    from penstock.client.errors import ChannelClosed, ControlError, LinkClosed, LoginRefused

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


def asked(url: str, operation: str, **fields: object) -> dict[str, Any]:
    """Return the answer of a broker."""
    with control_session(url) as control:
        return control.request(operation, **fields)


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
