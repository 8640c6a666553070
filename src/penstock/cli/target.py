"""Options that say which broker a command is for: anywhere on the line, from the environment or from a profile."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from penstock.cli import profiles
from penstock.errors import ConfigError
from penstock.texts import printable

if TYPE_CHECKING:
    from penstock.client.options import Options

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
DEFAULT_URL: Final = "amqp://guest:guest@127.0.0.1:5672/"
GIVEN: Final = "penstock.target"
"""Key in the context of a command: values of these options that were given before it on the line."""
PRODUCT: Final = "penstock-cli"
"""Name of a command as a client; the broker logs connections of an operator's at the level debug."""
FILES: Final = ("cacert", "client_cert", "client_key")

_TEXTS: Final = (
    ("--profile", "NAME", "Connect to the broker of this profile (~/.config/penstock/profiles.toml)."),
    ("--cacert", "FILE", "With amqps://, trust the authorities in this file instead of the system's."),
    ("--client-cert", "FILE", "Show this certificate to the broker."),
    ("--client-key", "FILE", "File of its key; default: that of the certificate."),
)
_URL_TEXT: Final = "Connect to this broker; amqps:// is by TLS."


def _keep(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Keep the value of an option for the command; one that is nearer to its end counts."""
    if value is not None:
        found = context.meta.setdefault(GIVEN, {})
        if parameter.name in ("url", "profile"):  # Either replaces what was said before.
            for name in {"url", "profile"} - {parameter.name}:
                if found.get(name, (None, None))[1] is context:
                    raise click.UsageError("give one of --url and --profile")
                found.pop(name, None)
        found[parameter.name] = (value, context)


def target_options(hidden: bool) -> list[click.Option]:
    """Return the options of a group: they count for the command that follows."""
    return [
        click.Option([option], metavar=metavar, expose_value=False, callback=_keep, help=text, hidden=hidden)
        for option, metavar, text in (("--url", "URL", _URL_TEXT), *_TEXTS)
    ]


def _resolve(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Return the URL of the broker. Raises ConfigError for a profile that cannot be used."""
    if value is not None and context.get_parameter_source("url") is click.core.ParameterSource.COMMANDLINE:
        _keep(context, parameter, value)
    given = {name: found for name, (found, _) in context.meta.get(GIVEN, {}).items()}
    if "url" in given:
        return str(given["url"])
    path = profiles.profiles_file(os.environ)
    name = given.get("profile")
    if name is None:
        if value is not None:  # From the environment.
            return value
        name = os.environ.get(profiles.PROFILE_VARIABLE) or None
    known = profiles.read_profiles(path)
    if name is None:
        if profiles.DEFAULT_PROFILE not in known:
            return DEFAULT_URL
        name = profiles.DEFAULT_PROFILE
    found = profiles.profile_of(path, known, name)
    warning = profiles.exposed(path, known)
    if warning is not None and not context.resilient_parsing:
        click.echo(printable(f"penstock: warning: {warning}"), err=True)
    for file, its in (("cacert", found.cacert), ("client_cert", found.client_cert), ("client_key", found.client_key)):
        if its:
            context.meta.setdefault(GIVEN, {}).setdefault(file, (its, context))
    return found.url


def URL(command: Decorated) -> Decorated:
    """Add the options of a command that connects to a broker."""
    option = click.option(
        "--url",
        metavar="URL",
        envvar="PENSTOCK_URL",
        show_default=DEFAULT_URL,
        show_envvar=True,
        callback=_resolve,
        help=_URL_TEXT,
    )
    for name, metavar, text in reversed(_TEXTS):
        command = click.option(name, metavar=metavar, expose_value=False, is_eager=True, callback=_keep, help=text)(
            command
        )
    return option(command)


def check_used(context: click.Context, name: str, command: click.Command) -> None:
    """Check that a command connects to a broker if options before it name one. Raises UsageError."""
    given = context.meta.get(GIVEN)
    if given and not isinstance(command, click.Group) and not any(each.name == "url" for each in command.params):
        option = f"--{next(iter(given)).replace('_', '-')}"
        raise click.UsageError(f"'{name}' connects to no broker and takes no {option}", ctx=context)


def tls_files() -> dict[str, str]:
    """Return the files for TLS that the present command was given, by option."""
    context = click.get_current_context(silent=True)
    given = {} if context is None else context.meta.get(GIVEN, {})
    return {name: str(given[name][0]) for name in FILES if name in given}


def options_of(url: str, **fields: object) -> Options:
    """Return the options of a connection, with the files for TLS of the present command. Raises ConfigError."""
    from penstock.client.options import Options

    try:
        tls = _tls_of_files(url.startswith("amqps:"))
        found = Options(url, {"product": PRODUCT, "reconnect": False, **fields} | ({} if tls is None else {"tls": tls}))
    except ValueError as error:
        raise ConfigError(f"--url: {error}") from None  # The URL itself may hold a password.
    if found["protocol"] == "auto":
        found.values["protocol"] = "amqp091"  # It takes half of the imports.
    return found


def _tls_of_files(is_encrypted: bool) -> Any:
    """Return the context of the files for TLS of the present command; None without any. Raises ConfigError."""
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
