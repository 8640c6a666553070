"""The command line: arguments in, one call out."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import penstock
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client.control import Control
    from penstock.config import Settings

COLLECT_AFTER = 50_000
"""New objects between two looks for cycles, instead of Python's 700: a few MiB at most."""
CONNECTIONS_LISTED = 100
"""Connections that `penstock status` names; the others are counted."""
DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/"


def _version() -> str:
    return f"penstock {penstock.__version__} ({'compiled' if penstock.compiled() else 'interpreted'})"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(message=_version())
def main() -> None:
    """Penstock is a message broker that cannot be overrun.

    Start one with `penstock serve`, point any AMQP 0-9-1 client at it, and ask `penstock why QUEUE` who is blocked by
    what.
    """


@main.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    multiple=True,
    help="Where to accept connections; may be repeated; port 0 picks one.",
)
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Data directory (taken and locked; queues are in memory for now).",
)
@click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="Settings file (TOML).")
@click.option(
    "--flow-log",
    metavar="DIR",
    help="Record what becomes of every gate there (docs/flow-log.md); default: in the data directory; `off`: nowhere.",
)
@click.option("--quiet", is_flag=True, help="Write no log of gates, blocks and refusals to standard error.")
def serve(listen: tuple[str, ...], data: Path | None, config: Path | None, flow_log: str | None, quiet: bool) -> None:
    """Run a broker until it is told to stop (SIGTERM or Ctrl-C).

    Prints one line that begins with `ready` and the addresses when it accepts connections. Without --listen it listens
    on 127.0.0.1:5672, where guest/guest may log in.
    """
    from penstock.config import Settings, load
    from penstock.server.logs import logging_to_stderr

    with _one_sentence():
        settings = Settings() if config is None else load(config)
        if listen:
            settings = replace(settings, listen=list(listen))
        if data is not None:
            settings = replace(settings, data=str(data))
        if flow_log is not None:
            settings = replace(settings, flow_log=flow_log)
        with contextlib.nullcontext() if quiet else logging_to_stderr():
            asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    from penstock.server.broker import Broker
    from penstock.server.machine import keep_freed_memory

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopped.set)
    _calm_the_collector()
    keep_freed_memory()
    async with Broker(settings=settings) as broker:
        loop.add_signal_handler(signal.SIGHUP, broker.reload)
        addresses = " ".join(f"amqp://{f'[{host}]' if ':' in host else host}:{port}" for host, port in broker.addresses)
        print(f"ready {addresses}", flush=True)
        await stopped.wait()


