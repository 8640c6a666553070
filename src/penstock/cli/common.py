"""Shared parts of the commands: options, connections, and error reports."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from penstock.cli.cells import beginning, width
from penstock.cli.target import tls_files
from penstock.errors import ConfigError, PenstockError
from penstock.settings.kind import NAMED_MOST, NUMBER_MOST, Choices, InvalidValue, Kind, Number
from penstock.texts import SCOPE_NOUNS, nearest, printable, printable_json

if TYPE_CHECKING:
    from penstock.client.blocking import Connection
    from penstock.client.options import Options

PRODUCT: Final = "penstock-cli"
"""Name of a command as a client; the broker logs connections of operators' commands at the level debug."""
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as in shells."""
OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""System error numbers that mean that help cannot be written."""
NARROWEST: Final = 12
"""Cells of the narrowest terminal for which sentences are wrapped."""
WRAPPED: Final = "  "
"""Indentation of the further lines of a sentence that is wider than its terminal."""


# Colours: on a terminal only, and never with NO_COLOR (https://no-color.org)

STYLES: Final[dict[str, dict[str, Any]]] = {
    "heading": {"bold": True},
    "alarm": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow"},
    "good": {"fg": "green"},
}
"""Styles by meaning."""


def coloured(err: bool = False) -> bool:
    """Return whether output may have colours: it is a terminal with colours, and NO_COLOR is empty or not set."""
    stream = sys.stderr if err else sys.stdout
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def styled(text: str, style: str | None, err: bool = False) -> str:
    """Return a text in a style; unchanged without a style, or without colours."""
    return text if style is None or not text or not coloured(err) else click.style(text, **STYLES[style])


# Output and errors


class OutputError(PenstockError):
    """Failed write to standard output: its disk is full, or its reader has exited."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write the output: {error.strerror}")
        self.quiet = error.errno == errno.EPIPE
        """True if the reader has closed its pipe, as `head` does, and wants no more output."""


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
    """Write a file that only its owner can read, even if it exists; a link is not followed. Raises ConfigError."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # /dev/null stays readable by all.
                os.fchmod(file.fileno(), 0o600)
                file.truncate()
            file.write(text)
    except OSError as error:
        problem = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise ConfigError(f"cannot write '{path}': {problem}") from None


def say(sentence: str, err: bool = False) -> None:
    """Print a line of text; control characters in names are escaped, so that no name controls the terminal.

    On a terminal the line is wrapped at spaces. Programs that read a pipe get one line.
    """
    text = printable(sentence)
    if (sys.stderr if err else sys.stdout).isatty():
        import shutil  # This import takes 3 ms, and loads compression libraries.

        text = wrapped(text, shutil.get_terminal_size().columns)
    with contextlib.nullcontext() if err else writing():
        click.echo(text, err=err)


def wrapped(text: str, columns: int) -> str:
    """Return a sentence in lines of a terminal, later lines indented; a longer word has a line of its own."""
    if columns < NARROWEST:
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        rest = line
        while width(rest) > columns:
            begin = len(rest) - len(rest.lstrip())
            most = len(beginning(rest, columns))
            end = rest.rfind(" ", begin, most + 1)
            end = rest.find(" ", most) if end < 0 else end
            if end < 0:
                break
            lines.append(rest[:end].rstrip())
            rest = f"{WRAPPED}{rest[end:].lstrip()}"
        lines.append(rest)
    return "\n".join(lines)


def say_json(value: object, indent: int | None = None) -> None:
    """Print a JSON value for programs, with the same escapes."""
    with writing():
        click.echo(printable_json(json.dumps(value, indent=indent, ensure_ascii=False, default=str)))


class Word(click.FloatRange):
    """Word that is a number of a kind, with its units; the help shows its bounds."""

    def __init__(self, kind: Number) -> None:
        low, high = kind.least > -NUMBER_MOST, kind.most < NAMED_MOST
        super().__init__(kind.least if low else None, kind.most if high else None, min_open=kind.above)
        self.kind = kind
        self.name = {"s": "seconds", "bytes": "bytes"}.get(kind.unit, "integer" if kind.whole else "number")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. Raises UsageError with the sentence of its kind."""
        return _read_word(self.kind, value, param, ctx)


class OneOf(click.Choice):  # type: ignore[type-arg]  # It is generic from click 8.2 on.
    """Choice of words, which its option or argument shows; the error for an unknown word has its near match."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word. Raises UsageError with the sentence of its kind."""
        return _read_word(Choices([str(each) for each in self.choices], folded=False), value, param, ctx)


