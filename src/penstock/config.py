"""Broker configuration: settings with default, unit and reason, read from a TOML file.

`[broker]` has the names below (hyphens for underscores) and the settings of scope broker. `[users]` has users (see
file_users.py). Settings by pattern have a table each:
`[queue."orders.#"]`, `[address."logs.*"]`, `[vhost."/"]`, `[user.alice]`, `[connection.alice]`, `[producer.alice]`. All
but start-up settings may change while the broker runs (SIGHUP).
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from penstock.access.user import User
from penstock.back_end_settings import BackEndSettings, read_back_end
from penstock.core.gates.metadata_memory import ARGUMENTS_BYTES, TABLE_OCTETS_MAX
from penstock.errors import BrokerError, ConfigError
from penstock.file_users import has_clear_passwords, read_users
from penstock.log_ids import LEVEL_NAMES
from penstock.protocols.common.connection_limits import SASL_MECHANISMS
from penstock.settings.foreign import FOREIGN
from penstock.settings.read import read_pattern, read_settings
from penstock.settings.table import (
    ALIASES,
    CAPACITY_BYTES,
    HOLD_DEADLINE_S,
    RESUME_PERCENT,
    SCOPED_ALIASES,
    SCOPES,
    STOP_PERCENT,
)
from penstock.settings.value import SettingValue
from penstock.texts import BYTES, TIMES, amount, nearest
from penstock.tls_settings import TlsSettings, read_tls
from penstock.token_settings import TokenSettings, read_tokens

RANGES: Final[dict[str, tuple[int, int]]] = {
    "frame-max": (4096, 2**31 - 1),
    "message-bytes-max": (0, 2**32 - 1),
    "initial-frame-max": (4096, 131072),
    "handshake-s": (1, 600),
    "handshakes-max": (1, 1_000_000),
    "handshakes-address-max": (1, 1_000_000),
    "login-threads": (0, 64),
    "login-rate-max": (0, 1_000_000),
    "login-rate-address-max": (0, 1_000_000),
    "channel-max": (1, 2**16 - 1),
    "heartbeat-s": (0, 2**16 - 1),
    "arguments-octets-max": (256, 2**20),
    "metrics-objects-max": (0, 1_000_000),
    "transaction-timeout-s": (1, 86_400),
    "flow-enforcement-s": (1, 86_400),
    "flow-log-files": (2, 10_000),
    "flow-log-file-bytes": (4096, 2**40),
    "audit-log-files": (2, 10_000),
    "audit-log-file-bytes": (4096, 2**40),
    "slow-turn-ms": (0, 60_000),
}
"""Settings with a least and a most value: the limits of the protocol (AMQP 0-9-1, connection.tune)."""
CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "sasl-mechanisms": SASL_MECHANISMS,
    "insecure-mechanisms": SASL_MECHANISMS,
    "log-level": tuple(LEVEL_NAMES.values()),
    "log-format": ("text", "json", "qpid"),
}
"""Settings of which only these strings may be the value, or items of the list."""
ADDRESSES: Final = ("http", "http-tls", "metrics-listen")
"""Settings of one address, which may also be a list of one."""
IN_BYTES: Final = (
    *("hold-bytes", "transaction-bytes", "message-bytes-max", "min-large-message", "amqpMinLargeMessageSize"),
    *("arriving-bytes-max", "arguments-octets-max", "arguments-bytes-max", "frame-max", "initial-frame-max"),
    *("flow-log-file-bytes", "audit-log-file-bytes"),
)
"""Settings that are bytes, which may have a unit, as the seconds and milliseconds that their names say."""


AT_START: Final = (
    "listen",
    "listen_tls",
    "http",
    "http_hosts",
    "http_origins",
    "http_tls",
    "metrics_listen",
    "metrics_objects_max",
    "data",
    "store",
    "vhosts",
    "hold_bytes",
    "transaction_bytes",
    "transaction_timeout_s",
    "flow_enforcement_s",
    "message_bytes_max",
    "min_large_message",
    "arriving_bytes_max",
    "arguments_octets_max",
    "arguments_bytes_max",
    "frame_max",
    "initial_frame_max",
    "sasl_mechanisms",
    "insecure_mechanisms",
    "rabbitmq_version",
    "channel_max",
    "heartbeat_s",
    "handshake_s",
    "connections_max",
    "connections_address_max",
    "handshakes_max",
    "handshakes_address_max",
    "login_rate_max",
    "login_rate_address_max",
    "login_threads",
    "flow_log",
    "flow_log_files",
    "flow_log_file_bytes",
    "audit_log",
    "audit_log_files",
    "audit_log_file_bytes",
    "log_level",
    "log_format",
    "slow_turn_ms",
    "traces_endpoint",
)
"""Start-up settings in `[broker]`."""
RELOADABLE: Final = ("log_level", "slow_turn_ms")
"""Those that a reload changes too."""
TABLES_AT_START: Final = ("[oauth]", "[auth-http]")
"""Tables that are read at the start only."""
START_ALIASES: Final = {"amqpMinLargeMessageSize": "min_large_message"}
"""Artemis' names of start-up settings."""
OTHER_TABLES: Final = ("users", "oauth", "auth-http", "tls")
TABLES: Final = ", ".join(
    [f"[{name}]" for name in OTHER_TABLES]
    + [f"[{scope}]" if scope == "broker" else f'[{scope}."..."]' for scope in SCOPES]
)