def _calm_the_collector() -> None:
    """Look for cycles seldom: a broker makes few, and a look walks over every queued message of the interpreted form.

    In a program of one's own the collector is that program's business.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 20)


@main.command()
@click.argument("queue", required=False)
@click.option("--connection", metavar="N|NAME", help="Ask about a connection: its number or name, as in the log.")
@click.option("--channel", metavar="CON/CH", help="Ask about a channel, such as 2/1.")
@click.option("--user", metavar="NAME", help="Ask about all connections of a user.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole answer, for programs.")
@click.option("--url", default=DEFAULT_URL, show_default=True, help="The broker to ask.")
def why(
    queue: str | None, connection: str | None, channel: str | None, user: str | None, as_json: bool, url: str
) -> None:
    """Say why nothing moves: who is blocked by QUEUE, by what and since when, and what the queue waits for.

    Or ask about a connection, a channel or a user: what blocks its producers, and what keeps messages from its
    consumers.
    """
    if sum(subject is not None for subject in (queue, connection, channel, user)) != 1:
        raise click.UsageError("give one of QUEUE, --connection, --channel and --user")
    with _asking(url) as control:
        answer = control.why(queue, connection=connection, channel=channel, user=user)
        if as_json:
            click.echo(json.dumps(answer, indent=2, ensure_ascii=False))
        else:
            for sentence in answer["sentences"]:
                click.echo(sentence)


SCOPES = click.Choice(["queue", "address", "vhost", "user", "connection"])


@main.command()
@click.argument("scope", type=SCOPES)
@click.argument("name")
@click.option("--reason", default="", help="Told to the clients that are blocked by it.")
@click.option("--url", default=DEFAULT_URL, show_default=True, help="The broker to ask.")
def block(scope: str, name: str, reason: str, url: str) -> None:
    """Hold all publishes to a queue, address or virtual host, or of a user or connection, until `penstock unblock`.

    Consumers go on. What is held longer than its hold deadline is refused, as with any other gate.
    """
    with _asking(url) as control:
        control.block(scope, name, reason)
        click.echo(f"{scope} {name} is blocked; `penstock unblock {scope} {name}` lets it go on")


@main.command()
@click.argument("scope", type=SCOPES)
@click.argument("name")
@click.option("--url", default=DEFAULT_URL, show_default=True, help="The broker to ask.")
def unblock(scope: str, name: str, url: str) -> None:
    """Let go on what `penstock block` holds."""
    with _asking(url) as control:
        control.unblock(scope, name)
        click.echo(f"{scope} {name} is not blocked any more")


@main.command()
@click.option("--url", default=DEFAULT_URL, show_default=True, help="The broker to ask.")
def status(url: str) -> None:
    """List the queues of a broker (depth, capacity, gate and who is blocked) and its connections."""
    with _asking(url) as control:
        answer = control.status()
        click.echo(f"penstock {answer['version']}, vhost {answer['vhost']}, {len(answer['connections'])} connections")
        for each in answer["queues"]:
            depth, capacity = each["depth"], each["capacity"]
            click.echo(
                f"{each['queue']}: {depth['messages']:,} messages, {depth['bytes']:,} bytes "
                f"of {_amount(capacity['bytes'])}, "
                f"gate {'open' if each['gate']['open'] else 'closed'}, {each['gate']['blocked']} producers blocked, "
                f"{each['consumers']} consumers{''.join(f', cursor {name}' for name in each['cursors'])}"
            )
        for each in answer["connections"][:CONNECTIONS_LISTED]:
            channels = "1 channel" if each["channels"] == 1 else f"{each['channels']:,} channels"
            state = ", blocked" if each["blocked"] else ""
            if each["held"]["messages"]:
                state += f", {each['held']['messages']:,} publishes held"
            click.echo(f"{each['name']}: {each['product'] or 'an unnamed client'}, {channels}{state}")
        more = len(answer["connections"]) - CONNECTIONS_LISTED
        if more > 0:
            click.echo(f"and {more:,} more connections")


ALL_SCOPES = click.Choice(["queue", "address", "vhost", "user", "connection", "producer", "broker"])
URL = click.option("--url", default=DEFAULT_URL, show_default=True, help="The broker to ask.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


@main.command("set")
@click.argument("scope", type=ALL_SCOPES)
@click.argument("words", metavar="[PATTERN] NAME=VALUE...", nargs=-1, required=True)
@JSON
@URL
def set_(scope: str, words: tuple[str, ...], as_json: bool, url: str) -> None:
    """Set what counts for all names that match PATTERN, at once and until `penstock unset`.

    In a pattern * is one word and # any number of words between dots; the most specific pattern wins. The broker has no
    pattern. For example: penstock set queue 'orders.#' capacity-messages=10000 stop-percent=60
    """
    from penstock.errors import ConfigError

    with _one_sentence():
        pattern, given = ("", words) if scope == "broker" else (words[0], words[1:])
        settings: dict[str, object] = {}
        if not given:
            raise ConfigError(f"nothing to set for {scope} '{pattern}'; NAME=VALUE comes after the pattern")
        for word in given:
            name, equals, value = word.partition("=")
            if not equals:
                raise ConfigError(f"{word} is not NAME=VALUE")
            if name in settings:
                raise ConfigError(f"{name} is given twice")
            settings[name] = value
        with _asking(url) as control:
            _tell_settings(control.set(scope, pattern, settings), as_json)


@main.command()
@click.argument("scope", type=ALL_SCOPES)
@click.argument("words", metavar="[PATTERN] [NAME...]", nargs=-1)
@JSON
@URL
def unset(scope: str, words: tuple[str, ...], as_json: bool, url: str) -> None:
    """Take back what `penstock set` said for PATTERN: the named settings, or all of them."""
    from penstock.errors import ConfigError

    with _one_sentence():
        if scope != "broker" and not words:
            raise ConfigError(f"scope {scope} needs the pattern that was set")
        pattern, names = ("", words) if scope == "broker" else (words[0], words[1:])
        with _asking(url) as control:
            _tell_settings(control.unset(scope, pattern, names or None), as_json)


def _tell_settings(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer))
        return
    said = " ".join(f"{name}={value}" for name, value in answer["settings"].items())
    click.echo(
        " ".join(part for part in (answer["scope"], answer["pattern"], said or "nothing set by command") if part)
    )
    for sentence in answer["sentences"]:
        click.echo(sentence)


@main.command()
@JSON
@URL
def settings(as_json: bool, url: str) -> None:
    """List what was set, by command and by the settings file, pattern by pattern."""
    with _asking(url) as control:
        found = control.settings()
    if as_json:
        click.echo(json.dumps(found))
        return
    rows = [
        (each["scope"], each["pattern"], f"{name}={value}", by)
        for each in found
        for by in ("command", "file")
        for name, value in each[by].items()
    ]
    _table(("scope", "pattern", "setting", "by"), rows)


@main.command()
@click.argument("scope", type=ALL_SCOPES)
@click.argument("name", default="")
@JSON
@URL
def show(scope: str, name: str, as_json: bool, url: str) -> None:
    """Show what is in effect for a queue (or another thing), and where each value comes from."""
    with _asking(url) as control:
        found = control.show(scope, name)
    if as_json:
        click.echo(json.dumps(found))
        return
    rows = [(each["setting"], "none" if each["value"] is None else str(each["value"]), each["from"]) for each in found]
    _table(("setting", "value", "from"), rows)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print columns, as wide as their widest cell."""
    lines = [heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _amount(value: int | None) -> str:
    return "no limit" if value is None else f"{value:,}"


@contextlib.contextmanager
def _asking(url: str) -> Iterator[Control]:
    """Connect to a broker for control operations."""
    from penstock.client.connection import Connection
    from penstock.client.control import Control

    with _one_sentence(), Connection(url) as connection, Control(connection) as control:
        yield control


@contextlib.contextmanager
def _one_sentence() -> Iterator[None]:
    """Turn an error that was foreseen into one sentence and exit code 1."""
    try:
        yield
    except PenstockError as error:
        click.echo(f"penstock: {error}", err=True)
        sys.exit(1)
