"""The command line: arguments in, one call out."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

import penstock
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client.control import Control
    from penstock.config import Settings

COLLECT_AFTER = 50_000
"""New objects between two looks for cycles, instead of Python's 700: a few MiB at most."""
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

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopped.set)
    _calm_the_collector()
    async with Broker(settings=settings) as broker:
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
    """List the queues of a broker: depth, capacity, gate and who is blocked."""
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