NO_LOG: Final = "off"
"""Value of the directory of the flow log or the audit log that disables it, although there is a data directory."""

AUTO_HTTP: Final = "auto"
"""Value of the HTTP API's address for `DEFAULT_HTTP`, if its port is free and the broker is the machine's own."""
NO_HTTP: Final = "off"
DEFAULT_HTTP: Final = "127.0.0.1:15672"


@dataclass(frozen=True)
class Settings:
    """Start-up settings of a broker, and its settings by pattern."""

    listen: list[str] = field(default_factory=lambda: ["127.0.0.1:5672"])
    """HOST:PORT of each listener; port 0 picks a free one."""
    listen_tls: list[str] = field(default_factory=list)
    """HOST:PORT of each listener with TLS, usually with port 5671."""
    http: str | None = AUTO_HTTP
    """HOST:PORT of the console and the HTTP API. `auto`: 127.0.0.1:15672, unless that is in use, `listen` has port
    0 or nothing, or `http-tls` is set. `off`: nowhere.
    """
    http_hosts: list[str] = field(default_factory=list)
    """More names under which the HTTP API is reached, such as `["*.svc.cluster.local"]`."""
    http_origins: list[str] = field(default_factory=list)
    """Sites whose pages may use the HTTP API from a browser (CORS), such as `["https://console.example.com"]`."""
    http_tls: str | None = None
    """HOST:PORT of the HTTP API with TLS, usually with port 15671."""
    metrics_listen: str | None = None
    """HOST:PORT of metrics and probes without a login, usually with port 15692; none: there is none."""
    metrics_objects_max: int = 10_000
    """Queues, connections, channels or cursors in one answer of `/metrics/per-object`; the others are counted."""
    data: str | None = None
    """Data directory; `penstock serve` takes this user's where nothing is said, with `--memory` none."""
    store: str | None = None
    """A store elsewhere instead: `postgresql://HOST/DATABASE`."""
    vhosts: list[str] = field(default_factory=lambda: ["/"])
    """Virtual hosts; `penstock declare vhost` makes more."""
    users: list[User] | None = None
    """Users of the settings file; None: it names none."""
    clear_passwords: bool = False
    """True if a password stands in the settings file itself."""
    tokens: TokenSettings | None = None
    """Tokens of OAuth 2 that are accepted as passwords; None: none is."""
    back_end: BackEndSettings | None = None
    """HTTP back end that is asked for users; None: there is none."""
    capacity_bytes: int = CAPACITY_BYTES
    """Default capacity of a queue: bytes of charges."""
    stop_percent: float = STOP_PERCENT
    """Default stop threshold of a queue, in percent of its capacity."""
    resume_percent: float = RESUME_PERCENT
    """Default resume threshold of a queue, in percent of its capacity."""
    hold_deadline_s: float = HOLD_DEADLINE_S
    """Seconds that a publish may be held; 0 is for ever."""
    hold_bytes: int = 1024 * 1024
    """Bytes that a connection may have held before its reading is paused."""
    transaction_bytes: int = 16 * 1024 * 1024
    """Bytes that a connection with transactions may have kept for its commits; past that its publishes are
    refused.
    """
    transaction_timeout_s: int = 1800
    """Seconds that a transaction of AMQP 1.0 may be open after its first message or settlement."""
    flow_enforcement_s: int = 5
    """Seconds that a client has to stop after `channel.flow` (Broker-J:
    `channel.flowControlEnforcementTimeout`).
    """
    message_bytes_max: int = 128 * 1024 * 1024
    """Octets of the largest body."""
    min_large_message: int = 1024 * 1024
    """Octets from which on a body of several frames goes in pieces (Artemis: `amqpMinLargeMessageSize`); 0 is
    never.
    """
    arriving_bytes_max: int = 256 * 1024 * 1024
    """Bytes of messages that arrive in pieces on one connection and are not whole; the largest message always
    fits.
    """
    arguments_octets_max: int = TABLE_OCTETS_MAX
    """Octets of the arguments of one queue, exchange, binding or consumer."""
    arguments_bytes_max: int = ARGUMENTS_BYTES
    """Memory of the arguments of all of them; an eighth of the node's memory at most, half of it for one virtual
    host.
    """
    frame_max: int = 131072
    """Octets of the largest frame that is offered."""
    initial_frame_max: int = 4096
    """Octets of the largest frame before the login."""
    sasl_mechanisms: list[str] = field(default_factory=lambda: list(SASL_MECHANISMS))
    """Mechanisms that clients are offered, in order."""
    insecure_mechanisms: list[str] = field(default_factory=lambda: list(SASL_MECHANISMS))
    """Those of clients on other machines without TLS. Without PLAIN and AMQPLAIN no password is sent that others
    can read; HTTP's basic authentication counts as PLAIN.
    """
    rabbitmq_version: str | None = None
    """Version of RabbitMQ that its AMQP 1.0 clients are told; none: they are told Penstock's."""
    channel_max: int = 2047
    """Channels of a connection."""
    heartbeat_s: int = 60
    """Seconds between heartbeats that are offered; 0 is none."""
    handshake_s: int = 10
    """Seconds from connect until the connection must be open."""
    connections_max: int = 0
    """Open connections; 0: no limit but that of open files. Beyond, opening is refused (530)."""
    connections_address_max: int = 0
    """Open connections of one address other than this machine; 0: no limit."""
    handshakes_max: int = 1000
    """Connections that have not logged in, of all other machines; half of the open files at most."""
    handshakes_address_max: int = 500
    """The same of one address, and of this machine; a quarter of the open files at most."""
    login_rate_max: int = 0
    """Logins a second of all other machines, and as many of this one; 0: no limit."""
    login_rate_address_max: int = 0
    """The same of one address other than this machine; 0: no limit."""
    login_threads: int = 0
    """Threads that verify passwords; 0 is one for two cores, 4 at most. Each takes 16 MiB while it verifies."""
    flow_log: str | None = None
    """Directory of the flow log; none: in the data directory; `off`: nowhere."""
    flow_log_files: int = 8
    """Files of the flow log; beyond, the oldest is deleted."""
    flow_log_file_bytes: int = 16 * 1024 * 1024
    """Bytes of the largest file of the flow log."""
    audit_log: str | None = None
    """Directory of the audit log; none: in the data directory; `off`: nowhere."""
    audit_log_files: int = 32
    """Files of the audit log; beyond, the oldest is deleted."""
    audit_log_file_bytes: int = 4 * 1024 * 1024
    """Bytes of the largest file of the audit log."""
    log_level: str = "info"
    """Least level of the records of the log: `debug`, `info`, `warning`, `error`; SIGHUP reads it again."""
    log_format: str = "text"
    """Format of the log: `text`; `json`, which is a JSON object a line; or `qpid`, the form of Qpid's Java broker."""
    slow_turn_ms: int = 100
    """Milliseconds from which a turn of the event loop is logged; 0 is never; SIGHUP reads it again."""
    traces_endpoint: str | None = None
    """URL of a collector of OpenTelemetry that spans of waiting publishes are sent to (OTLP over HTTP), such as
    `http://127.0.0.1:4318/v1/traces`; none: there are none.
    """
    tls: TlsSettings | None = None
    """Certificates of the listeners with TLS; None without the table."""
    file: Path | None = None
    """Path of the settings file, to be read again at SIGHUP; None without one."""
    at_start: dict[str, object] = field(default_factory=dict)
    """Start-up settings and tables in the file, for comparison when it is read again."""
    sources: dict[str, str] = field(default_factory=dict)
    """Sources of the start-up settings that were given: FILE:LINE, "environment ..." or "command line"."""
    patterns: list[tuple[str, str, dict[str, SettingValue]]] = field(default_factory=list)
    """Run-time settings in the file: scope, pattern ("" for the broker), settings."""


