"""Broker configuration: read from a TOML file and the environment, and shown with its sources.

`[broker]` has the names of `settings.start` (hyphens for underscores) and the settings of scope broker. `[users]` has
users (see file_users.py). Settings by pattern have a table each: `[queue."orders.#"]`, `[address."logs.*"]`,
`[vhost."/"]`, `[user.alice]`, `[connection.alice]`, `[producer.alice]`. All settings except start-up settings may
change while the broker runs (SIGHUP).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from penstock.access.user import User
from penstock.errors import BrokerError, ConfigError
from penstock.settings.file_tables import (
    BackEndSettings,
    HookSettings,
    TlsSettings,
    TokenSettings,
    read_back_end,
    read_hook,
    read_tls,
    read_tokens,
)
from penstock.settings.file_users import has_clear_passwords, read_users
from penstock.settings.kind import contradiction, type_word, unknown_name
from penstock.settings.read import FOREIGN, read_pattern, read_settings
from penstock.settings.start import AT_START, DEFAULTS, NAMES, RELOADABLE, Start, read_start
from penstock.settings.table import (
    ALIASES,
    CAPACITY_BYTES,
    HOLD_DEADLINE_S,
    RESUME_PERCENT,
    SCOPED_ALIASES,
    SCOPES,
    STOP_PERCENT,
    SettingValue,
)
from penstock.texts import nearest, worded

TABLES_AT_START: Final = ("[oauth]", "[auth-http]")
"""Tables that are read only at the start."""
OTHER_TABLES: Final = ("users", "oauth", "auth-http", "alarm-hook", "tls")
TABLES: Final = ", ".join(
    [f"[{name}]" for name in OTHER_TABLES]
    + [f"[{scope}]" if scope == "broker" else f'[{scope}."..."]' for scope in SCOPES]
)


STRONGER: Final = ("environment ", "command line")
"""Prefixes of the sources that override the settings file."""
DEFAULT: Final = "default"
"""Source of a setting that was not given."""
MASK: Final = "***"
USER_INFO: Final = re.compile(r"(://[^:@/]*:).*@")
PASSWORD: Final = re.compile(r"(password=)[^&]*", re.IGNORECASE)
"""Passwords of a URL: before the host, and in the query (`password`, `sslpassword`)."""
HEADER: Final = re.compile(r"\s*\[(?!\[).*\]\s*(#.*)?")
KEY: Final = re.compile(r"""\s*([A-Za-z0-9_-]+|"[^"]*"|'[^']*')\s*=""")


@dataclass(frozen=True)
class Settings(Start):
    """Start-up settings of a broker, the other tables of its file, and its settings by pattern."""

    users: list[User] | None = None
    """Users of the settings file; None without any."""
    clear_passwords: bool = False
    """True if the settings file itself contains a password."""
    tokens: TokenSettings | None = None
    """Tokens of OAuth 2 that are accepted as passwords; None without token logins."""
    back_end: BackEndSettings | None = None
    """HTTP back end for users; None without one."""
    hook: HookSettings | None = None
    """Web hook that gets changes of alarms; None without one."""
    capacity_bytes: int = CAPACITY_BYTES
    """Default capacity of a queue: bytes of charges."""
    stop_percent: float = STOP_PERCENT
    """Default stop threshold of a queue, in percent of its capacity."""
    resume_percent: float = RESUME_PERCENT
    """Default resume threshold of a queue, in percent of its capacity."""
    hold_deadline_s: float = HOLD_DEADLINE_S
    """Seconds that a publish may be held; 0 means no limit."""
    tls: TlsSettings | None = None
    """Certificates of the listeners with TLS; None without the table."""
    file: Path | None = None
    """Path of the settings file, to be read again at SIGHUP; None without one."""
    text: str = field(default="", repr=False)
    """Text of the settings file, for processes that must have the same settings."""
    at_start: dict[str, object] = field(default_factory=dict)
    """Start-up settings and tables in the file, for comparison when it is read again."""
    sources: dict[str, str] = field(default_factory=dict)
    """Sources of the start-up settings that were given: FILE:LINE, "environment ..." or "command line"."""
    patterns: list[tuple[str, str, dict[str, SettingValue]]] = field(default_factory=list)
    """Run-time settings in the file: scope, pattern ("" for the broker), settings."""


