"""`penstock report`: one file for a bug report, with the usual first questions answered and without secrets."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote, unquote

import click

import penstock
from penstock.cli.common import options_of, print_result, writing
from penstock.cli.parameters import FILE, Json, Url, command, option
from penstock.errors import ConfigError, PenstockError
from penstock.operations.command_lists import LISTS
from penstock.texts import counted, printable, printable_json

if TYPE_CHECKING:
    from penstock.client.blocking import Connection
    from penstock.client.options import Options

ITEMS_MOST: Final = 200
"""Most items of a list, and most queues; the report names the number of further ones."""
LINES_MOST: Final = 300
"""Last lines of a log."""
LINE_OCTETS: Final = 4_000
"""Bytes of a line of a log; the rest is cut off."""
PACKAGES: Final = (
    *("click", "librt", "scramp", "google-re2", "starlette", "uvicorn", "psycopg", "uvloop", "textual", "pyspark"),
)
NOTE: Final = (
    "Read it before you send it. Names of queues, users, hosts and clients are in it; "
    "passwords, keys, tokens and messages are not."
)
LOG: Final = "Add the last lines of the broker's log; - is standard input."
DATA: Final = "Add the last records of the flow log in this data directory; default: this user's."
Part = Callable[[], object]


@command()
def report(
    file: Annotated[Path | None, option(kind=FILE)],
    log: Annotated[Path | None, option(LOG, "FILE", kind=FILE)],
    data: Annotated[Path | None, option(DATA, "DIR")],
    config: Annotated[Path | None, option("Add the broker's settings file.", "FILE")],
    as_json: Json,
    url: Url,
) -> None:
    """Write FILE for a bug report: versions, settings with sources, lists, why, and the ends of the logs. No secrets.

    A broker that does not answer is told in it. Without FILE the name has the time; - is standard output; --json writes
    JSON. For example: journalctl -u penstock | penstock report --log -
    """
    made = datetime.now(UTC)
    where = options_of(url)
    known = [] if where.password == where.user else [where.password]
    settings = None if config is None else _try(lambda: _settings_file(config))
    redactor = Redactor([*known, *secrets_of(settings)])
    found: dict[str, object] = {"made": made.isoformat(timespec="seconds"), "note": NOTE, "client": _client()}
    found |= {name: redactor.data(part) for name, part in _of_broker(where)}
    if settings is not None:
        found["settings file"] = redactor.data(settings)
    found["log"] = redactor.data(_try(lambda: _log_lines(log)))
    found["flow log"] = redactor.data(_try(lambda: _flow_log(data)))
    text = f"{_json(found, indent=1)}\n" if as_json else _as_text(found)
    if file is not None and str(file) == "-":
        with writing():
            click.echo(text, nl=False)
        return
    path = file or Path(f"penstock-report-{made:%Y%m%dT%H%M%SZ}.{'json' if as_json else 'txt'}")
    _write(path, text)
    octets = len(text.encode())
    print_result(as_json, {"file": str(path), "bytes": octets}, f"{path}: {counted(octets, 'byte')}. {NOTE}")


def _write(path: Path, text: str) -> None:
    """Write a new file that others cannot read. Raises ConfigError."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"cannot write '{path}': {error.strerror}") from None


def _client() -> dict[str, object]:
    """Return a description of this installation and this machine."""
    import platform  # Both take a third of the start of a command, and other commands need neither.
    from importlib import metadata

    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    variables = sorted(name for name in os.environ if name.startswith("PENSTOCK_"))
    return {
        "penstock": penstock.__version__,
        "compiled": penstock.compiled(),
        "build": penstock.build(),
        "python": sys.version,
        "platform": platform.platform(),
        "libc": " ".join(platform.libc_ver()),
        "cores": os.cpu_count(),
        "packages": versions,
        "environment variables that are set": variables,
    }


def _of_broker(where: Options) -> Iterator[tuple[str, object]]:
    """Return the parts that the broker answers; a part that fails is its reason."""
    from penstock.client.blocking import Connection

    host, port = where.hosts[0]
    asked = {"host": host, "port": port, "tls": where.tls is not None, "user": where.user,
             "vhost": where.virtual_host}  # fmt: skip
    try:
        with Connection(where) as connection:
            told = connection.server_properties.items()
            announced = {name: value for name, value in told if isinstance(value, str | int | dict)}
            yield "broker", {**asked, "announced": announced}
            for name, part in _parts(connection):
                yield name, _try(part)
    except PenstockError as error:
        yield "broker", {**asked, "no answer": str(error)}


def _parts(connection: Connection) -> Iterator[tuple[str, Part]]:
    """Return the requests to the broker, by title."""
    yield "why", lambda: connection.why().raw
    yield "status", lambda: _short_status(connection.status())
    yield "configuration", lambda: connection.request("config.show")
    yield "settings of the broker", lambda: connection.show("broker")
    yield "settings by pattern", lambda: connection.settings(everywhere=True)
    for kind in (row.fixed["kind"] for row in LISTS):
        yield kind, lambda kind=kind: _some(connection.list(kind, everywhere=True))  # type: ignore[misc]
    for title, operation, fields in (
        ("policies", "policy.list", {"everywhere": True}),
        ("operator policies", "policy.list", {"everywhere": True, "operator": True}),
        ("limits", "limit.list", {}),
        ("users", "user.list", {"count": ITEMS_MOST}),
    ):
        yield title, lambda operation=operation, fields=fields: connection.request(operation, **fields)  # type: ignore[misc]


def _short_status(found: dict[str, Any]) -> dict[str, Any]:
    """Return a status without queues and connections, which have their own lists."""
    return {name: value for name, value in found.items() if name not in ("queues", "connections")}