def load(path: Path) -> Settings:
    """Read a settings file. Raises ConfigError naming the file, the line or the setting, and the rule."""
    try:
        text = path.read_text(encoding="utf-8")  # TOML is, whatever the locale.
        parsed = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"cannot read the settings file '{path}': {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"the settings file '{path}' is not TOML: {error}") from None
    source = _Source(path, _lines(text))
    users = parsed.pop("users", None)
    tls = parsed.pop("tls", None)
    given = parsed.pop("broker", {})
    oauth = parsed.pop("oauth", None)
    auth_http = parsed.pop("auth-http", None)
    for name, table in (("broker", given), ("users", users), ("oauth", oauth), ("auth-http", auth_http)):
        if table is not None and not isinstance(table, dict):
            raise source.error((name,), f"[{name}] must be a table, not {_kind(table)}")
    named = None if users is None else read_users(users, path.parent, source.error_of_user)
    tokens = None if oauth is None else read_tokens(oauth, path.parent, source.error_of_oauth)
    back_end = None if auth_http is None else read_back_end(auth_http, path.parent, source.error_of_back_end)
    at_start, tunable = _parted(source, given)
    by_pattern = [("broker", "", source.read("broker", "", ("broker",), tunable))] if tunable else []
    for scope, patterns in parsed.items():
        if scope not in SCOPES:
            raise source.error((scope,), f"unknown table [{scope}]; {_near_table(scope)}")
        if not isinstance(patterns, dict):
            raise source.error((scope,), f"[{scope}] must be a table of patterns, not {patterns!r}")
        for pattern, table in patterns.items():
            if not isinstance(table, dict):
                raise source.error((scope, pattern), f'[{scope}] needs a pattern: [{scope}."..."] before {pattern}')
            by_pattern.append((scope, pattern, source.read(scope, pattern, (scope, pattern), table)))
    certificates = None if tls is None else read_tls(tls, path.parent, source.error)
    settings = Settings(
        users=named,
        clear_passwords=users is not None and has_clear_passwords(users),
        tokens=tokens,
        back_end=back_end,
        tls=certificates,
        file=path,
        patterns=by_pattern,
        at_start={**at_start, **dict(zip(TABLES_AT_START, (oauth, auth_http), strict=True))},
    )
    return replace(settings, sources=_sources(source, given), **at_start)