def load(path: Path) -> Settings:
    """Read a settings file. Raises ConfigError naming the file, the line or the setting, and the rule."""
    try:
        text = path.read_text(encoding="utf-8")  # TOML is UTF-8, whatever the locale.
    except OSError as error:
        raise ConfigError(f"cannot read the settings file '{path}': {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"the settings file '{path}' is not TOML: {error}") from None
    return parse(path, text)


def parse(path: Path, text: str) -> Settings:
    """Return the settings in the text of a file. Raises ConfigError naming the file, the line or the setting, and the
    rule.
    """
    import tomllib  # Imported here: a broker without a file does not need the parser.

    try:
        parsed = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"the settings file '{path}' is not TOML: {error}") from None
    source = _Source(path, _lines(text))
    tables = {name: parsed.pop(name, None) for name in ("broker", *OTHER_TABLES)}
    for name, table in tables.items():
        if table is not None and not isinstance(table, dict) and name != "tls":
            raise source.error((name,), f"[{name}] must be a table, not {type_word(table)}")
    users, oauth, auth_http, alarm_hook, tls = (tables[name] for name in OTHER_TABLES)
    given = tables["broker"] or {}
    folder, refuse = path.parent, source.error
    named = None if users is None else read_users(users, folder, refuse)
    tokens = None if oauth is None else read_tokens(oauth, folder, refuse)
    back_end = None if auth_http is None else read_back_end(auth_http, folder, refuse)
    at_start, tunable = _parted(source, given)
    by_pattern = [("broker", "", source.read("broker", "", ("broker",), tunable))] if tunable else []
    for scope, patterns in parsed.items():
        by_pattern += _by_pattern(source, scope, patterns)
    settings = Settings(
        users=named,
        clear_passwords=(users is not None and has_clear_passwords(users)) or "secret" in (alarm_hook or {}),
        tokens=tokens,
        back_end=back_end,
        hook=None if alarm_hook is None else read_hook(alarm_hook, folder, refuse),
        tls=None if tls is None else read_tls(tls, folder, refuse),
        file=path,
        text=text,
        patterns=by_pattern,
        at_start={**at_start, **dict(zip(TABLES_AT_START, (oauth, auth_http), strict=True))},
    )
    lines = {name: source.position(("broker", name)).removeprefix(" line ") for name in given if name in NAMES}
    sources = {NAMES[name]: f"{path}:{line}" for name, line in lines.items()}
    return replace(settings, sources=sources, **at_start)


def _by_pattern(source: _Source, scope: str, patterns: object) -> Iterator[tuple[str, str, dict[str, SettingValue]]]:
    if scope not in SCOPES:
        raise source.error((scope,), f"unknown table [{scope}]; {_near_table(scope)}")
    if not isinstance(patterns, dict):
        raise source.error((scope,), f"[{scope}] must be a table of patterns, not {worded(patterns)}")
    for pattern, table in patterns.items():
        if not isinstance(table, dict):
            raise source.error((scope, pattern), f'[{scope}] needs a pattern: [{scope}."..."] before {pattern}')
        yield scope, pattern, source.read(scope, pattern, (scope, pattern), table)


def _near_table(name: str) -> str:
    """Return the table that an unknown name may mean, or all tables."""
    near = nearest(name, [*SCOPES, *OTHER_TABLES])
    return f"did you mean [{near}]?" if near else f"known are {TABLES}"


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
            is_list = isinstance(getattr(DEFAULTS, name), list)
            value: object = [each.strip() for each in text.split(",")] if is_list else text
            try:
                given[name] = read_start(name.replace("_", "-"), value, typed=False)
            except ConfigError as error:
                raise ConfigError(f"environment variable {variable_of(name)}: {error}") from None
    sources = settings.sources | {name: f"environment {variable_of(name)}" for name in given}
    return replace(settings, sources=sources, **given)


def changed_at_start(old: Settings, new: Settings) -> list[str]:
    """Return the names of changed start-up settings and tables, which need a restart."""
    names = [n for n in AT_START if n not in RELOADABLE and old.at_start.get(n) != new.at_start.get(n)]
    tables = [name for name in TABLES_AT_START if old.at_start.get(name) != new.at_start.get(name)]
    if (old.tls is None) != (new.tls is None):  # Other changes of the table take effect from now on.
        tables.append("[tls]")
    return [name.replace("_", "-") for name in names] + tables


def reloaded(before: Settings, read: Settings) -> Settings:
    """Return the settings in effect after a reload; those of the environment and the command line persist."""
    stronger = [name for name in RELOADABLE if before.sources.get(name, "").startswith(STRONGER)]
    changed = {name: getattr(read, name) for name in RELOADABLE if name not in stronger}
    sources = {name: source for name, source in before.sources.items() if name not in changed}
    sources |= {name: read.sources[name] for name in changed if name in read.sources}
    return replace(before, sources=sources, **changed)