def _some(items: Iterator[dict[str, Any]]) -> list[object]:
    found: list[object] = list(islice(items, ITEMS_MOST))
    more = sum(1 for _ in items)
    return [*found, f"and {more:,} more"] if more else found


def _try(part: Part) -> object:
    """Return a part of the report, or the reason why it is missing."""
    try:
        return part()
    except (PenstockError, OSError, UnicodeError) as error:
        return {"missing": str(error)}


def _settings_file(path: Path) -> object:
    """Return the settings; a user's text is a password, and gets that name. Raises ConfigError, OSError."""
    import tomllib

    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, RecursionError):
        raise ConfigError(f"'{path}' is not TOML") from None  # Its text may repeat a secret.
    users = found.get("users")
    if isinstance(users, dict):
        found["users"] = {name: user if isinstance(user, dict) else {"password": user} for name, user in users.items()}
    return found


def _log_lines(path: Path | None) -> object:
    """Return the last lines of the broker's log."""
    if path is None:
        return "not given: the broker writes it to standard error; --log FILE adds it"
    if str(path) == "-":
        return list(_cut(deque((line.decode(errors="replace") for line in sys.stdin.buffer), LINES_MOST)))
    with path.open(errors="replace") as lines:
        return list(_cut(deque(lines, LINES_MOST)))


def _flow_log(data: Path | None) -> object:
    """Return the last records of the flow log, over its newest files."""
    from penstock.store.directory import default_directory

    folder = (data or default_directory()) / "flow-log"
    if not folder.is_dir() and data is not None:
        folder = data  # The path is the flow log itself.
    files = sorted(folder.glob("flow-*.jsonl"))
    if not files:
        return f"there is none in '{folder}'; --data DIR says where the broker keeps its data"
    found: deque[str] = deque(maxlen=LINES_MOST)
    for file in files[-2:]:
        with file.open(errors="replace") as lines:
            found.extend(lines)
    return list(_cut(found))


def _cut(lines: deque[str]) -> Iterator[str]:
    return (line.rstrip("\r\n")[:LINE_OCTETS] for line in lines)


def _as_text(found: dict[str, object]) -> str:
    """Return the report as text: a section for each part, a line for each item."""
    lines = [f"penstock report, made {found['made']}", str(found["note"])]
    for name, value in found.items():
        if name in ("made", "note"):
            continue
        lines += ["", f"== {name} =="]
        if isinstance(value, list):
            lines += [printable(each if isinstance(each, str) else _json(each)) for each in value] or ["none"]
        elif isinstance(value, dict):
            lines += [
                printable(f"{key}: {each if isinstance(each, str) else _json(each)}") for key, each in value.items()
            ]
        else:
            lines.append(printable(str(value)))
    return "\n".join(lines) + "\n"


def _json(value: object, indent: int | None = None) -> str:
    return printable_json(json.dumps(value, indent=indent, ensure_ascii=False, default=str))


# Redaction: passwords, keys and tokens are replaced before anything is written


HIDDEN: Final = "***"
"""Text in place of a secret."""
SHORTEST: Final = 4
"""Shortest known secret that is searched for in texts: a shorter secret would hide half of the report."""

_SECRET_NAME: Final = re.compile(
    r"pass(word|wd|phrase|code)?$|secret|token|credential|private|api[-_]?key|_hash$|-hash$|^hash|salt|cookie|authorization",
    re.IGNORECASE,
)
_NO_SECRET: Final = re.compile(r"^(has|is|no)[-_]|file$|count$|tokens?-(url|audience|issuer|leeway)", re.IGNORECASE)
"""Names that resemble names of secrets and are none."""
_USER_INFO: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@'\"]*):[^\s'\"]*@")
_URL_PASSWORD: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/:@]*:(.*)@", re.DOTALL)
"""Password of a text that is a URL as a whole: such a password may contain spaces and quotes, which would end a URL
inside a text."""
_ASSIGNED: Final = re.compile(
    r"(?i)([\w-]*(?:password|passwd|secret|token|api[-_]?key|credential)[\w-]*[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&}\])]+)"
)
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}")
_JWT: Final = re.compile(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_PEM: Final = re.compile(r"-----BEGIN [A-Z ]*(?:KEY|CERTIFICATE)-----.*?(?:-----END [A-Z ]*-----|\Z)", re.DOTALL)


class Redactor:
    """Replacement of secrets in plain data and in texts."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        found = {form for secret in known for form in (secret, unquote(secret), quote(secret, safe=""))}
        self._known = sorted((each for each in found if len(each) >= SHORTEST), key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return a text without known secrets and text that resembles a secret."""
        for secret in self._known:
            text = text.replace(secret, HIDDEN)
        text = _PEM.sub(HIDDEN, text)
        text = _USER_INFO.sub(rf"\1:{HIDDEN}@", text)
        text = _BEARER.sub(rf"\1 {HIDDEN}", text)
        text = _JWT.sub(HIDDEN, text)
        return _ASSIGNED.sub(rf"\1{HIDDEN}", text)

    def data(self, value: object) -> object:
        """Return plain data in which values of secret names, and secrets in texts, are replaced."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.text(str(name)): HIDDEN if _is_secret(str(name)) and item not in (None, "", False, True)
                else self.data(item)
                for name, item in value.items()
            }  # fmt: skip
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        return value


def secrets_of(value: object) -> Iterator[str]:
    """Return the texts of secret names in plain data, and the passwords of its URLs."""
    if isinstance(value, str):
        url = _URL_PASSWORD.match(value)
        if url is not None:
            yield url[1]
    elif isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, str) and _is_secret(str(name)):
                yield item
            else:
                yield from secrets_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from secrets_of(item)


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None and _NO_SECRET.search(name) is None