def _near_table(name: str) -> str:
    """Return the table that an unknown name may mean, or all that there are."""
    near = nearest(name, [*SCOPES, *OTHER_TABLES])
    return f"did you mean [{near}]?" if near else f"known are {TABLES}"


def _sources(source: _Source, given: dict[str, Any]) -> dict[str, str]:
    """Return the positions of the start-up settings in the file."""
    known = {name.replace("_", "-"): name for name in AT_START} | START_ALIASES
    lines = {name: source.position(("broker", name)).removeprefix(" line ") for name in given if name in known}
    return {known[name]: f"{source.path}:{line}" for name, line in lines.items()}


def variable_of(name: str) -> str:
    """Return the environment variable of a start-up setting: PENSTOCK_LOG_LEVEL."""
    return f"PENSTOCK_{name.upper()}"


def with_environment(settings: Settings, environment: Mapping[str, str]) -> Settings:
    """Return the settings with those of the environment, which override the file. An empty variable counts as missing.

    A list has commas. Raises ConfigError that names the variable.
    """
    given: dict[str, Any] = {}
    for name in AT_START:
        text = environment.get(variable_of(name), "")
        if text:
            default = getattr(Settings(), name)
            value: object = text
            if isinstance(default, list):
                value = [each.strip() for each in text.split(",")]
            elif isinstance(default, int) and text.isdecimal() and len(text) < 20:
                value = int(text)
            given[name] = _typed(_Variable(variable_of(name)), name.replace("_", "-"), value, default)
    sources = settings.sources | {name: f"environment {variable_of(name)}" for name in given}
    return replace(settings, sources=sources, **given)


