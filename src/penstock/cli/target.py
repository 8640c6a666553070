"""Options that name the broker of a command: anywhere on the line, from the environment or from a profile."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

import click

from penstock.errors import ConfigError
from penstock.texts import hint, nearest, printable

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
DEFAULT_URL: Final = "amqp://guest:guest@127.0.0.1:5672/"
GIVEN: Final = "penstock.target"
"""Key in the context of a command: values of these options that precede it on the line."""
FILES: Final = ("cacert", "client_cert", "client_key")

_TEXTS: Final = (
    ("--profile", "NAME", "Connect to the broker of this profile (~/.config/penstock/profiles.toml)."),
    # Some commands have an argument VHOST: this option has another name inside.
    ("-p --vhost target_vhost", "NAME", "Act in this virtual host, instead of the one in the URL."),
    ("--cacert", "FILE", "With amqps://, trust the authorities in this file instead of the system's."),
    ("--client-cert", "FILE", "Show this certificate to the broker."),
    ("--client-key", "FILE", "File of its key; default: that of the certificate."),
)
_URL_TEXT: Final = "Connect to this broker; amqps:// is by TLS."


class TargetOption(click.Option):
    """Option that names a broker: `penstock help connection` describes it, and the help of commands does not."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return None: no line in the help."""
        return None

    def record(self) -> tuple[str, str]:
        """Return the line of the help page."""
        return f"{', '.join(self.opts)} {self.metavar}", self.help or ""