def renewed(before: Settings, read: Settings) -> Settings:
    """Return the settings of a process that starts after a reload in its node: as those of a process that had it."""
    after = reloaded(before, read)
    return replace(after, users=read.users, patterns=read.patterns, hook=read.hook, tls=read.tls)


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

    def read(self, scope: str, pattern: str, keys: tuple[str, ...], table: dict[str, Any]) -> dict[str, SettingValue]:
        """Read the settings of a pattern one by one, so that each error has its line."""
        values: dict[str, SettingValue] = {}
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
                for ours, setting_value in read_settings(scope, pattern, so_far).items():
                    if setting_value.alias == name:
                        values[ours] = setting_value.at(self.position(at))
        except (BrokerError, ConfigError) as error:
            raise self.error(at, str(error)) from None
        return values


def _parted(source: _Source, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split `[broker]` into checked start-up settings and run-time settings."""
    tunable = [*SCOPES["broker"], *SCOPED_ALIASES["broker"]]
    tunable += [alias for alias, ours in ALIASES.items() if ours in SCOPES["broker"]]
    at_start: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in given.items():
        if name in NAMES:
            ours = NAMES[name]
            try:
                read = read_start(name, value)
            except ConfigError as error:
                raise source.error(("broker", name), str(error)) from None
            if at_start.get(ours, read) != read:
                other = next(each for each in given if NAMES.get(each) == ours)
                sentence = contradiction(name, value, other, given[other], ours.replace("_", "-"))
                raise source.error(("broker", name), sentence)
            at_start[ours] = read
        elif name in tunable:
            rest[name] = value
        else:
            sentence = unknown_name("[broker]", "setting", name, [*NAMES, *tunable], ())
            if name in FOREIGN:
                sentence = f"[broker] has no setting '{name}', which is one of Artemis; {FOREIGN[name]}"
            raise source.error(("broker", name), sentence)
    return at_start, rest


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line of each table and key on a line of its own, because the parser reports no lines."""
    import tomllib

    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        key = KEY.match(line)
        if key is not None:
            lines.setdefault((*table, key[1].strip("\"'")), number)
        elif HEADER.fullmatch(line):
            try:
                table = _path(tomllib.loads(line))
            except tomllib.TOMLDecodeError:
                continue  # Part of a longer value.
            lines.setdefault(table, number)
    return lines


def _path(parsed: dict[str, Any]) -> tuple[str, ...]:
    """Return the keys down to the innermost of nested tables with one key each."""
    keys: list[str] = []
    while parsed:
        key, parsed = next(iter(parsed.items()))
        keys.append(key)
    return tuple(keys)


def without_secrets(value: object) -> object:
    """Return the value of a setting for display: a store's URL without its password."""
    if not isinstance(value, str):
        return value
    return PASSWORD.sub(rf"\1{MASK}", USER_INFO.sub(rf"\1{MASK}@", value))


def changed_settings(settings: Settings) -> dict[str, object]:
    """Return the start-up settings that differ from their defaults, by name, without secrets."""
    return {str(row["setting"]): row["value"] for row in start_rows(settings) if row["value"] != row["default"]}


def start_rows(settings: Settings) -> list[dict[str, object]]:
    """Return all start-up settings, in the order of the documentation."""
    return [
        {
            "setting": name.replace("_", "-"),
            "value": without_secrets(getattr(settings, name)),
            "default": getattr(DEFAULTS, name),
            "from": settings.sources.get(name, DEFAULT),
        }
        for name in AT_START
    ]


def table_rows(settings: Settings) -> list[dict[str, object]]:
    """Return the tables of the settings file other than settings by pattern; secrets are masked."""
    fields: dict[str, object] = {}
    if settings.users is not None:
        fields["users"] = {user.name: MASK for user in settings.users}
    if settings.tokens is not None:
        fields["oauth"] = "configured"
    if settings.back_end is not None:
        fields["auth-http"] = "configured"
    if settings.hook is not None:
        fields["alarm-hook"] = {"url": settings.hook.server, "signed": bool(settings.hook.secret)}
    if settings.tls is not None:
        fields["tls"] = {"certificate": str(settings.tls.files.certificate), "names": sorted(settings.tls.names)}
    return [
        {"setting": f"[{name}]", "value": value, "default": None, "from": str(settings.file)}
        for name, value in fields.items()
    ]