def changed_at_start(old: Settings, new: Settings) -> list[str]:
    """Return the names of changed start-up settings and tables, which need a restart."""
    names = [n for n in AT_START if n not in RELOADABLE and old.at_start.get(n) != new.at_start.get(n)]
    tables = [name for name in TABLES_AT_START if old.at_start.get(name) != new.at_start.get(name)]
    if (old.tls is None) != (new.tls is None):  # Other changes of the table are served from now on.
        tables.append("[tls]")
    return [name.replace("_", "-") for name in names] + tables


class _Source:
    """Positions of tables and keys in a settings file, for errors."""

    def __init__(self, path: Path, lines: dict[tuple[str, ...], int]) -> None:
        self.path = path
        self.lines = lines

    def position(self, keys: tuple[str, ...]) -> str:
        """Return the line of a key, or of the innermost table around it, as " line 7"; "" if none is found."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return f" line {self.lines[keys]}" if keys else ""

    def error(self, keys: tuple[str, ...], text: str) -> ConfigError:
        return ConfigError(f"'{self.path}'{self.position(keys)}: {text}")

    def error_of_user(self, name: str, text: str) -> ConfigError:
        return self.error(("users", name), text)

    def error_of_back_end(self, key: str, text: str) -> ConfigError:
        return self.error(("auth-http", key), text)

    def error_of_oauth(self, key: str, text: str) -> ConfigError:
        return self.error(("oauth", key), text)

    def read(self, scope: str, pattern: str, keys: tuple[str, ...], table: dict[str, Any]) -> dict[str, SettingValue]:
        """Read the settings of a pattern one by one, so that each error has its line."""
        words: dict[str, SettingValue] = {}
        so_far: dict[str, object] = {}
        at = keys
        try:
            read_pattern(scope, pattern)
            for name, value in table.items():
                at = (*keys, name)
                if isinstance(value, dict):
                    raise ConfigError(
                        f"[{'.'.join(at)}] is a table inside a table; a pattern with dots needs quotes: "
                        f'[{scope}."{".".join(at[1:])}"]'
                    )
                so_far[name] = value
                for ours, word in read_settings(scope, pattern, so_far).items():
                    if word.alias == name:
                        words[ours] = word.at(self.position(at))
        except (BrokerError, ConfigError) as error:
            raise self.error(at, str(error)) from None
        return words


class _Variable(_Source):
    """Environment variable, for errors."""

    def __init__(self, name: str) -> None:
        super().__init__(Path(), {})
        self.name = name

    @override
    def error(self, keys: tuple[str, ...], text: str) -> ConfigError:
        return ConfigError(f"environment variable {self.name}: {text}")


def _parted(source: _Source, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split `[broker]` into checked start-up settings and run-time settings."""
    known = {name.replace("_", "-"): name for name in AT_START} | START_ALIASES
    tunable = {**SCOPES["broker"], **SCOPED_ALIASES["broker"]}
    tunable |= {alias: ours for alias, ours in ALIASES.items() if ours in SCOPES["broker"]}
    at_start: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in given.items():
        if name in known:
            at_start[known[name]] = _typed(source, name, value, getattr(Settings(), known[name]))
        elif name in tunable:
            rest[name] = value
        else:
            near = nearest(name, [*known, *tunable])
            hint = f"; did you mean {near}?" if near else ""
            hint = f", which is one of Artemis; {FOREIGN[name]}" if name in FOREIGN else hint
            raise source.error(("broker", name), f"unknown setting {name}{hint}")
    return at_start, rest