def _read_word(kind: Kind, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
    label = "it" if param is None else param.opts[-1] if isinstance(param, click.Option) else param.human_readable_name
    try:
        return kind.read(label, value)
    except InvalidValue as error:
        raise click.UsageError(str(error), ctx) from None


def print_result(as_json: bool, answer: dict[str, object], *sentences: str) -> None:
    """Print a result: sentences, each on its line, or the answer as JSON."""
    if as_json:
        say_json(answer)
        return
    for sentence in sentences:
        say(sentence)


# Connections


def options_of(url: str, **fields: object) -> Options:
    """Return the options of a connection, with the TLS files of the present command. Raises ConfigError."""
    found = given_options(url, **fields)
    if found["protocol"] == "auto":
        found.values["protocol"] = "amqp091"  # It needs half of the imports.
    return found


def given_options(url: str, **fields: object) -> Options:
    """Return the options of a connection as `options_of`, with the protocol as it is given."""
    from penstock.client.options import Options

    try:
        tls = _tls_of_files(url.startswith("amqps:"))
        return Options(url, {"product": PRODUCT, "reconnect": False, **fields} | ({} if tls is None else {"tls": tls}))
    except ValueError as error:
        raise ConfigError(f"--url: {error}") from None  # The URL itself may contain a password.


def _tls_of_files(is_encrypted: bool) -> Any:
    """Return the context of the TLS files of the present command; None without files. Raises ConfigError."""
    files = tls_files()
    if not files:
        return None
    if not is_encrypted:
        raise ConfigError(f"--{next(iter(files)).replace('_', '-')} needs an --url that begins with amqps://")
    from penstock.client.tls import tls_context

    try:
        return tls_context(files.get("cacert"), files.get("client_cert"), files.get("client_key"))
    except ValueError as error:
        raise ConfigError(str(error)) from None


@contextlib.contextmanager
def control_session(url: str, **options: object) -> Iterator[Connection]:
    """Connect to a broker. An error about an unknown name ends with a near match of it.

    Ctrl-C may end the client within a frame, so that it cannot close the connection in order: that is no error.
    """
    from penstock.client.blocking import Connection
    from penstock.client.errors import ChannelClosed, ControlError, LinkClosed, LoginRefused

    try:
        connection = Connection(options_of(url, **options))
    except LoginRefused as error:
        raise ConfigError(f"{error}{near_vhost(url, error.text)}") from None
    try:
        with connection:
            try:
                yield connection
                report_missing(connection)
            except (ChannelClosed, LinkClosed, ControlError) as error:
                near = near_match(connection, error.text)
                if not near:
                    raise
                raise ConfigError(f"{error}{near}") from None
    except PenstockError as error:
        if _is_interrupted(error):
            raise KeyboardInterrupt from None
        raise


def report_missing(connection: Connection) -> None:
    """Report shards of a node that were missing in the answers of a connection."""
    say_missing(connection.core().absent_shards)


def say_missing(shards: Mapping[str, str]) -> None:
    """Report shards of a node that were missing in an answer, each with the reason."""
    for shard, reason in shards.items():
        text = reason if reason.startswith("shard ") else f"shard '{shard}' is missing in this answer: {reason}"
        click.echo(f"{styled('penstock:', 'alarm', err=True)} {printable(text)}", err=True)


def _is_interrupted(error: BaseException | None) -> bool:
    """Return whether an error was raised while Ctrl-C was handled."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def asked(url: str, operation: str, **fields: object) -> dict[str, Any]:
    """Return the answer of a broker to an operation."""
    with control_session(url) as control:
        return control.request(operation, **fields)


def ask(connection: Connection, operation: str, fields: dict[str, Any], is_method: bool) -> dict[str, Any]:
    """Return the answer to an operation, or to a method of the protocol."""
    if not is_method:
        return connection.request(operation, **fields)
    found: dict[str, Any] = connection.run(connection.core().calling(operation, fields))
    return found


def listed(connection: Connection, operation: str, fields: dict[str, Any], key: str) -> Iterator[dict[str, Any]]:
    """Yield the items of a list, page by page if the broker has pages."""
    if operation == "list":
        yield from connection.list(**fields)
    elif key == "users":
        more, fields = True, {**fields, "count": PAGE}
        while more:
            answer = connection.request(operation, **fields)
            yield from answer[key]
            more = answer["more"]
            fields["after"] = answer[key][-1]["name"] if answer[key] else ""
    else:
        answer = connection.request(operation, **fields)
        yield from answer[key] if key else [answer]


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
    """Exit in order on Ctrl-C or SIGTERM: resources of the command are closed and returned first."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGTERM, before)


# Near matches of names that the broker does not know

TIME_S: Final = 1.0
"""Seconds that requests for names may take; then there are no names and no near match."""
NAMES_MOST: Final = 5_000
"""Most names that are requested."""
OFFERED_MOST: Final = 200
"""Most names that are offered."""
PAGE: Final = 1000
"""Users requested at once."""
NAMED_LISTS: Final = {
    **{scope: SCOPE_NOUNS[scope] for scope in ("queue", "address", "vhost", "user")},
    "exchange": SCOPE_NOUNS["address"],
    "cursor": "cursors",
    "policy": "policies",
    "bridge": "bridges",
}
"""Lists of the broker, by the word for their items in a sentence or an argument."""

JOBS: Final = "jobs"
NAME_FIELDS: Final = {"connections": "penstock.name", "channels": "penstock.name", "leases": "number", "sinks": "query"}
"""Fields of lists with the names of their items, where they are others than `name`."""
BEGUN: Final = ("queues", "exchanges", "vhosts", "cursors", "bridges", "connections", "channels", "sinks")
"""Lists whose names with a beginning the broker chooses."""
OWN_LISTS: Final = {
    "users": ("user.list", "name"),
    "policies": ("policy.list", "name"),
    JOBS: (f"{JOBS[:-1]}.list", "id"),
}
"""Lists with an operation of their own, and the field of the name."""

UNKNOWN: Final = re.compile(
    rf"\bno ({'|'.join(NAMED_LISTS)}) '([^']*)'|^({'|'.join(NAMED_LISTS)}) '([^'*#]*)' matches no "
)


def near_match(connection: Connection, sentence: str) -> str:
    """Return the near match of an unknown name in a sentence, as its last clause; "" for none."""
    found = UNKNOWN.search(sentence)
    if found is None:
        return ""
    kind, name = found[1] or found[3], found[2] or found[4]
    try:
        near = nearest(name, names_listed(connection, NAMED_LISTS[kind]))
    except PenstockError:  # Users without a tag may not list anything.
        return ""
    return f"; did you mean '{near}'?" if near else ""


def near_vhost(url: str, sentence: str) -> str:
    """Return the near match of a virtual host that a refused login names, or the command that lists all; "" for another
    refusal.
    """
    from penstock.client.blocking import Connection

    found = re.search(r"vhost (\S+) not found", sentence)
    if found is None:
        return ""
    try:
        with Connection(options_of(url, virtual_host="/", connect_timeout=TIME_S, timeout=TIME_S)) as connection:
            near = near_match(connection, f"no vhost '{found[1]}'")
    except PenstockError:  # Without access to /.
        near = ""
    return near or "; `penstock vhosts list --vhost /` lists all virtual hosts"


def names_listed(connection: Connection, kind: str) -> list[str]:
    """Return the broker's names of a kind. Raises PenstockError."""
    fields: dict[str, object] = {"count": NAMES_MOST} if kind == "users" else {"everywhere": False}
    if kind in OWN_LISTS:
        operation, name = OWN_LISTS[kind]
        answer = ask_in_time(connection, operation, {} if kind == JOBS else fields)
        return [str(each[name]) for each in answer[kind]]
    names: list[str] = []
    after: int | None = 0
    while after is not None and len(names) < NAMES_MOST:
        page = ask_in_time(connection, "list", {"kind": kind, "after": after})
        names += [_name_of(each, kind) for each in page["items"]]
        after = page["next"]
    return names


def _name_of(item: dict[str, Any], kind: str) -> str:
    """Return the name of an item of a list; for connections and channels, the name in the log."""
    found: Any = item
    for part in NAME_FIELDS.get(kind, "name").split("."):
        found = found[part]
    return str(found)


def ask_in_time(connection: Connection, operation: str, fields: dict[str, object]) -> Any:
    """Return an answer that came within `TIME_S`. Raises PenstockError."""
    return connection.run(connection.core().requesting(operation, fields, TIME_S))


def add_names(where: Options, kind: str, begin: str, found: list[str]) -> None:
    """Add names that a shell accepts to `found`; runs in a thread, which is abandoned after TIME_S."""
    from penstock.client.blocking import Connection

    try:
        with Connection(where) as connection:
            names = _begun(connection, kind, begin) if kind in BEGUN else names_listed(connection, kind)
    except (PenstockError, OSError):
        return
    found += [name for name in names if name.startswith(begin) and name.isprintable()][:OFFERED_MOST]


def _begun(connection: Connection, kind: str, begin: str) -> list[str]:
    """Return the first names of a list with this beginning, which the broker chooses."""
    field = NAME_FIELDS.get(kind, "name")
    chosen = {"kind": kind, "filters": [f"{field}~^{re.escape(begin)}"], "sort": [field]}
    page = ask_in_time(connection, "list", {**chosen, "page": 1, "page_size": OFFERED_MOST})
    return [_name_of(each, kind) for each in page["items"]]


# Repeated requests of a display

TIMEOUT_S: Final = 10.0
"""Seconds that an answer may take, as by default on a connection."""


class Feed:
    """Control operations on one connection, opened by the first operation; used by one thread."""

    def __init__(self, url: str) -> None:
        """Raises ConfigError for a URL that cannot be read."""
        self.options: Final = options_of(url, timeout=TIMEOUT_S)
        self._connection: Connection | None = None

    def ask(self, operation: str, fields: dict[str, object]) -> dict[str, Any]:
        """Return an answer; raises PenstockError with the reason.

        `ControlError` is the broker's refusal, after which the connection stays. After any other error the next call
        connects again.
        """
        from penstock.client.errors import ControlError

        try:
            return self._connected().request(operation, **fields)
        except ControlError as error:
            assert self._connection is not None
            raise ControlError(error.code, error.name, error.text + near_match(self._connection, error.text)) from None
        except (PenstockError, OSError):
            self.close()
            raise

    def _connected(self) -> Connection:
        from penstock.client.blocking import Connection

        if self._connection is None:
            self._connection = Connection(self.options)
        return self._connection

    def close(self) -> None:
        """Close the connection; a later request opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(PenstockError, OSError):
                connection.close()