def _keep(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Store the value of an option for the command; the value nearest to the end of the line wins."""
    if value is not None:
        found = context.meta.setdefault(GIVEN, {})
        if parameter.name in ("url", "profile"):  # Either replaces the earlier value.
            for name in {"url", "profile"} - {parameter.name}:
                if found.get(name, (None, None))[1] is context:
                    raise click.UsageError("give one of --url and --profile")
                found.pop(name, None)
        found["vhost" if parameter.name == "target_vhost" else parameter.name] = (value, context)


def target_options(hidden: bool = True) -> list[TargetOption]:
    """Return the options of a group, which apply to the following command."""
    return [
        TargetOption(option.split(), metavar=metavar, expose_value=False, callback=_keep, help=text, hidden=hidden)
        for option, metavar, text in (("--url", "URL", _URL_TEXT), *_TEXTS)
    ]


def _resolve(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Return the URL of the broker, with the virtual host of --vhost. Raises ConfigError for an unusable profile."""
    url = _url_of(context, parameter, value)
    given = context.meta.get(GIVEN, {}).get("vhost")
    try:
        return url if given is None else in_vhost(url, str(given[0]))
    except ValueError:
        return url  # It cannot be read, and is refused where it is used.


def _url_of(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    if value is not None and context.get_parameter_source("url") is click.core.ParameterSource.COMMANDLINE:
        _keep(context, parameter, value)
    given = {name: found for name, (found, _) in context.meta.get(GIVEN, {}).items()}
    if "url" in given:
        return str(given["url"])
    path = profiles_file(os.environ)
    name = given.get("profile")
    if name is None:
        if value is not None:  # From the environment.
            return value
        name = os.environ.get(PROFILE_VARIABLE) or None
    known = read_profiles(path)
    if name is None:
        if DEFAULT_PROFILE not in known:
            return DEFAULT_URL
        name = DEFAULT_PROFILE
    found = profile_of(path, known, name)
    warning = exposed(path, known)
    if warning is not None and not context.resilient_parsing:
        click.echo(printable(f"penstock: warning: {warning}"), err=True)
    for file, its in (("cacert", found.cacert), ("client_cert", found.client_cert), ("client_key", found.client_key)):
        if its:
            context.meta.setdefault(GIVEN, {}).setdefault(file, (its, context))
    return found.url


def URL(command: Decorated) -> Decorated:
    """Add the options of a command that connects to a broker."""
    for name, metavar, text in reversed(_TEXTS):
        command = click.option(
            *name.split(),
            cls=TargetOption,
            metavar=metavar,
            expose_value=False,
            is_eager=True,
            callback=_keep,
            help=text,
        )(command)
    option = click.option(
        "--url", cls=TargetOption, metavar="URL", envvar="PENSTOCK_URL", callback=_resolve, help=_URL_TEXT
    )
    return option(command)


def in_vhost(url: str, vhost: str) -> str:
    """Return the URL of a broker with another virtual host."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{quote(vhost, safe='')}"))


def check_used(context: click.Context, name: str, command: click.Command) -> None:
    """Check that a command connects to a broker if options before it name one. Raises UsageError."""
    given = context.meta.get(GIVEN)
    if given and not isinstance(command, click.Group) and not any(each.name == "url" for each in command.params):
        option = f"--{next(iter(given)).replace('_', '-')}"
        raise click.UsageError(f"'{name}' connects to no broker and takes no {option}", ctx=context)


def tls_files() -> dict[str, str]:
    """Return the TLS files in the options of the present command, by option."""
    context = click.get_current_context(silent=True)
    given = {} if context is None else context.meta.get(GIVEN, {})
    return {name: str(given[name][0]) for name in FILES if name in given}


# Profiles: a file of brokers


FILE_VARIABLE: Final = "PENSTOCK_PROFILES"
"""Environment variable with the path of the file."""
PROFILE_VARIABLE: Final = "PENSTOCK_PROFILE"
"""Environment variable with the name of a profile."""
DEFAULT_PROFILE: Final = "default"
"""Profile that is used if nothing else names a broker."""
KEYS: Final = ("url", "password-file", "cacert", "client-cert", "client-key")
OCTETS_MAX: Final = 1024 * 1024
"""Largest file of profiles, in bytes."""


class Profile(NamedTuple):
    """Broker of a profile; fields without a value are empty."""

    url: str
    cacert: str = ""
    client_cert: str = ""
    client_key: str = ""


def profiles_file(environment: Mapping[str, str]) -> Path:
    """Return the path of the file: `PENSTOCK_PROFILES`, or penstock/profiles.toml in the XDG configuration folder."""
    given = environment.get(FILE_VARIABLE)
    if given:
        return _expanded(given)
    folder = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return _expanded(folder) / "penstock" / "profiles.toml"


def _expanded(text: str) -> Path:
    """Return a path with the home directory in place of ~; unchanged if the system knows none, as in some
    containers."""
    return Path(os.path.expanduser(text))  # The method of Path raises then.


def read_profiles(path: Path) -> dict[str, dict[str, str]]:
    """Return the profiles of a file by name, {} without a file. Raises ConfigError."""
    if not os.path.exists(path):
        return {}
    import tomllib  # Most commands have no file of profiles, and start without the import.

    try:
        with path.open("rb") as file:
            octets = file.read(OCTETS_MAX + 1)
        if len(octets) > OCTETS_MAX:
            raise ConfigError(f"'{path}' has more than {OCTETS_MAX:,} bytes, which no file of profiles needs")
        found = tomllib.loads(octets.decode())
    except OSError as error:
        raise ConfigError(f"cannot read the profiles in '{path}': {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"'{path}' is not TOML: {error}") from None
    for name, table in found.items():
        _check(path, name, table)
    return found


def _check(path: Path, name: str, table: object) -> None:
    """Check one profile. Raises ConfigError."""
    if not isinstance(table, dict):
        raise ConfigError(f"'{path}': '{name}' is no profile: write [{name}] and its url below")
    for key, value in table.items():
        if key not in KEYS:
            raise ConfigError(f"'{path}': unknown key '{key}' in profile {name}; {hint(key, KEYS)}")
        if not isinstance(value, str):
            raise ConfigError(f"'{path}': {key} of profile {name} must be a text in quotes")
    if "url" not in table:
        raise ConfigError(f"'{path}': profile {name} has no url")


def profile_of(path: Path, profiles: dict[str, dict[str, str]], name: str) -> Profile:
    """Return a profile by name, with paths relative to the file's folder. Raises ConfigError."""
    if name not in profiles:
        near = nearest(name, profiles)
        known = ", ".join(sorted(profiles)[:20]) or "none"
        clause = f"did you mean {near}?" if near else f"known are: {known}"
        raise ConfigError(f"no profile '{name}' in '{path}'; {clause}")
    table = profiles[name]
    cacert, client_cert, client_key = (_placed(path, table.get(key, "")) for key in KEYS[2:])
    url = table["url"]
    if "password-file" in table:
        url = _with_password(path, name, url, _placed(path, table["password-file"]))
    return Profile(url, cacert, client_cert, client_key)


def _placed(path: Path, file: str) -> str:
    return str(path.parent / _expanded(file)) if file else ""


def _with_password(path: Path, name: str, url: str, file: str) -> str:
    """Return a URL with the password from a file. Raises ConfigError."""
    try:
        password = Path(file).read_text().rstrip("\r\n")
        parts = urlsplit(url)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"'{path}': cannot read the password-file '{file}' of profile {name}: {reason}") from None
    except ValueError:  # Its text may repeat a password.
        raise ConfigError(f"'{path}': the url of profile {name} cannot be read") from None
    user, at, host = parts.netloc.rpartition("@")
    if not at or ":" in user:
        raise ConfigError(f"'{path}': with a password-file, the url of profile {name} has a user and no password")
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}"))


def exposed(path: Path, profiles: dict[str, dict[str, str]]) -> str | None:
    """Return a warning if others can read a password of the file, else None."""
    open_files = [path] if any(_holds_password(table["url"]) for table in profiles.values()) else []
    open_files += [
        Path(_placed(path, table["password-file"])) for table in profiles.values() if "password-file" in table
    ]
    for each in open_files:
        try:
            mode = each.stat().st_mode
        except OSError:
            continue
        if os.name == "posix" and mode & (stat.S_IRGRP | stat.S_IROTH):
            return f"others can read the password in '{each}': `chmod 600 '{each}'` keeps it from them"
    return None


def _holds_password(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return True
    return bool(parts.password) or "password=" in parts.query