def _typed(source: _Source, name: str, value: object, default: object) -> object:
    at = ("broker", name)
    if isinstance(default, list):
        value = [value] if isinstance(value, str) else value
        may_be_empty = name in ("listen", "listen-tls")
        if isinstance(value, list) and (value or may_be_empty) and all(isinstance(item, str) for item in value):
            choices = CHOICES.get(name, value)
            unknown = [item for item in value if item not in choices]
            if unknown:
                raise source.error(at, f"{name} has the unknown '{unknown[0]}'; known are {', '.join(choices)}")
            return value
        raise source.error(at, f"{name} must be a string or a list of strings, not {value!r}")
    if default is None or isinstance(default, str):
        if name in ADDRESSES and isinstance(value, list) and len(value) == 1:
            value = value[0]
        words = CHOICES.get(name)
        if words is not None and value not in words:
            raise source.error(at, f"{name} must be one of {', '.join(words)}, not {value!r}")
        if isinstance(value, str):
            return value
        raise source.error(at, f"{name} must be a string, not {_kind(value)}")  # A store's URL may hold a password.
    if isinstance(value, str):
        value = _amount(name, value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise source.error(at, f"{name} must be a number from 0, not {value!r}")
    least, most = RANGES.get(name, (0, math.inf))
    if not least <= value <= most:
        raise source.error(at, f"{name} must be between {least} and {most}, not {value!r}")
    return value


def _amount(name: str, text: str) -> object:
    """Return the number of a text with a unit ("4MB", "30 min"); the text itself if it is none."""
    found = amount(text, BYTES if name in IN_BYTES else TIMES if name.endswith(("-s", "-ms")) else {})
    if found is not None and name.endswith("-s"):
        found /= 1000
    return text if found is None or found.denominator != 1 else int(found)


def _kind(value: object) -> str:
    """Return the TOML type of a value, for errors about values that may hold a password."""
    for kind, word in ((bool, "a boolean"), (str, "a string"), (list, "an array"), (dict, "a table")):
        if isinstance(value, kind):
            return word
    return "a number" if isinstance(value, int | float) else "a date"


HEADER: Final = re.compile(r"\s*\[(?!\[).*\]\s*(#.*)?")
KEY: Final = re.compile(r"""\s*([A-Za-z0-9_-]+|"[^"]*"|'[^']*')\s*=""")


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line of each table and key on a line of its own; the parser reports none."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        key = KEY.match(line)
        if key is not None:
            found.setdefault((*table, key[1].strip("\"'")), number)
        elif HEADER.fullmatch(line):
            try:
                table = _path(tomllib.loads(line))
            except tomllib.TOMLDecodeError:
                continue  # Part of a longer value.
            found.setdefault(table, number)
    return found


def _path(parsed: dict[str, Any]) -> tuple[str, ...]:
    """Return the keys down to the innermost of nested tables with one key each."""
    keys: list[str] = []
    while parsed:
        key, parsed = next(iter(parsed.items()))
        keys.append(key)
    return tuple(keys)
